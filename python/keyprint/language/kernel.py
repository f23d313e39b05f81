"""The decorators: kernels, and functions that kernels call."""

from __future__ import annotations

import os
import types

from .._native import _language_version, _load_kernel, _lower, _read_status, _set_binder, _take_failure
from ..dispatch.kernel import jit
from ..dispatch.specialization import Artifact, NativeCode
from ..functions.key import unwrap
from ..lazy import BUSY
from ..version import __version__
from .compile.places import place_of
from .compile.toolchain import compile_c
from .errors import (
    KernelAssertionError,
    KernelIndexError,
    KernelRuntimeError,
    KernelTypeError,
    make_kernel_error,
)
from .graph.status import GraphStatus
from .settings import TARGET, store
from .types.annotations import kind_of
from .types.postponed import annotations_of, names_of_caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, overload

    from ..dispatch.specialization import Specialization
    from .graph.task_graph import TaskGraph

__all__ = ["Func", "func", "kernel"]

#: The version of what is kept with compiled code. Whoever changes `_compile` or `_load` raises it.
_RECORD = 3

#: What compiled kernels are made by: another version of the compiler, or of what it keeps, shares nothing with this
#: one.
_TOOL = ("keyprint-kernels", f"{__version__}+{_language_version()}.{_RECORD}")


class Func:
    """A function that kernels call. It is inlined where it is called; outside of kernels it is the function."""

    def __init__(self, function: types.FunctionType) -> None:
        self.__wrapped__ = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__module__ = function.__module__

    def __keyprint_function__(self) -> types.FunctionType:
        return self.__wrapped__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.__wrapped__(*arguments, **named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<Func {self.__module__}.{self.__qualname__}>"


def func(function: Any = None) -> Any:
    """Make a function that kernels can call. It is inlined; recursion is an error."""

    def make(function: Any) -> Any:
        wrap = type(function) if isinstance(function, (staticmethod, classmethod)) else None
        inner = unwrap(function)
        try:  # noqa: SIM105 (`contextlib` is not loaded for this)
            # Names of the function that defines this one are only known now.
            _evaluate(inner)
        except (NameError, AttributeError):
            # What is defined later is looked up when it is needed.
            pass
        made = Func(inner)
        return made if wrap is None else wrap(made)

    return make if function is None else make(function)


if TYPE_CHECKING:

    @overload
    def kernel(function: Callable[..., Any]) -> Any: ...

    @overload
    def kernel(
        *,
        fastcache: bool | None = None,
        graph: bool = False,
        checkpoints: bool = False,
        on_drift: str = "raise",
    ) -> Callable[[Callable[..., Any]], Any]: ...


def kernel(
    function: Any = None,
    *,
    fastcache: bool | None = None,
    graph: bool = False,
    checkpoints: bool = False,
    on_drift: str = "raise",
) -> Any:
    """Make a kernel: compiled for the arguments that it is called with, and kept for the next process.

    Parameters are annotated: with types of numbers (``kp.f32``), arrays (``kp.types.NDArray[kp.f32, 1]``),
    vectors (``kp.types.vector(3, kp.f32)``), dataclasses, or ``kp.template()`` for anything as it is. The
    outermost loops run in parallel.

    When a global that the kernel reads changes after it was compiled, the next call raises
    :class:`~keyprint.DriftError`; with ``on_drift="rekey"`` it compiles again. ``fastcache=False`` keeps
    compiled code in memory only.

    With ``graph=True``, the kernel is a graph of tasks: its loops and statements, with loops that depend on an array
    (``while kp.graph.do_while(x):``) and independent sections (``kp.graph.parallel_context``). It returns nothing;
    with ``checkpoints=True`` it returns a :class:`~keyprint.GraphStatus`, and can be left and resumed at
    ``with kp.checkpoint(label, yield_on=flag):``.
    """
    if checkpoints and not graph:
        raise TypeError("only graphs have checkpoints\nhint: write `@kernel(graph=True, checkpoints=True)`")

    def make(function: Any) -> Any:
        return _make(function, fastcache, on_drift, (bool(graph), bool(checkpoints)))

    return make if function is None else make(function)


def _make(function: Any, fastcache: bool | None, on_drift: str, variant: tuple[bool, bool]) -> Any:
    wrap = type(function) if isinstance(function, (staticmethod, classmethod)) else None
    inner = unwrap(function)
    options = _options(inner)
    if variant[1] and "from_checkpoint" in options["names"]:
        raise TypeError(
            f"`{inner.__qualname__}` has a parameter `from_checkpoint`, which `resume` takes for itself\n"
            "hint: give it another name"
        )
    keeper: list[Any] = []

    def compile(specialization: Specialization) -> Artifact:
        with BUSY:
            return _compile(specialization, keeper[0], options["annotations"], variant)

    def load(artifact: Artifact) -> NativeCode:
        with BUSY:
            return _load(artifact, keeper[0])

    made = jit(
        inner,
        compile=compile,
        load=load,
        store=None if fastcache is False else store,
        target=TARGET,
        scalars=options["scalars"],
        templates=options["templates"],
        open_members=options["open_members"],
        on_drift=on_drift,
        on_opaque=_Opaque(inner.__qualname__),
        absent_members=True,
        tool=_TOOL,
        compiled_by=[kernel, func],
        variant=variant,
    )
    keeper.append(made._dispatcher)
    made.__dict__["_primal"] = _Primal(made._dispatcher)
    made.__dict__["graph"] = _Graph(made._dispatcher)
    if variant[0]:
        from .graph.kernel import BoundGraph

        _set_binder(made, BoundGraph)
    return made if wrap is None else wrap(made)


def _evaluate(function: types.FunctionType) -> None:
    """Have the annotations of a function be what they mean, if they are written as texts, or postponed."""
    if any(isinstance(one, str) for one in function.__annotations__.values()):
        function.__annotations__ = annotations_of(function, names_of_caller())


def _options(function: types.FunctionType) -> dict[str, Any]:
    """Return how parameters are taken, by their annotations."""
    try:
        _evaluate(function)
    except Exception as error:
        raise make_kernel_error(
            "annotation",
            f"an annotation of `{function.__qualname__}` cannot be evaluated: {error}",
            "define the names in it before the kernel",
            [],
            [],
        ) from error
    annotations = dict(function.__annotations__)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    scalars: dict[str, str] = {}
    templates, open_members = [], []
    kind: str
    what: Any
    for name in names:
        kind, what = kind_of(annotations[name]) if name in annotations else ("template", None)
        if kind == "scalar":
            scalars[name] = what.name
        elif kind == "tensor":
            scalars[name] = what.dtype.name
        elif kind == "object":
            open_members.append(name)
        elif kind == "unknown":
            raise make_kernel_error(
                "annotation",
                f"the parameter `{name}` of `{function.__qualname__}` is annotated with {what!r}, which is no type of "
                "the kernel language",
                "use `kp.f32`, `kp.types.NDArray[kp.f32, 1]`, `kp.template()`, or a dataclass",
                [],
                [],
            )
        else:
            templates.append(name)
    return {
        "annotations": annotations,
        "names": names,
        "scalars": scalars,
        "templates": templates,
        "open_members": open_members,
    }


class _Opaque:
    """Says, once for each place, that a kernel is compiled for this process only."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._told: set[tuple[str, str]] = set()

    def __call__(self, path: str, value: Any) -> None:
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if (path, name) in self._told:
            return
        self._told.add((path, name))
        import warnings

        warnings.warn(
            f"`{path}` of the kernel `{self._kernel}` is a `{name}`, which has no cache signature: what is "
            "compiled for it is not kept for other processes\nhint: give the class a `__cache_signature__`, or make it a "
            "dataclass",
            UserWarning,
            stacklevel=3,
        )


class _Graph:
    """``kernel.graph``: its tasks, loops and checkpoints."""

    __slots__ = ("_dispatcher",)

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    def __call__(self, /, *arguments: Any, **named: Any) -> TaskGraph:
        """Return the graph of the last launch; with arguments, the one for them, which is not launched."""
        from .graph.kernel import graph_of

        return graph_of(self._dispatcher.kernel(), arguments, named)


class _Primal:
    """What programs that know Quadrants ask a kernel."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def src_ll_cache_observations(self) -> Any:
        """Whether a key was made, an artifact found, loaded, stored."""
        counts = self._dispatcher.counts
        return types.SimpleNamespace(
            cache_key_generated=counts["key_made"] > 0,
            cache_validated=counts["validated"] > 0,
            cache_loaded=counts["validated"] > 0 and counts["loaded"] > 0,
            cache_stored=counts["stored"] > 0,
        )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("checkpoint_", "graph_")):
            raise AttributeError(f"a kernel has no `{name}`")
        from .graph.kernel import tables_of

        tables = tables_of(self._dispatcher.kernel())
        if name not in tables:
            raise AttributeError(f"a kernel has no `{name}`")
        return tables[name]


# -- Compiling -------------------------------------------------------------------------------------


def _compile(
    specialization: Specialization, dispatcher: Any, annotations: dict[str, Any], variant: tuple[bool, bool]
) -> Artifact:
    from .compile.host import Host

    _, _, compiler, flags, (default_int, default_float, debug) = specialization.target
    host = Host(dispatcher.options.rules.sources)
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
    code = _lower(host, specialization.function, given, default_int, default_float, debug, *variant)
    for message, file, line in code.warnings:
        import warnings

        warnings.warn_explicit(message, UserWarning, file, line)
    dump = os.environ.get("KEYPRINT_DUMP")
    if dump:
        _dump(dump, specialization, code)
    made = compile_c(code.text, compiler, flags)
    metadata = {
        "slots": code.slots,
        "results": code.results,
        "returned": _plain(code.returned),
        "sites": [list(site) for site in code.sites],
        "arrays": code.arrays,
        "graph": code.graph,
    }
    artifact = Artifact({"kernel.so": made}, metadata)
    # Code that has the addresses of fields in it is never stored.
    artifact.keep = host.captured
    return artifact


def _plain(returned: Any) -> Any:
    if isinstance(returned, list):
        return {"tuple": [_plain(one) for one in returned]}
    return {"shape": list(returned[0]), "dtype": returned[1]} if isinstance(returned, tuple) else returned


def _dump(directory: str, specialization: Specialization, code: Any) -> None:
    """Keep every stage of a kernel, for people to read."""
    os.makedirs(directory, exist_ok=True)
    base = os.path.join(
        directory, f"{specialization.name.replace('<locals>.', '')}-{specialization.key.hex()[:12]}"
    )
    for ending, text in ((".ir", code.ir), (".optimised.ir", code.optimised), (".c", code.text)):
        with open(base + ending, "w", encoding="utf-8") as file:
            file.write(text)


# -- Loading ---------------------------------------------------------------------------------------


def _load(artifact: Artifact, dispatcher: Any) -> NativeCode:
    known = artifact.metadata
    if artifact._entry is not None:
        artifact._entry._check_trust()
    loaded = _load_kernel(artifact["kernel.so"])
    record = known["graph"]
    labels: list[Any] = []
    outcomes = None
    if record is not None and record["has_checkpoints"]:
        from .graph.kernel import labels_of

        labels = labels_of(record, dispatcher.function)
        outcomes = [GraphStatus(False), *(GraphStatus(True, label) for label in labels)]
    return NativeCode(
        loaded.address,
        known["slots"],
        result=_result(known),
        keep=(loaded, artifact.keep),
        errors=lambda status: _error(status, known, dispatcher),
        unlocks=True,
        outcomes=outcomes,
        starts=lambda label: _start(label, labels, outcomes, dispatcher),
        about=(known, labels),
    )


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
    shown = ", ".join(f"`{one!r}`" for one in labels)
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
    return "bool" if name == "bool" else {"f": "f64", "i": "i64", "u": "u64"}[name[0]]


def _built(returned: Any, values: Any) -> Any:
    if isinstance(returned, str):
        return next(values)
    if "tuple" in returned:
        return tuple(_built(one, values) for one in returned["tuple"])
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
    found = _take_failure()
    if found is None:
        return KernelRuntimeError(f"a check of `{dispatcher.name}` failed", code="assertion")
    site, values = found
    function, statement, text = known["sites"][site]
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
