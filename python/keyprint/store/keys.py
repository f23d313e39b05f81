"""Keys: everything an artifact depends on, under one root."""

from __future__ import annotations

import os

from .._native import Fingerprint
from .._native import Key as NativeKey
from ..version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

__all__ = ["KEYPRINT", "Key", "Tool"]

#: Who asks for an artifact: name and version.
Tool = tuple[str, str]

#: Keyprint itself.
KEYPRINT: Final[Tool] = ("keyprint", __version__)


class Key(NativeKey):
    """What an artifact depends on, by name.

    ``components`` maps names to values; each counts by its fingerprint (strict), and a
    :class:`~keyprint.Fingerprint` as it is. Of those in ``secrets`` nothing but the digest is ever
    kept. Where a component is a digest already, ``shown`` may hold the value behind it, for the manifest
    to describe. Every key also holds the format of keys, the ``tool`` that asks (name and version; a
    language built on Keyprint states its own), ``KEYPRINT_CACHE_VERSION`` and the ``name``: what is made
    of the same input by something else is something else::

        key = kp.Key("lower", {"source": source, "flags": flags}, tool=("mylang", "1.2"))
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        components: Mapping[str, Any],
        *,
        secrets: Mapping[str, Any] | None = None,
        shown: Mapping[str, Any] | None = None,
        tool: Tool | None = None,
    ) -> Key:
        salt = _salt()
        if tool is not None and (len(tool) != 2 or not all(isinstance(part, str) for part in tool)):
            raise TypeError(f"`tool` is a pair of name and version, found {tool!r}")
        return super().__new__(
            cls,
            name,
            dict(components),
            secrets={} if secrets is None else dict(secrets),
            shown={} if shown is None else dict(shown),
            tool=KEYPRINT if tool is None else tool,
            salt=salt,
        )


def _salt() -> str:
    """Return what the environment adds to every key; bytes that are no text are escaped."""
    salt = os.environ.get("KEYPRINT_CACHE_VERSION", "")
    return salt.encode("utf-8", "backslashreplace").decode()


def key_of_fingerprint(fingerprint: Fingerprint) -> Key:
    """Return the key that a lone fingerprint stands for; called by the native half."""
    return Key("value", {"value": fingerprint})
