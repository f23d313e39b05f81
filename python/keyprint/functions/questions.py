"""What code asks of things in general (documentation, identity, order, names), answered when all of them are known."""

from __future__ import annotations

import sys
import types

from .._native import fingerprint
from ..fingerprints.kinds import is_a
from .captured import classes_in, is_same_by_nature, weakly
from .texts import name_of_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .resolution import Resolver

__all__ = ["Questions"]


class Questions:
    """Answers what code that was reached asks of everything that was reached."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def answer(self) -> None:
        """Count what code that was reached asks of things in general, now that all of them are known."""
        where = self._resolver.at
        shared = self._shared()
        if shared:
            texts = sorted(
                {f"{name_of_label(first)} in {name_of_label(other)}" for first, _, other, _ in shared}
            )
            self._resolver.put("shared objects", fingerprint(shared), ", ".join(texts[:4]), where)
        if "documentation" in self._resolver.asks:
            # What is nested in a function has documentation too: its whole text counts.
            sources = [
                (entry.name, self._resolver.location(entry)[2]) for entry in self._resolver.entries.values()
            ]
            self._resolver.put(
                "text of functions", fingerprint(sorted(sources)), f"of {len(sources)} functions", where
            )
            self._answer_attributes("documentation", ("__doc__",))
        if "names" in self._resolver.asks:
            self._answer_attributes("names", ("__name__", "__qualname__", "__module__"))
        if "order" in self._resolver.asks:
            orders = [
                (label, [name for name in vars(value) if name != "__doc__"])
                for label, value in self._resolver.described.items()
                if is_a(value, type)
            ]
            self._resolver.put("order of members", fingerprint(orders), f"of {len(orders)} classes", where)

    def _answer_attributes(self, what: str, names: tuple[str, ...]) -> None:
        """Count attributes of every function and class that was reached."""

        def read(value: Any) -> list[str | None]:
            values = [getattr(value, name, None) for name in names]
            return [text if is_a(text, str) else None for text in values]

        known = {label: read(value) for label, value in self._resolver.described.items()}
        self._resolver.put(
            what, fingerprint(list(known.items())), f"of {len(known)} objects", self._resolver.at
        )
        held = [(weakly(value), known[label]) for label, value in self._resolver.described.items()]
        self._resolver.access_paths.rechecks.append(lambda: all(read(get()) == now for get, now in held))

    def answer_annotations(self) -> None:
        """Count the classes that annotations name, and those that their annotations name in turn."""
        counted = -1
        while counted != len(self._resolver.described):
            counted = len(self._resolver.described)
            for value in list(self._resolver.described.values()):
                names = vars(sys.modules.get(getattr(value, "__module__", ""), types))
                # Asking a class for annotations that it has not leaves an empty dict in it.
                held = vars(value).get("__annotations__") if is_a(value, type) else value.__annotations__
                for annotation in list(held.values()) if isinstance(held, dict) else ():
                    for cls in classes_in(annotation, names):
                        self._resolver.classes.count(cls)

    def _shared(self) -> list[tuple[str, int, str, int]]:
        """Return which objects are met in several places, as far as the code that was reached can tell."""
        is_asked = "identity" in self._resolver.asks
        first: dict[int, tuple[str, int]] = {}
        shared = []
        captured = dict(self._resolver.captured)
        if self._resolver.written:
            others = {
                **self._resolver.held,
                **{f"written {label}": value for label, value in self._resolver.written.items()},
            }
            captured.update({label: (value, [(id(value), True)]) for label, value in others.items()})
        for label in sorted(captured):
            value, met = captured[label]
            if is_same_by_nature(value) or is_a(value, (type, types.ModuleType, types.FunctionType)):
                continue
            if is_asked and not met and not is_same_by_nature(value):
                met = [(id(value), True)]
            for at, (address, is_told_apart) in enumerate(met):
                known = first.setdefault(address, (label, at))
                if known != (label, at) and (is_told_apart or is_asked):
                    shared.append((*known, label, at))
        return shared
