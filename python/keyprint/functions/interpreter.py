"""What the interpreter is, to keys."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["BYTE_CODE", "INTERPRETER"]

#: What the standard library counts as, and byte code: a kind and a version, as packages have.
INTERPRETER: Final = (
    "interpreter",
    f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}",
)

#: What byte code of a file depends on besides the file: tables of sources are good for one of these.
BYTE_CODE: Final = f"{sys.implementation.cache_tag} {sys.hexversion:x} optimize={sys.flags.optimize}"
