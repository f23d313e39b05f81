"""Dynamic access: functions and objects through which a function may read anything, or where it stands in a file.

Whatever is read through them has no name that could be looked up beforehand, so they are refused wherever they
are met: called, handed on, or inside of values.
"""

from __future__ import annotations

import os
import sys

from .._native import _dynamic_members
from ..errors import FunctionKeyError
from ..fingerprints.kinds import is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .entry import Where

__all__ = ["ASKING_MEMBERS", "asks_of", "check_function", "check_name", "check_value", "dynamic"]

_NAMES: Final = "read what is needed by name"
_ENVIRONMENT: Final = (
    "declare the variables that count: `env=[...]` of a kernel, an argument of anything else; or read them where "
    "the program begins, and pass the value"
)
_TEXT: Final = "text and place of code do not count; store what is needed under a name of its own"
_HINTS: Final = "write the types themselves, or pass what they stand for"

#: Functions by module and name, with what to do instead.
_FUNCTIONS: Final[dict[tuple[str, str], str]] = {
    **{("builtins", name): _NAMES for name in ("eval", "exec", "globals", "locals", "__import__")},
    **{
        ("importlib", name): "import the module where the function is defined"
        for name in ("import_module", "__import__", "reload")
    },
    ("pkgutil", "resolve_name"): _NAMES,
    ("runpy", "run_module"): _NAMES,
    ("runpy", "run_path"): _NAMES,
    **{("os", name): _ENVIRONMENT for name in ("getenv", "getenvb")},
    ("posixpath", "expandvars"): _ENVIRONMENT,
    **{("sys", name): _NAMES for name in ("_getframe", "_current_frames", "_getframemodulename")},
    **{
        ("inspect", name): _TEXT
        for name in (
            *(
                "getsource",
                "getsourcelines",
                "getsourcefile",
                "findsource",
                "getfile",
                "getcomments",
                "getblock",
            ),
            *("currentframe", "stack", "trace", "getframeinfo", "getouterframes", "getinnerframes"),
            *("getclosurevars", "getmodule", "classify_class_attrs"),
        )
    },
    **{("inspect", name): _HINTS for name in ("get_annotations",)},
    ("typing", "get_type_hints"): _HINTS,
    **{
        ("traceback", name): _TEXT
        for name in (
            "extract_stack",
            "format_stack",
            "print_stack",
            "walk_stack",
            "format_exc",
            "extract_tb",
            "walk_tb",
        )
    },
    **{("linecache", name): _TEXT for name in ("getline", "getlines")},
    **{("gc", name): _NAMES for name in ("get_objects", "get_referents", "get_referrers")},
    **{("pydoc", name): _TEXT for name in ("render_doc", "getdoc", "doc", "help")},
}

#: Functions that ask something of whatever they are given, which then counts.
_ASKING: Final[dict[tuple[str, str], str]] = {
    ("inspect", "getdoc"): "documentation",
    ("inspect", "signature"): "annotations",
    ("dataclasses", "fields"): "annotations",
    ("attr", "fields"): "annotations",
    ("copy", "deepcopy"): "identity",
}

#: Members that ask something of whatever they are read of, where only their names are known: in texts and byte code.
ASKING_MEMBERS: Final = {
    "__doc__": "documentation",
    "__dict__": "order",
    **dict.fromkeys(
        ("__annotations__", "__attrs_attrs__", "__dataclass_fields__", "__signature__", "model_fields"),
        "annotations",
    ),
    **dict.fromkeys(("__module__", "__name__", "__qualname__"), "names"),
}


def check_function(module: object, name: object, where: Where) -> None:
    """Refuse a function through which anything may be read."""
    hint = _FUNCTIONS.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
    if hint is not None:
        shown = name if module == "builtins" else f"{module}.{name}"
        raise dynamic(f"`{shown}`", where, hint)


def asks_of(module: object, name: object) -> set[str]:
    """Return what a function asks of whatever it is given."""
    return {asked for place, asked in _ASKING.items() if place == (module, name)}


def check_name(text: str, where: Where) -> set[str]:
    """Refuse the name of a member through which anything may be read; return what one asks for otherwise."""
    asked = set()
    for name in text.split(".") if len(text) < _LONGEST else ():
        if name in _dynamic():
            raise dynamic(f"`{name}`, by a text that names it,", where)
        if name in ASKING_MEMBERS:
            asked.add(ASKING_MEMBERS[name])
    return asked


#: No names of members are longer.
_LONGEST: Final = 80

_known: set[str] = set()


def _dynamic() -> set[str]:
    if not _known:
        _known.update(_dynamic_members())
    return _known


def check_value(value: Any, where: Where) -> None:
    """Refuse an object through which anything may be read."""
    if value is sys.modules:
        raise dynamic("`sys.modules`", where, "import the module, and read what is needed by name")
    if is_a(value, os._Environ):
        raise dynamic("`os.environ`", where, _ENVIRONMENT)


def dynamic(what: str, where: Where, hint: str = _NAMES) -> FunctionKeyError:
    """Return the error for a dynamic access."""
    function, file, line = where
    return FunctionKeyError(
        f"`{function}` uses {what} (`{file}`, line {line}), through which it may read anything",
        code="dynamic-names",
        hint=hint,
    )
