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

# Importing Keyprint must not cost what only some programs need: `typing`, `inspect`, `json`. What is loaded later has
# its types in `__init__.pyi`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    make_device_error=lazy.later("language.errors", "make_device_error"),
    store_warning=StoreWarning,
    key_of_fingerprint=key_of_fingerprint,
    rule_for_library=lazy.later("fingerprints.library_values", "rule_for"),
    describe=lazy.later("fingerprints.summary", "describe"),
    dump_plain=lazy.later("store.plain", "dumps"),
    load_plain=lazy.later("store.plain", "loads"),
    make_element=lazy.later("language.types.tensors", "element"),
    copy_elements=lazy.later("language.types.arrays", "copy_from"),
)

#: What programs use, besides the kernel language.
_OWN = [
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


def _all() -> list[str]:
    """Return what programs use: the names above, and those of the kernel language.

    Without those that are builtins of Python too (`kp.max`): `from keyprint import *` would hide Python's.
    """
    import builtins

    names: dict[str, tuple[str, str]] = lazy.load("language.names", "NAMES")  # type: ignore[assignment]
    return sorted({*_OWN, *(name for name in names if not hasattr(builtins, name))})


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _all()
    if name in _LATER:
        module, inner = _LATER[name], name
    else:
        # Most programs use few of them, and some none: they are not listed before one is asked for.
        names: dict[str, tuple[str, str]] = lazy.load("language.names", "NAMES")  # type: ignore[assignment]
        if name not in names:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, inner = names[name]
    value = globals()[name] = lazy.load(module, inner)
    return value


def __dir__() -> list[str]:
    names: dict[str, tuple[str, str]] = lazy.load("language.names", "NAMES")  # type: ignore[assignment]
    return sorted({*_OWN, *names, *(name for name in globals() if name.startswith("__"))})
