"""The names of the kernel language at the top level of :mod:`keyprint`, and the modules they live in."""

from __future__ import annotations

import builtins

from .._native import _builtin_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["NAMES"]

#: What the language defines that Python has no builtin of: the rest are Python's own names, which kernels know.
_BUILTINS: Final = [
    name
    for name in _builtin_names()
    if "." not in name and (not hasattr(builtins, name) or name in ("abs", "max", "min", "pow", "round"))
]

#: Where a name lives: module and, if it is another one there, the name.
NAMES: Final[dict[str, tuple[str, str]]] = {
    **{name: ("language.builtin", name) for name in _BUILTINS},
    **{
        name: ("language.types.dtypes", name)
        for name in (
            "f16",
            "bf16",
            "f32",
            "f64",
            "i8",
            "i16",
            "i32",
            "i64",
            "u8",
            "u16",
            "u32",
            "u64",
            "DType",
        )
    },
    **{
        name: ("language.builtin", name)
        for name in ("graph", "graph_do_while", "graph_parallel", "graph_parallel_context")
    },
    "GraphStatus": ("language.graph.status", "GraphStatus"),
    "TaskGraph": ("language.graph.task_graph", "TaskGraph"),
    "bool": ("language.types.dtypes", "bool_"),
    "Matrix": ("language.types.tensors", "Matrix"),
    "Vector": ("language.types.tensors", "Vector"),
    "ndarray": ("language.types.arrays", "ndarray"),
    "tensor": ("language.types.arrays", "ndarray"),
    "asarray": ("language.types.arrays", "asarray"),
    "from_dlpack": ("language.types.arrays", "asarray"),
    "field": ("language.types.field", "field"),
    "Field": ("language.types.field", "Field"),
    "Struct": ("language.types.structs", "Struct"),
    "dataclass": ("language.types.structs", "dataclass"),
    **{
        name: ("language.types.annotations", name)
        for name in ("NDArray", "Template", "Tensor", "template", "types")
    },
    **{name: ("language.kernel", name) for name in ("Func", "func", "kernel")},
    **{
        name: ("language.types.data_oriented", name)
        for name in ("FIELD_METADATA_CACHE_VALUE", "data_oriented")
    },
    **{name: ("language.settings", name) for name in ("cpu", "cuda", "gpu", "init", "reset", "sync")},
    **{
        name: ("language.errors", name)
        for name in (
            *(
                "CompilerError",
                "DeviceError",
                "DeviceMemoryError",
                "KernelAssertionError",
                "KernelError",
                "KernelIndexError",
                "KernelNameError",
            ),
            *("KernelRuntimeError", "KernelSyntaxError", "KernelTypeError"),
        )
    },
    "compile": ("language.ahead", "compile"),
    "profile": ("language.profile", "profile"),
    "math": ("language.mathematics", "math"),
}
