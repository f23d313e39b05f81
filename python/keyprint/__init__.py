"""Keyprint: knowing exactly when a compiled artifact may be reused.

Fingerprints give any Python value a structural identity, keys say what an artifact depends on, and a
store keeps artifacts under keys::

    import keyprint as kp

    kp.fingerprint({"tile": 64, "order": ["x", "y"]})

    store = kp.Store()
    entry = store.get_or_build(kp.Key("lower", {"source": source}), lambda: compile(source))
"""

from __future__ import annotations

from . import errors, lazy, rule
from ._native import (
    ENCODING_VERSION,
    Difference,
    Entry,
    Explanation,
    Fingerprint,
    Fingerprinter,
    Inspection,
    fingerprint,
    fold,
)
from .errors import CycleError, FingerprintError, KeyprintError, StoreError, StoreWarning
from .keys import Key
from .metadata import no_fingerprint
from .store import Store
from .version import __version__

# Importing Keyprint must not cost what only some programs need: `typing`, `inspect`, `json`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cached_step import CachedStep, Chain, cached
    from .serializers import Serializer

_LATER = {
    "CachedStep": "cached_step",
    "Chain": "cached_step",
    "cached": "cached_step",
    "Serializer": "serializers",
}

__all__ = [
    "ENCODING_VERSION",
    "CachedStep",
    "Chain",
    "CycleError",
    "Difference",
    "Entry",
    "Explanation",
    "Fingerprint",
    "FingerprintError",
    "Fingerprinter",
    "Inspection",
    "Key",
    "KeyprintError",
    "Serializer",
    "Store",
    "StoreError",
    "StoreWarning",
    "__version__",
    "cached",
    "errors",
    "fingerprint",
    "fold",
    "no_fingerprint",
    "rule",
]


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = lazy.load(_LATER[name], name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
