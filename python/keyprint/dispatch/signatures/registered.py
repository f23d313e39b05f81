"""Classes that do not say themselves what counts of their instances, and of which a program says it."""

from __future__ import annotations

from ..._native import _short_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["register_argument", "registration"]

#: What counts of the instances of a class, for classes that do not say so themselves.
_registered: dict[type, Callable[[Any], Any]] = {}


def register_argument(cls: type, signature: Callable[[Any], Any]) -> None:
    """Say what counts of arguments of a class, and of its subclasses.

    ``signature`` returns any value that has a fingerprint. It is called at each launch, so it should be
    quick; and it must say everything that compiled code may depend on::

        kp.register_argument(Mesh, lambda mesh: (mesh.kind, mesh.order))
    """
    if not isinstance(cls, type):
        raise TypeError(f"expected a class, found `{_short_text(cls)}`")
    if not callable(signature):
        raise TypeError(f"`signature` is a function, found `{_short_text(signature)}`")
    _registered[cls] = signature


def registration(cls: type) -> Callable[[Any], Any] | None:
    """Return what says what counts of instances of a class; nothing if nobody said it."""
    for base in cls.__mro__:
        if base in _registered:
            return _registered[base]
    return None
