"""Resolutions that are kept for as long as the objects live that they belong to."""

from __future__ import annotations

from _weakref import ref

from .resolution import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .resolution import Resolution, Rules

__all__ = ["Memo"]


class Memo:
    """Resolutions of functions that come with arguments: what they were when they were first met."""

    def __init__(self, check: Callable[[str, Resolution, Resolution], None]) -> None:
        #: By address, with a reference that says whether it is still the same object.
        self._known: dict[tuple[int, int], tuple[Any, Resolution]] = {}
        self._check = check
        #: What classes of arguments define, as it was first met.
        self._defined: dict[int, tuple[ref[type], dict[str, Resolution]]] = {}

    def of(self, value: Any, rules: Rules, bound: Any = None) -> Resolution:
        """Return what a function, a class or a value depends on now."""
        place = (id(value), id(bound))
        reference, known = self._known.get(place) or (_nobody, None)
        known = known if reference() is value else None
        if known is not None and known.guards.check():
            return known
        resolution = resolve(value, rules, bound, label="value")
        if known is not None and known.fingerprint != resolution.fingerprint:
            self._check(getattr(value, "__qualname__", "?"), known, resolution)
        # Numbers, texts and tuples are looked at anew each time.
        if type(value).__weakrefoffset__:
            self._known[place] = ref(value, lambda _: self._known.pop(place, None)), resolution
        return resolution

    def check_baseline(self, cls: type, name: str, resolution: Resolution) -> None:
        """Compare what a class defines with what it defined when it was first met: a method may be replaced."""
        place = id(cls)
        defined = self._defined.get(place)
        if defined is None or defined[0]() is not cls:
            forget = self._defined.pop
            defined = self._defined[place] = ref(cls, lambda _: forget(place, None)), {}
        known = defined[1].setdefault(name, resolution)
        if known is not resolution and known.fingerprint != resolution.fingerprint:
            self._check(f"{cls.__qualname__}.{name}", known, resolution)
            defined[1][name] = resolution

    def resolutions(self) -> list[Resolution]:
        """Return all that are known."""
        return [resolution for _, resolution in [*self._known.values()]]

    def forget(self) -> None:
        self._known.clear()
        self._defined.clear()


def _nobody() -> None:
    """Stand for a reference to something that is gone."""
