"""Plain data as bytes, and back as what it was: equal, of the same types, in the same order.

None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset and enum members, in
any nesting; nothing else, and no subclasses: what could come back as something else is refused.
JSON underneath, with tags for what JSON does not have, so that people can read it.

Enum members come back as the very members of the class that the program has loaded under the name
it had. Nothing is imported for it. Where the class or the member is gone or has another value, the
value comes back instead.
"""

from __future__ import annotations

import base64
import enum
import json
import math
import sys
import types
from typing import Any, Final

from ..errors import StoreError

__all__ = ["dumps", "loads"]

#: The version of the format; another one is not read.
_VERSION: Final = 1

#: Keys of objects that begin with this are tags.
_TAG: Final = "$"


def dumps(value: Any) -> bytes:
    """Write plain data."""
    try:
        text = json.dumps(
            {"plain": _VERSION, "value": _encode(value)}, allow_nan=False, separators=(",", ":")
        )
    except RecursionError:
        raise StoreError(
            "the data is nested too deeply, or contains itself",
            code="not-plain",
            hint='store it as bytes, or choose serializer="pickle"',
        ) from None
    return text.encode("ascii")


def loads(data: bytes, *, strict: bool = False) -> Any:
    """Read plain data. With ``strict``, an enum member that is gone is an error."""
    read = json.loads(data)
    if not isinstance(read, dict) or read.get("plain") != _VERSION:
        raise StoreError("the data is of another version", code="not-plain")
    return _decode(read["value"], strict)


def _is_whole(text: str) -> bool:
    """Whether a text has no surrogates, which JSON would join to other characters."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _encode(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return value if _is_whole(value) else {"$str": [ord(character) for character in value]}
    if kind is int:
        # Longer ones are slow to write in decimal, and interpreters refuse very long ones.
        return value if value.bit_length() <= 1024 else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [_encode(item) for item in value]
    if kind is dict:
        if all(type(key) is str and not key.startswith(_TAG) and _is_whole(key) for key in value):
            return {key: _encode(item) for key, item in value.items()}
        return {"$dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if kind is tuple or kind is set or kind is frozenset:
        return {f"${kind.__name__}": [_encode(item) for item in value]}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if kind is complex:
        return {"$complex": [_encode(value.real), _encode(value.imag)]}
    if isinstance(value, enum.Enum):
        # A combination of flags has a made-up name, or none.
        name = value._name_ if value._name_ in kind.__members__ else None
        return {"$enum": [kind.__module__, kind.__qualname__, name, _encode(value._value_)]}
    raise StoreError(
        f"a `{kind.__module__}.{kind.__qualname__}` is not plain data",
        code="not-plain",
        hint='turn it into plain data or bytes, or choose serializer="pickle"',
    )


def _decode(value: Any, strict: bool) -> Any:
    if type(value) is list:
        return [_decode(item, strict) for item in value]
    if type(value) is not dict:
        return value
    if len(value) != 1 or not next(iter(value)).startswith(_TAG):
        return {key: _decode(item, strict) for key, item in value.items()}
    ((tag, content),) = value.items()
    if tag == "$int":
        return int(content, 16)
    if tag == "$str":
        return "".join(map(chr, content))
    if tag == "$float":
        return float(content)
    if tag == "$bytes":
        return base64.b64decode(content)
    if tag == "$enum":
        return _decode_enum(content, strict)
    items = [_decode(item, strict) for item in content]
    if tag == "$dict":
        return dict(items)
    if tag == "$complex":
        return complex(*items)
    containers: dict[str, Any] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
    return containers[tag](items)


def _is_same(value: Any, encoded: Any) -> bool:
    try:
        return json.dumps(_encode(value)) == json.dumps(encoded)
    except StoreError:
        return False


def _decode_enum(content: Any, strict: bool) -> Any:
    module, qualname, name, encoded = content
    value = _decode(encoded, strict)
    reached: Any = sys.modules.get(module)
    for part in qualname.split("."):
        # Not `getattr`: a module may answer that by importing something.
        reached = vars(reached).get(part) if isinstance(reached, (types.ModuleType, type)) else None
    if isinstance(reached, enum.EnumMeta):
        member: Any = reached.__members__.get(name) if name is not None else None
        if name is None and issubclass(reached, enum.Flag):
            try:
                member = reached(value)
            except ValueError:
                member = None
        # Compared as they are written, for a value need not equal itself.
        if isinstance(member, reached) and _is_same(member._value_, encoded):
            return member
    if strict:
        raise StoreError(f"the enum member `{module}.{qualname}.{name}` is gone", code="not-plain")
    return value
