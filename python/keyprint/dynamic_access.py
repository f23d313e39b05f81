"""Dynamic access: functions and objects through which a function may read anything, or where it stands in a file.

Whatever is read through them has no name that could be looked up beforehand, so they are refused wherever they
are met: called, handed on, or inside of values.
"""

from __future__ import annotations

import os
import sys

from .errors import FunctionKeyError
from .kinds import is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from .function_entry import Where

__all__ = ["check_function", "check_value", "dynamic", "reads_documentation"]

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

#: Functions that read documentation, which then counts.
_DOCUMENTATION: Final = frozenset({("inspect", "getdoc"), ("inspect", "cleandoc")})


def check_function(module: object, name: object, where: Where) -> None:
    """Refuse a function through which anything may be read."""
    hint = _FUNCTIONS.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
    if hint is not None:
        shown = name if module == "builtins" else f"{module}.{name}"
        raise dynamic(f"`{shown}`", where, hint)


def reads_documentation(module: object, name: object) -> bool:
    """Whether a function reads documentation of what it is given."""
    return (module, name) in _DOCUMENTATION


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
