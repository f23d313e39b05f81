"""Names across processes: what the configuration of a step may hold if its results outlive the process."""

from __future__ import annotations

import functools
import types
from typing import Any

from .._native import Fingerprinter
from ..errors import FingerprintError
from ..fingerprints import rule

__all__ = ["check_named"]


def check_named(step: Any, metadata_keys: tuple[str, ...] = ("keyprint",)) -> None:
    """Refuse a step whose configuration holds something without a name."""
    try:
        _fingerprinter(metadata_keys)(step)
    except FingerprintError as error:
        error.add_hint("a step whose results outlive the process needs a name; without `store=` any will do")
        raise


@functools.cache
def _fingerprinter(metadata_keys: tuple[str, ...]) -> Fingerprinter:
    return Fingerprinter(overrides={types.FunctionType: _named_function}, metadata_keys=metadata_keys)


def _named_function(function: types.FunctionType) -> Any:
    # What has no name is left to strict mode, which refuses it with the path to it.
    return NotImplemented if "<" in function.__qualname__ else rule.leaf(function.__qualname__)
