"""What is read of an argument: a tree of members, and how each is used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from .entry import FunctionEntry, Where

    #: Members by name; under `HOW`, how the object itself is used, and where.
    Node = dict[str, Any]

__all__ = ["HOW", "add_use", "effective", "format_read", "tree", "where_of"]

#: The key of a node under which the uses of the object itself are.
HOW: Final = ""


#: What is done to something that a function captured, and to an argument.
_ON_ARGUMENTS: Final = {
    "assigned": "optional",
    "written": "whole",
    "stored": "whole",
    "updated": "whole",
    "mutated": "called",
}


def tree(uses: Mapping[tuple[tuple[str, ...], str], Where]) -> Node:
    root: Node = {}
    for (path, how), where in uses.items():
        add_use(root, path, how, where)
    return root


def add_use(node: Node, path: tuple[str, ...], how: str, where: Where) -> None:
    # What is done to an argument counts as any other use of it.
    how = _ON_ARGUMENTS.get(how, how)
    for name in path:
        node = node.setdefault(name, {})
    # Being called, or asked for its type, reads nothing of an object itself.
    node.setdefault(HOW, {}).setdefault(how, where)


def effective(entry: FunctionEntry, parameter: int) -> dict[tuple[tuple[str, ...], str], Where]:
    """Return what a function reads of a parameter, itself or through functions that only a call tells."""
    uses = dict(entry.uses[parameter])
    for flow in entry.argument_flows:
        if flow.root == ("parameter", parameter) and flow.is_to_parameter:
            uses.setdefault((flow.path, "whole"), entry.where(flow.line))
    return uses


def where_of(node: Node) -> Where:
    uses: Any = node.get(HOW, {})
    return next(iter(uses.values()), ("", "", 0))


def format_read(node: Node) -> str:
    """Return where something is read, as part of a sentence."""
    pending: list[Any] = [node]
    while pending:
        current = pending.pop()
        for function, file, line in current.get(HOW, {}).values():
            if function:
                return f"read in `{function}`, `{file}`, line {line}"
        pending += [child for name, child in current.items() if name != HOW]
    return "read by the function"
