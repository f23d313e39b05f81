"""What kind of thing an object is, without running code of its class.

``isinstance`` asks an object for its ``__class__``, and a class may answer that with code of its own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeIs

    def is_a(value: object, kinds: type[Any] | tuple[type[Any], ...]) -> TypeIs[Any]: ...

else:

    def is_a(value, kinds):
        """Whether the type of an object is one of these, or derives from one."""
        return issubclass(type(value), kinds)


def module_of_class(cls: type) -> str:
    """Return the module that a class says it belongs to; one that was made outside of any has none."""
    module = getattr(cls, "__module__", None)
    return module if isinstance(module, str) else "?"


__all__ = ["is_a", "module_of_class"]
