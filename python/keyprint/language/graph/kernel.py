"""What kernels that are graphs have besides being called, and what is restored of them without a compiler."""

from __future__ import annotations

from ..._native import _find_executable, _graph_choice, _last_executable, _resume
from ..compile.places import place_of
from ..errors import KernelRuntimeError
from .launched import GraphLaunch
from .task_graph import TaskGraph

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

__all__ = ["BoundGraph", "GraphDoWhileLevel", "graph_of", "labels_of", "tables_of"]


def labels_of(record: Any, function: types.FunctionType) -> list[Any]:
    """Return the labels of a record: members of enums where the program has them, otherwise ints.

    The record holds the members by the names of their classes. Those of classes inside functions cannot be found that
    way: they are found as the kernel finds them, if its own text names them.
    """
    return [
        _as_written(value, name, function) if is_named and type(value) is int else value
        for value, name, is_named in record["labels"]
    ]


def _as_written(value: int, name: str, function: types.FunctionType) -> Any:
    import enum

    root, *members = name.split(".")
    code = function.__code__
    reached: Any = None
    if root in code.co_freevars and function.__closure__ is not None:
        try:
            reached = function.__closure__[code.co_freevars.index(root)].cell_contents
        except ValueError:
            return value
    else:
        reached = function.__globals__.get(root)
    for member in members:
        # Not `getattr`: nothing runs because a record names it.
        reached = reached.__members__.get(member) if isinstance(reached, enum.EnumMeta) else None
    return (
        reached if isinstance(reached, enum.Enum) and isinstance(reached, int) and reached == value else value
    )


def graph_of(kernel: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> TaskGraph:
    """Return the graph of the last launch; with arguments, the one for them, which is not launched."""
    dispatcher = kernel._dispatcher
    is_asked = bool(arguments or named)
    code = _find_executable(kernel, arguments, named) if is_asked else _last_executable(kernel)
    if code is None:
        raise KernelRuntimeError(
            f"`{dispatcher.name}` was not launched yet: there is a graph for each specification of arguments",
            code="no-graph",
            hint="launch it, or write `kernel.graph(...)` with the arguments of a launch",
        )
    known, labels, program = code.about
    if known["graph"] is None:
        raise KernelRuntimeError(
            f"`{dispatcher.name}` is no graph", code="no-graph", hint="write `@kernel(graph=True)`"
        )

    def line_of(site: int | None) -> int | None:
        if site is None:
            return None
        function, statement, _ = known["sites"][site]
        place = place_of(function, statement, dispatcher)
        return place[0][2] if place else None

    choice = None if program is None else _graph_choice(program)
    launch = None if choice is None else GraphLaunch(*choice)
    return TaskGraph(dispatcher.name, known["graph"], labels, line_of, launch)


class BoundGraph:
    """A graph as a method of an instance."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, kernel: Any, instance: Any) -> None:
        self.__func__ = kernel
        self.__self__ = instance

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        return self.__func__(self.__self__, *arguments, **named)

    def resume(self, /, *arguments: Any, from_checkpoint: Any, **named: Any) -> Any:
        """Call the kernel, beginning at a checkpoint: what is before it is not run."""
        return _resume(self.__func__, from_checkpoint, (self.__self__, *arguments), named)

    def graph(self, /, *arguments: Any, **named: Any) -> TaskGraph:
        """Return the graph of the last launch; with arguments, the one for them."""
        if arguments or named:
            return self.__func__.graph(self.__self__, *arguments, **named)  # type: ignore[no-any-return]
        return self.__func__.graph()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    @property
    def __signature__(self) -> Any:
        import inspect

        signature = inspect.signature(self.__func__)
        return signature.replace(parameters=[*signature.parameters.values()][1:])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundGraph):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.__self__, self.__func__.__name__)

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"


# -- The tables that programs for Quadrants know ---------------------------------------------------


class GraphDoWhileLevel:
    """A loop of a graph: the array that it depends on, by name and number, and the loop around it (-1: none)."""

    __slots__ = ("cond_arg_name", "cond_cpp_arg_id", "parent_id")

    def __init__(self, cond_arg_name: str, parent_id: int, cond_cpp_arg_id: int) -> None:
        self.cond_arg_name = cond_arg_name
        self.parent_id = parent_id
        self.cond_cpp_arg_id = cond_cpp_arg_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphDoWhileLevel):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"GraphDoWhileLevel({inside})"


def tables_of(kernel: Any) -> dict[str, list[Any]]:
    """Return the tables of the last launch, all of them, whatever earlier ones had."""
    code = _last_executable(kernel)
    record, labels = (None, []) if code is None else (code.about[0]["graph"], code.about[1])
    record = record or {"arguments": [], "gates": [], "loops": []}
    names = [argument["name"] for argument in record["arguments"]]
    gates, loops = record["gates"], record["loops"]
    return {
        "checkpoint_user_labels_by_cp_id": [None if at is None else labels[at] for at, _, _ in gates],
        "checkpoint_yield_on_args": [None if flag is None else names[flag] for _, flag, _ in gates],
        "checkpoint_yield_on_cpp_arg_ids": [-1 if flag is None else flag for _, flag, _ in gates],
        "graph_do_while_levels": [
            GraphDoWhileLevel(names[counter], -1 if parent is None else parent, counter)
            for counter, parent in loops
        ],
    }
