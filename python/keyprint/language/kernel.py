"""The decorators: kernels, and functions that kernels call."""

from __future__ import annotations

import types

from .._native import _set_binder
from ..dispatch.kernel import jit
from ..dispatch.specialization import Artifact, NativeCode
from ..functions.key import unwrap
from ..lazy import BUSY
from .artifacts import TOOL, WAYS, compile_kernel, load_kernel
from .caller import levels_to_caller, names_of_caller
from .errors import (
    make_kernel_error,
)
from .settings import TARGET, store
from .types.annotations import kind_of
from .types.postponed import annotations_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, overload

    from ..dispatch.specialization import Specialization
    from .graph.task_graph import TaskGraph

__all__ = ["Func", "func", "kernel"]


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
        wrapper = Func(inner)
        return wrapper if wrap is None else wrap(wrapper)

    return make if function is None else make(function)


if TYPE_CHECKING:

    @overload
    def kernel(function: Callable[..., Any]) -> Any: ...

    @overload
    def kernel(
        *,
        fastcache: bool | None = None,
        graph: bool | str = False,
        checkpoints: bool = False,
        on_drift: str = "raise",
    ) -> Callable[[Callable[..., Any]], Any]: ...


def kernel(
    function: Any = None,
    *,
    fastcache: bool | None = None,
    graph: bool | str = False,
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

    On a device, a graph is launched as one kernel for all tasks, as a CUDA graph with a node for each, or task by task
    with loops on the host: whichever is expected to take the least time. ``graph="fused"`` (``"block"`` or ``"grid"``:
    of one block of threads, or of many), ``"nodes"`` or ``"host"`` says which; the results are the same.
    """
    if isinstance(graph, str) and graph not in WAYS:
        raise ValueError(
            f"a graph is launched in one of the ways {', '.join(map(repr, WAYS))}, found {graph!r}"
        )
    if checkpoints and not graph:
        raise TypeError("only graphs have checkpoints\nhint: write `@kernel(graph=True, checkpoints=True)`")

    def make(function: Any) -> Any:
        way = graph if isinstance(graph, str) else None
        return _make(function, fastcache, on_drift, (bool(graph), bool(checkpoints)), way)

    return make if function is None else make(function)


def _make(
    function: Any, fastcache: bool | None, on_drift: str, variant: tuple[bool, bool], way: str | None
) -> Any:
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
            return compile_kernel(specialization, keeper[0], options["annotations"], variant)

    def load(artifact: Artifact) -> NativeCode:
        with BUSY:
            return load_kernel(artifact, keeper[0], way)

    jitted = jit(
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
        tool=TOOL,
        compiled_by=[kernel, func],
        variant=variant,
    )
    jitted._dispatcher.options.arguments.takes_any_array = True
    keeper.append(jitted._dispatcher)
    jitted.__dict__["_primal"] = _Primal(jitted._dispatcher)
    jitted.__dict__["graph"] = _Graph(jitted._dispatcher)
    if variant[0]:
        from .graph.kernel import BoundGraph

        _set_binder(jitted, BoundGraph)
    return jitted if wrap is None else wrap(jitted)


def _evaluate(function: types.FunctionType) -> None:
    """Have the annotations of a function be what they mean, if they are written as texts, or postponed."""
    if any(isinstance(annotation, str) for annotation in function.__annotations__.values()):
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
            stacklevel=levels_to_caller(),
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
