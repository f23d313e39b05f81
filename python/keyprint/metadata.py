"""Field metadata: how a field opts out of fingerprints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["no_fingerprint"]


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
