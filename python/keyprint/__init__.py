"""Keyprint: knowing exactly when a compiled artifact may be reused.

Fingerprints give any Python value a structural identity, keys say what an artifact depends on, and a
store keeps artifacts under keys::

    import keyprint as kp

    kp.fingerprint({"tile": 64, "order": ["x", "y"]})

    store = kp.Store()
    entry = store.get_or_build(kp.Key("lower", {"source": source}), lambda: compile(source))
"""

from __future__ import annotations

from . import _native, errors, lazy
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
from .fingerprints import rule
from .fingerprints.metadata import no_fingerprint
from .store.keys import Key, key_of_fingerprint
from .store.stores import Store
from .version import __version__

# Importing Keyprint must not cost what only some programs need: `typing`, `inspect`, `json`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .dispatch.kernel import Kernel, Observations, jit
    from .dispatch.signatures.argument import Argument
    from .dispatch.signatures.registered import register_argument
    from .dispatch.specialization import (
        Artifact,
        LiveTarget,
        NativeCode,
        Specialization,
        Target,
        ValuesNeeded,
    )
    from .functions.key import FunctionKey
    from .functions.packages import Packages
    from .language.kernel import func as func
    from .language.kernel import kernel as kernel
    from .steps.cached import CachedStep, Chain, cached
    from .store.serializers import Serializer

_LATER = {
    "Argument": "dispatch.signatures.argument",
    "Artifact": "dispatch.specialization",
    "CachedStep": "steps.cached",
    "Chain": "steps.cached",
    "FunctionKey": "functions.key",
    "Kernel": "dispatch.kernel",
    "LiveTarget": "dispatch.specialization",
    "NativeCode": "dispatch.specialization",
    "Observations": "dispatch.kernel",
    "Packages": "functions.packages",
    "Serializer": "store.serializers",
    "Specialization": "dispatch.specialization",
    "Target": "dispatch.specialization",
    "ValuesNeeded": "dispatch.specialization",
    "cached": "steps.cached",
    "jit": "dispatch.kernel",
    "register_argument": "dispatch.signatures.registered",
}

_native._fill_hooks(
    make_fingerprint_error=errors.make_fingerprint_error,
    make_store_error=errors.make_store_error,
    make_kernel_error=lazy.later("language.errors", "make_kernel_error"),
    store_warning=StoreWarning,
    key_of_fingerprint=key_of_fingerprint,
    rule_for_library=lazy.later("fingerprints.library_values", "rule_for"),
    describe=lazy.later("fingerprints.summary", "describe"),
    dump_plain=lazy.later("store.plain", "dumps"),
    load_plain=lazy.later("store.plain", "loads"),
    make_element=lazy.later("language.types.tensors", "element"),
    copy_elements=lazy.later("language.types.arrays", "copy_from"),
)

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
