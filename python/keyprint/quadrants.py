"""The kernel language under the spelling that Quadrants users know: ``import keyprint.quadrants as qd``.

The objects are those of :mod:`keyprint`; only names differ.
"""

from __future__ import annotations

from . import lazy
from .language import errors, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where kernels run.
cpu = x64 = arm64 = settings.cpu
cuda = gpu = settings.cuda

QuadrantsCompilationError = errors.KernelError
QuadrantsSyntaxError = errors.KernelSyntaxError
QuadrantsTypeError = errors.KernelTypeError
QuadrantsNameError = errors.KernelNameError
QuadrantsIndexError = errors.KernelIndexError
QuadrantsRuntimeError = errors.KernelRuntimeError
QuadrantsRuntimeTypeError = errors.KernelTypeError
QuadrantsAssertionError = errors.KernelAssertionError

init = settings.init
reset = settings.reset
sync = settings.sync


def __getattr__(name: str) -> Any:
    names: Any = lazy.load("language.names", "NAMES")
    if name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = lazy.load(*names[name])
    return value


def __dir__() -> list[str]:
    names: Any = lazy.load("language.names", "NAMES")
    own = [
        name
        for name in globals()
        if not name.startswith("_") and name not in ("annotations", "errors", "lazy", "settings")
    ]
    return sorted({*own, *names})
