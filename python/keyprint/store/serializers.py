"""How the results of cached steps become bytes, and come back.

``plain`` (the default) takes bytes and plain data (see :mod:`keyprint.store.plain`) and gives back exactly
what it was given. ``pickle`` takes almost anything; reading it can run code, so it has to be asked
for, and is only read from a store that nobody else can write. Anything else is a
:class:`Serializer` of your own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from ..errors import StoreError
from . import plain as plain_data

__all__ = ["Serializer", "find", "pickle", "plain"]


@dataclasses.dataclass(frozen=True)
class Serializer:
    """A way to write values and read them back.

    The ``name`` enters the key: give a new one a new name when its format changes. ``runs_code``
    says that reading untrusted bytes could run code.
    """

    name: str
    dumps: Callable[[Any], bytes]
    loads: Callable[[bytes], Any]
    runs_code: bool = True


def _plain_dumps(value: Any) -> bytes:
    return b"b" + value if type(value) is bytes else b"j" + plain_data.dumps(value)


def _plain_loads(data: bytes) -> Any:
    # Also of a view, which is copied once.
    rest = bytes(memoryview(data)[1:])
    return rest if data[:1] == b"b" else plain_data.loads(rest, strict=True)


def _pickle_dumps(value: Any) -> bytes:
    import pickle

    # Pinned: a newer interpreter must not write what an older one of the same key cannot read.
    return pickle.dumps(value, protocol=5)


def _pickle_loads(data: bytes) -> Any:
    import pickle

    return pickle.loads(data)


plain: Final = Serializer("plain-1", _plain_dumps, _plain_loads, runs_code=False)
pickle: Final = Serializer("pickle-5", _pickle_dumps, _pickle_loads)

_BY_NAME: Final = {"plain": plain, "pickle": pickle}


def find(serializer: Serializer | str) -> Serializer:
    """Return a serializer that is given itself or by name."""
    if isinstance(serializer, Serializer):
        return serializer
    if serializer in _BY_NAME:
        return _BY_NAME[serializer]
    raise StoreError(
        f"there is no serializer `{serializer}`",
        code="no-such-serializer",
        hint=f"one of {', '.join(map(repr, _BY_NAME))}, or a `keyprint.Serializer` of your own",
    )
