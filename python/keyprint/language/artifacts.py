"""From a specialization to an artifact, and from an artifact to native code that reports its errors."""

from __future__ import annotations

import os

from .._native import _language_version, _load_kernel, _lower, _missing_ways, _read_status, _take_failure
from ..dispatch.log import log
from ..dispatch.specialization import Artifact, NativeCode, Target
from ..version import __version__
from .compile.toolchain import compile_c
from .errors import (
    KernelAssertionError,
    KernelIndexError,
    KernelRuntimeError,
    KernelTypeError,
    make_kernel_error,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..dispatch.specialization import Specialization

__all__ = ["TOOL", "WAYS", "compile_kernel", "load_kernel"]

#: How graphs are launched on devices, if programs say so.
WAYS = ("fused", "block", "grid", "nodes", "host")

#: The version of what is kept with compiled code. Whoever changes what is compiled or kept (`compile_kernel`,
#: `load_kernel`, `compile/host.py`) raises it; the native compiler is part of keys by its own digest.
_RECORD = 5

#: The parts of artifacts: code for the CPU, code for a device, and what decides about loops there.
_SHARED_OBJECT = "kernel.so"
_CUBIN = "kernel.cubin"
_CONDITIONS = "conditions.cubin"

#: What compiled kernels are made by: another version of the compiler, or of what it keeps, shares nothing with this
#: one.
TOOL = ("keyprint-kernels", f"{__version__}+{_language_version()}.{_RECORD}")


# -- Compiling -------------------------------------------------------------------------------------


def compile_kernel(
    specialization: Specialization, dispatcher: Any, annotations: dict[str, Any], variant: tuple[bool, bool]
) -> Artifact:
    """Compile a specialization: lower it, write C or CUDA C++, and have that compiled."""
    from .compile.host import Host

    identity, device = _identity_and_device(specialization.target)
    arch, _, compiler, flags, (default_int, default_float, debug) = identity
    is_cuda = arch == "cuda"
    host = Host(dispatcher.options.rules.sources, device)
    given = []
    for name, argument in specialization.arguments.items():
        try:
            given.append(host.parameter(name, argument, annotations.get(name)))
        except Exception as error:
            if not hasattr(error, "language_code"):
                raise
            raise make_kernel_error(
                error.language_code,
                f"{error.message} (parameter `{name}` of `{specialization.function.__qualname__}`)",  # type: ignore[attr-defined]
                error.hint,  # type: ignore[attr-defined]
                [],
                [],
            ) from None
    code = _lower(host, specialization.function, given, default_int, default_float, debug, *variant, is_cuda)
    for message, file, line in code.warnings:
        import warnings

        warnings.warn_explicit(message, UserWarning, file, line)
    dump = os.environ.get("KEYPRINT_DUMP")
    if dump:
        _dump(dump, specialization, code)
    if is_cuda:
        from .compile.cuda import compile_conditions, compile_cuda, disassembled

        cubin, ptx = compile_cuda(code.text, compiler, flags)
        parts = {_CUBIN: cubin}
        if code.graph is not None and code.graph["loops"]:
            parts[_CONDITIONS] = compile_conditions(compiler, flags)
        if dump:
            stages = {".ptx": ptx.rstrip(b"\0"), ".cubin": cubin}
            instructions = disassembled(cubin)
            if instructions:
                stages[".sass"] = instructions
            _dump_bytes(dump, specialization, stages)
    else:
        parts = {_SHARED_OBJECT: compile_c(code.text, compiler, flags)}
    metadata = {
        "slots": code.slots,
        "results": code.results,
        "returned": _plain(code.returned),
        "sites": [list(site) for site in code.sites],
        "arrays": code.arrays,
        "graph": code.graph,
        "plan": code.plan,
    }
    artifact = Artifact(parts, metadata)
    # Code that has the addresses of fields in it is never stored.
    artifact.keep = host.captured
    return artifact


def _identity_and_device(target: Any) -> tuple[Any, int | None]:
    return (target.identity, target.device) if isinstance(target, Target) else (target, None)


def _plain(returned: Any) -> Any:
    if isinstance(returned, list):
        return {"tuple": [_plain(item) for item in returned]}
    return {"shape": list(returned[0]), "dtype": returned[1]} if isinstance(returned, tuple) else returned


def _dump(directory: str, specialization: Specialization, code: Any) -> None:
    """Keep every stage of a kernel, for people to read."""
    ending = ".c" if code.plan is None else ".cu"
    texts = {".ir": code.ir, ".optimised.ir": code.optimised, ending: code.text}
    _dump_bytes(directory, specialization, {name: text.encode() for name, text in texts.items()})


def _dump_bytes(directory: str, specialization: Specialization, stages: dict[str, bytes]) -> None:
    os.makedirs(directory, exist_ok=True)
    base = os.path.join(
        directory, f"{specialization.name.replace('<locals>.', '')}-{specialization.key.hex()[:12]}"
    )
    for ending, content in stages.items():
        with open(base + ending, "wb") as file:
            file.write(content)


# -- Loading ---------------------------------------------------------------------------------------


def load_kernel(artifact: Artifact, dispatcher: Any, way: str | None = None) -> NativeCode:
    """Make an artifact executable. ``way`` is how graphs are launched on a device, if it is not to be chosen."""
    known = artifact.metadata
    if artifact._entry is not None:
        artifact._entry._check_trust()
    plan = known["plan"]
    if plan is None:
        loaded: Any = _load_kernel(artifact[_SHARED_OBJECT])
        address, program = loaded.address, None
    else:
        # Only kernels of devices need it.
        from .._native import _load_program

        assert artifact.specialization is not None
        identity, device = _identity_and_device(artifact.specialization.target)
        assert device is not None
        conditions = None
        if known["graph"] is not None:
            way = way or _way_of_environment()
            if known["graph"]["loops"]:
                conditions = artifact[_CONDITIONS]
            if way in (None, "fused"):
                # Only graphs need it, whose way is to be chosen.
                from .compile.graph_costs import settle_costs

                settle_costs(device, identity[2], identity[3], dispatcher.options.store)
        loaded = program = _load_program(dispatcher.name, artifact[_CUBIN], conditions, plan, device, way)
        address = 0
        if known["graph"] is not None:
            _say_what_is_missing(dispatcher.name, program, way)
    record = known["graph"]
    labels: list[Any] = []
    outcomes = None
    if record is not None and record["has_checkpoints"]:
        # Only graphs with checkpoints need it.
        from .graph.kernel import labels_of
        from .graph.status import GraphStatus

        labels = labels_of(record, dispatcher.function)
        outcomes = [GraphStatus(False), *(GraphStatus(True, label) for label in labels)]
    return NativeCode(
        address,
        known["slots"],
        result=_result(known),
        keep=(loaded, artifact.keep),
        errors=lambda status: _error(status, known, dispatcher),
        unlocks=True,
        outcomes=outcomes,
        starts=lambda label: _start(label, labels, outcomes, dispatcher),
        about=(known, labels, program),
        program=program,
    )


def _say_what_is_missing(name: str, program: Any, way: str | None) -> None:
    """Write to the log which ways to launch a graph are not there."""
    for missing, why in _missing_ways(program):
        log(
            "warning" if missing == way else "info",
            f"`{name}` cannot be launched by way of `{missing}`: {why}",
        )


def _way_of_environment() -> str | None:
    """Return how graphs are launched on a device, if that is said to all of them."""
    way = os.environ.get("KEYPRINT_GRAPH") or None
    if way is not None and way not in WAYS:
        raise KernelRuntimeError(
            f"`KEYPRINT_GRAPH` is `{way}`, which is no way to launch graphs",
            code="graph-way",
            hint=f"it is one of {', '.join(f'`{known}`' for known in WAYS)}; unset it to have the quickest chosen",
        )
    return way


def _start(label: Any, labels: list[Any], outcomes: Any, dispatcher: Any) -> int:
    """Return the number of the checkpoint that a launch is to begin at."""
    if outcomes is None:
        raise KernelRuntimeError(
            f"`{dispatcher.name}` has no checkpoints to resume from",
            code="unknown-label",
            hint="write `@kernel(graph=True, checkpoints=True)`",
        )
    if hasattr(type(label), "__index__") and not isinstance(label, bool):
        number = label.__index__()
        for at, known in enumerate(labels):
            if int(known) == number:
                return at + 1
    shown = ", ".join(f"`{known!r}`" for known in labels)
    raise KernelRuntimeError(
        f"`{dispatcher.name}` has no checkpoint `{label!r}` for these arguments",
        code="unknown-label",
        hint=f"its labels are {shown}" if labels else "it has no labelled checkpoint at all",
    )


def _result(known: Any) -> Any:
    kinds = [_kind(name) for name in known["results"]]
    returned = known["returned"]
    if returned is None:
        return None
    if isinstance(returned, str):
        return kinds[0]

    def build(values: tuple[Any, ...]) -> Any:
        return _built(returned, iter(values))

    return kinds, build


def _kind(name: str) -> str:
    return "bool" if name == "bool" else "f64" if "f" in name else {"i": "i64", "u": "u64"}[name[0]]


def _built(returned: Any, values: Any) -> Any:
    if isinstance(returned, str):
        return next(values)
    if "tuple" in returned:
        return tuple(_built(item, values) for item in returned["tuple"])
    from .types.tensors import make

    shape = tuple(returned["shape"])
    many = shape[0] if len(shape) == 1 else shape[0] * shape[1]
    return make(shape, tuple(next(values) for _ in range(many)), returned["dtype"])


# -- What went wrong -------------------------------------------------------------------------------


def _error(status: int, known: Any, dispatcher: Any) -> BaseException | None:
    code, at = _read_status(status) or ("", 0)
    array = known["arrays"][at] if at < len(known["arrays"]) else "?"
    name = dispatcher.name
    if code == "failed":
        return _failed(known, dispatcher)
    if code == "too-long":
        return KernelRuntimeError(
            f"`{array}` of `{name}` has a dimension of more than 2,147,483,647 elements",
            code="too-long",
            hint="split the array",
        )
    if code == "overlap":
        return KernelRuntimeError(
            f"`{array}` of `{name}` overlaps another array that the kernel writes in the same loop",
            code="overlap",
            hint="pass arrays that do not overlap, or the same array for both",
        )
    if code != "element-shape":
        return None
    return KernelTypeError(
        f"the last dimensions of `{array}` of `{name}` are not those of the elements that it is annotated with",
        code="element-shape",
        hint="pass an array whose last dimensions are the sizes of the vector or matrix",
    )


def _failed(known: Any, dispatcher: Any) -> BaseException:
    failure = _take_failure()
    if failure is None:
        return KernelRuntimeError(f"a check of `{dispatcher.name}` failed", code="assertion")
    site, values = failure
    function, statement, text = known["sites"][site]
    # Only kernels that fail need it.
    from .compile.places import place_of

    trace = place_of(function, statement, dispatcher)
    what, _, rest = text.partition(":")
    if what == "bounds":
        index, shape = tuple(values[::2]), tuple(values[1::2])
        shown = index[0] if len(index) == 1 else index
        array = rest.partition("#")[0]
        name = f"`{array}`" if " " not in array else array
        return KernelIndexError(
            f"index {shown} of {name} is out of range for shape {shape}",
            code="bounds",
            hint="indices count from 0, and negative ones are not taken from the end",
            trace=trace,
        )
    if what == "division":
        return KernelRuntimeError("division of a whole number by zero", code="division", trace=trace)
    if what == "shift":
        return KernelRuntimeError(f"a shift by {values[0]} bits", code="shift", trace=trace)
    if what == "cast":
        return KernelRuntimeError(f"{values[0]} does not fit into a `{rest}`", code="range", trace=trace)
    message = rest
    for value in values:
        message = message.replace("{}", str(value), 1)
    message = message.replace("{{", "{").replace("}}", "}")
    return KernelAssertionError(message or "an assertion does not hold", code="assertion", trace=trace)
