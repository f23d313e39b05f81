"""Function keys: the identity of a function, with everything that it depends on."""

from __future__ import annotations

import types

from ..errors import FunctionKeyError
from .access_paths import function_of
from .packages import Packages
from .resolution import Resolution, Rules, resolve
from .sources import Sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .._native import Fingerprint
    from ..store.stores import Store

__all__ = ["FunctionKey"]


class FunctionKey:
    """The identity of a function: what it means, and everything that it reaches.

    A function counts by the meaning of its source: comments, formatting, docstrings, its place and its file
    do not count; defaults, annotations and decorators do. So does every function that it reaches, by any
    name; every global, closure and class attribute that it reads, by value; and every package, by version.

    ``packages`` says what counts by version (:class:`~keyprint.Packages`). ``ignore`` names what does not
    count (``"module.name"``). ``compiled_by`` are the decorators that compile the function, and so do not
    count. With ``locations``, the place and exact text of each function count too: for products that embed
    positions. A ``store`` keeps what was found in source files, so that they are parsed once.

    >>> def double(x):
    ...     return 2 * x
    >>> key = FunctionKey(double)
    >>> sorted(key.components)
    ['function keyprint.functions.key.double']
    """

    __slots__ = ("_bound", "_resolution", "_rules", "function")

    def __init__(
        self,
        function: Any,
        *,
        packages: Packages | None = None,
        ignore: Iterable[str] = (),
        compiled_by: Iterable[object] = (),
        locations: bool = False,
        store: Store | None = None,
    ) -> None:
        self.function = unwrap(function)
        #: What a method is bound to.
        self._bound = function.__self__ if isinstance(function, types.MethodType) else None
        self._rules = Rules(packages or Packages(), Sources(store), ignore, compiled_by, locations)
        self._resolution = self._resolve()

    def _resolve(self) -> Resolution:
        return resolve(self.function, self._rules, self._bound)

    @property
    def fingerprint(self) -> Fingerprint:
        """The digest over all components."""
        return self._resolution.fingerprint

    @property
    def components(self) -> dict[str, Fingerprint]:
        """What counts, by name."""
        return dict(self._resolution.components)

    @property
    def functions(self) -> dict[str, str]:
        """The functions that were reached, and whether each counts by its ``source`` or its byte ``code``."""
        return {entry.name: entry.origin for entry in self._resolution.entries}

    @property
    def parameters(self) -> dict[str, list[str]]:
        """What the function reads of each parameter, itself or through others: paths of members."""
        root = self._resolution.root
        assert root is not None
        return {
            name: sorted({".".join(path) for path, how in uses if how != "annotation"})
            for (name, _), uses in zip(root.parameters, root.uses, strict=True)
        }

    @property
    def source(self) -> str | None:
        """The text of the function; nothing if it has none, or if the file was edited since."""
        root = self._resolution.root
        assert root is not None
        return self._rules.sources.text(root.source, root.function.__globals__)

    def line_of(self, statement: int) -> int | None:
        """Return the line that a statement is in now; statements are numbered from 0, in order."""
        root = self._resolution.root
        lines = [] if root is None or root.source.function is None else root.source.function.statements
        return lines[statement] if 0 <= statement < len(lines) else None

    def statement_at(self, line: int) -> int | None:
        """Return the number of the last statement that begins in or before a line."""
        root = self._resolution.root
        lines = [] if root is None or root.source.function is None else root.source.function.statements
        before = [at for at, begin in enumerate(lines) if begin <= line]
        return max(before, key=lambda at: (lines[at], at)) if before else None

    def is_current(self) -> bool:
        """Whether everything that the function depends on is still what it was."""
        return self._resolution.guards.check() or self.changes() == []

    def changes(self) -> list[str]:
        """Return what has changed since the key was made, a line for each."""
        now = self._resolve()
        return describe_changes(self._resolution, now)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionKey):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __fingerprint__(self) -> Any:
        from ..fingerprints import rule

        return rule.leaf(bytes(self.fingerprint), tag="keyprint function key")

    def __repr__(self) -> str:
        return f"<FunctionKey {self.fingerprint.short} of {self.function.__qualname__}>"


def unwrap(function: Any) -> types.FunctionType:
    """Return the function that something callable leads to."""
    inner = function
    if isinstance(inner, (staticmethod, classmethod, types.MethodType)):
        inner = inner.__func__
    inner = function_of(inner)
    if inner is None:
        raise FunctionKeyError(
            f"expected a function, found `{type(function).__module__}.{type(function).__qualname__}`",
            code="no-function",
            hint="pass the function itself, not what it returns",
        )
    return inner


def describe_changes(before: Resolution, now: Resolution) -> list[str]:
    """Return what differs between two moments, a line for each."""
    lines = []
    for label in sorted({*before.components, *now.components}):
        old, new = before.components.get(label), now.components.get(label)
        if old == new:
            continue
        function, file, line = now.where.get(label) or before.where[label]
        place = f" (read in `{function}`, `{file}`, line {line})" if function else ""
        kind, _, name = label.partition(" ")
        for path, was, now_is in _changes_inside(before, now, label):
            what = f"changed ({was})" if was == now_is else f"{was} -> {now_is}"
            lines.append(f"{kind} `{name}{path}`: {what}{place}")
    return lines


def _changes_inside(before: Resolution, now: Resolution, label: str) -> list[tuple[str, str, str]]:
    """Return path, text before and text now of what changed in a component; its own if nothing in it tells more."""
    old, new = before.parts.get(label), now.parts.get(label)
    if old is not None and new is not None and not old.is_cut and not new.is_cut:
        was = {path: (digest, text) for path, digest, text in old.parts}
        now_is = {path: (digest, text) for path, digest, text in new.parts}
        paths = [path for path in {**was, **now_is} if was.get(path, ("",))[0] != now_is.get(path, ("",))[0]]
        # What holds something that changed says less than that.
        deepest = [path for path in paths if not any(_is_inside(other, path) for other in paths)]
        if deepest:
            absent = ("", "nothing")
            return [(path, was.get(path, absent)[1], now_is.get(path, absent)[1]) for path in deepest[:8]]
    texts = [
        resolution.texts.get(label, "nothing") if label in resolution.components else "nothing"
        for resolution in (before, now)
    ]
    return [("", texts[0], texts[1])]


def _is_inside(path: str, outer: str) -> bool:
    return len(path) > len(outer) and path.startswith(outer) and path[len(outer)] in ".["
