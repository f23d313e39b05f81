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
from .errors import (
    CycleError,
    DriftError,
    FingerprintError,
    FunctionKeyError,
    KeyprintError,
    SignatureError,
    StoreError,
    StoreWarning,
)
from .keys import Key
from .metadata import no_fingerprint
from .store import Store
from .version import __version__

# Importing Keyprint must not cost what only some programs need: `typing`, `inspect`, `json`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .argument import Argument
    from .cached_step import CachedStep, Chain, cached
    from .dispatch import Kernel, Observations, jit
    from .function_key import FunctionKey
    from .language.kernel import func as func
    from .language.kernel import kernel as kernel
    from .packages import Packages
    from .serializers import Serializer
    from .signature import register_argument
    from .specialization import Artifact, LiveTarget, NativeCode, Specialization, Target, ValuesNeeded

_LATER = {
    "Argument": "argument",
    "Artifact": "specialization",
    "CachedStep": "cached_step",
    "Chain": "cached_step",
    "FunctionKey": "function_key",
    "Kernel": "dispatch",
    "LiveTarget": "specialization",
    "NativeCode": "specialization",
    "Observations": "dispatch",
    "Packages": "packages",
    "Serializer": "serializers",
    "Specialization": "specialization",
    "Target": "specialization",
    "ValuesNeeded": "specialization",
    "cached": "cached_step",
    "jit": "dispatch",
    "register_argument": "signature",
}

__all__ = [
    "ENCODING_VERSION",
    "Argument",
    "Artifact",
    "CachedStep",
    "Chain",
    "CycleError",
    "Difference",
    "DriftError",
    "Entry",
    "Explanation",
    "Fingerprint",
    "FingerprintError",
    "Fingerprinter",
    "FunctionKey",
    "FunctionKeyError",
    "Inspection",
    "Kernel",
    "Key",
    "KeyprintError",
    "LiveTarget",
    "NativeCode",
    "Observations",
    "Packages",
    "Serializer",
    "SignatureError",
    "Specialization",
    "Store",
    "StoreError",
    "StoreWarning",
    "Target",
    "ValuesNeeded",
    "__version__",
    "cached",
    "errors",
    "fingerprint",
    "fold",
    "jit",
    "no_fingerprint",
    "register_argument",
    "rule",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        module, inner = _LATER[name], name
    else:
        # Most programs use few of them, and some none: they are not listed before one is asked for.
        names: dict[str, tuple[str, str]] = lazy.load("language.names", "NAMES")  # type: ignore[assignment]
        if name not in names:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, inner = names[name]
    found = globals()[name] = lazy.load(module, inner)
    return found


def __dir__() -> list[str]:
    from .language.names import NAMES

    return sorted({*globals(), *__all__, *NAMES})
