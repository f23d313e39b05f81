"""Keyprint: knowing exactly when a compiled artifact may be reused.

The first layer, fingerprints, gives any Python value a structural identity::

    import keyprint as kp

    kp.fingerprint({"tile": 64, "order": ["x", "y"]})
"""

from __future__ import annotations

from . import errors, rule
from ._native import (
    ENCODING_VERSION,
    Difference,
    Explanation,
    Fingerprint,
    Fingerprinter,
    Inspection,
    fingerprint,
    fold,
)
from .errors import CycleError, FingerprintError, KeyprintError
from .metadata import no_fingerprint

__version__ = "0.1.0"

__all__ = [
    "ENCODING_VERSION",
    "CycleError",
    "Difference",
    "Explanation",
    "Fingerprint",
    "FingerprintError",
    "Fingerprinter",
    "Inspection",
    "KeyprintError",
    "__version__",
    "errors",
    "fingerprint",
    "fold",
    "no_fingerprint",
    "rule",
]
