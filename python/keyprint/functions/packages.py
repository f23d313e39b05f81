"""Which modules count by their source, and which by a version.

A compiled function depends on everything that it reaches. Code that a user edits counts by its source;
a package that was installed counts by its name and version, and the standard library by the version of
the interpreter. :class:`Packages` decides which is which: by where a module comes from, never by whether
it lies beside the function's own file.
"""

from __future__ import annotations

import os
import sys

from ..store.keys import KEYPRINT
from ..version import PACKAGE
from .interpreter import INTERPRETER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

__all__ = ["Packages", "installed_version", "is_installed"]

_STDLIB: Final = os.path.dirname(os.path.abspath(os.__file__))


class Packages:
    """Decides how a module counts.

    By default a module counts

    - by the version of the interpreter, if it belongs to the standard library;
    - by the name and version of its distribution, if one was installed in the directory that it was
      loaded from, and not from a directory of somebody's own (editable or not);
    - by its source otherwise.

    ``inside`` names packages that count by source wherever they come from: one that is edited in place.
    ``outside`` gives versions to packages that have none, or another than they should: ``{"vendored":
    "1.2"}``. Both name top-level packages or dotted modules; the longest name decides.
    """

    def __init__(self, *, inside: Iterable[str] = (), outside: Mapping[str, str] | None = None) -> None:
        if isinstance(inside, str):
            raise TypeError("`inside` is a list of names, found one string")
        self._given: dict[str, tuple[str, str] | None] = dict.fromkeys(inside)
        for name, version in (outside or {}).items():
            self._given[name] = (name, str(version))
        self._known: dict[str, tuple[str, str] | None] = {}

    def version_of(self, module: str) -> tuple[str, str] | None:
        """Return the name and version that a module counts by; nothing if it counts by its source."""
        if module in self._known:
            return self._known[module]
        if module.partition(".")[0] == PACKAGE:
            return KEYPRINT
        prefix = module
        while prefix:
            if prefix in self._given:
                return self._given[prefix]
            prefix = prefix.rpartition(".")[0]
        version = installed_version(module)
        # `__main__` is whatever runs now, and a module that is not loaded yet may turn out to be anything.
        if module in sys.modules and module != "__main__":
            self._known[module] = version
        return version

    def __repr__(self) -> str:
        inside = [name for name, version in self._given.items() if version is None]
        outside = {name: version[1] for name, version in self._given.items() if version is not None}
        return f"Packages(inside={inside!r}, outside={outside!r})"


def is_installed(file: str) -> bool:
    """Whether a file, or a directory, belongs to an installed package."""
    return "site-packages" in file or "dist-packages" in file


def installed_version(name: str) -> tuple[str, str] | None:
    """Return the version that a module counts by if nobody says otherwise; nothing if it was not installed."""
    if name == "__main__":
        return None
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None) or getattr(module, "__file__", None)
    if name in sys.builtin_module_names or origin in ("built-in", "frozen"):
        return INTERPRETER
    if not isinstance(origin, str):
        # A namespace package, or a module that was made by hand.
        locations = list(getattr(spec, "submodule_search_locations", None) or ())
        return _distribution_of(name, os.path.join(locations[0], "")) if locations else None
    origin = os.path.abspath(origin)
    directory = os.path.dirname(origin)
    if not is_installed(directory) and (directory == _STDLIB or directory.startswith(_STDLIB + os.sep)):
        return INTERPRETER
    return _distribution_of(name, origin)


def _distribution_of(module: str, origin: str) -> tuple[str, str] | None:
    """Return the distribution that installed a module where it is, if one did."""
    top = module.partition(".")[0]
    # The directory that holds the top-level package: as many levels up as the name has dots.
    parts = origin.split(os.sep)
    is_package = os.path.basename(origin).startswith("__init__.") or origin.endswith(os.sep)
    levels = module.count(".") + 1 + (1 if is_package else 0)
    root = os.sep.join(parts[:-levels]) or os.sep
    try:
        names = [entry for entry in os.listdir(root) if entry.endswith(".dist-info")]
    except OSError:
        return None
    # Most distributions are called like what they install.
    names.sort(key=lambda entry: _normal(entry.partition("-")[0]) != _normal(top))
    file = os.path.relpath(origin, root).replace(os.sep, "/")
    for entry in names:
        directory = os.path.join(root, entry)
        if _provides(directory, top, file if os.path.isfile(origin) else None):
            return _installed(directory, *_name_and_version(entry))
    return None


def _name_and_version(entry: str) -> tuple[str, str]:
    name, _, version = entry[: -len(".dist-info")].rpartition("-")
    return _normal(name), version


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _provides(directory: str, top: str, file: str | None) -> bool:
    """Whether a distribution installed a file, or anything of a top-level package."""
    record = _read(os.path.join(directory, "RECORD"))
    if record is None:
        return top in (_read(os.path.join(directory, "top_level.txt")) or "").split()
    if file is not None:
        # Several distributions may share a top-level package.
        return record.startswith(f"{file},") or f"\n{file}," in record
    return any(
        record.startswith(head) or f"\n{head}" in record for head in (f"{top}/", f"{top}.py,", f"{top}.")
    )


def _installed(directory: str, name: str, version: str) -> tuple[str, str] | None:
    """Return what an installed distribution counts by; nothing for one that its source stands behind."""
    url = (_read(os.path.join(directory, "direct_url.json")) or "").replace(" ", "")
    if '"dir_info"' in url:
        # From a directory, editable or not: the next version may have the same number.
        return None
    _, _, commit = url.partition('"commit_id":"')
    return name, f"{version}+{commit.partition(chr(34))[0]}" if commit else version


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
