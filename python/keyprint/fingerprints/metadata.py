"""Field metadata: how a field opts out of fingerprints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["has_opted_out", "no_fingerprint"]


def no_fingerprint() -> dict[str, dict[str, Any]]:
    """Metadata for a field that does not count.

    For dataclasses and attrs::

        cache: dict = dataclasses.field(default_factory=dict, metadata=kp.no_fingerprint())
        cache: dict = attrs.field(factory=dict, metadata=kp.no_fingerprint())

    and for pydantic::

        cache: Annotated[dict, kp.no_fingerprint()] = {}

    Pickling, comparison and ``repr`` are not affected. Merge it with other metadata by
    ``{**kp.no_fingerprint(), ...}``.
    """
    return {"keyprint": {"fingerprint": False}}


def has_opted_out(metadata: Mapping[Any, Any]) -> bool:
    """Return whether the metadata of a field says, under whatever name, that the field does not count."""
    # Any kind of mapping will do: naming the kind would load more than the package needs.
    options = [option for option in metadata.values() if hasattr(option, "get")]
    return any(option.get("fingerprint") is False for option in options)
