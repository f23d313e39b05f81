"""Classes whose kernels are methods."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["FIELD_METADATA_CACHE_VALUE", "data_oriented"]

#: For the metadata of a dataclass field whose value counts. It is accepted and not needed: which values
#: count is found out.
FIELD_METADATA_CACHE_VALUE = "add_value_to_cache_key"


def data_oriented(cls: Any = None, *, stable_members: bool = False, template_primitives: bool = True) -> Any:
    """Let a class have kernels as methods: ``self`` is passed as it is.

    Members that are arrays are arguments of the kernels that read them; numbers are part of the compiled
    code, or arguments with ``template_primitives=False``. ``stable_members`` promises that members are not
    rebound. Nothing depends on it: rebinding is always noticed.
    """

    def decorate(cls: Any) -> Any:
        if not isinstance(cls, type):
            raise TypeError(f"`data_oriented` decorates classes, found {cls!r}")
        decorated: Any = cls
        decorated.__keyprint_data_oriented__ = True
        decorated.__keyprint_members__ = "value" if template_primitives else "type"
        return decorated

    return decorate if cls is None else decorate(cls)
