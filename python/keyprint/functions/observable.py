"""How values count where everything that a program can observe of them does.

Fingerprints say what a value is; a function that captures the value can see a little more of some: the cause of
an exception, the content of weak dictionaries, the value of a context variable. The rules here say what that is.
They go with a fingerprinter that counts the order of dicts and attributes (``_observable``).
"""

from __future__ import annotations

import sys
import types
from _thread import RLock, allocate_lock

from .._native import Description
from ..errors import FingerprintError
from ..fingerprints import rule
from ..fingerprints.kinds import is_a

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

__all__ = ["is_log_call", "is_standard_stream", "parts_of", "rules"]

#: Types of what synchronises.
_LOCKS: Final = (type(allocate_lock()), type(RLock()))

#: What a logger is asked to do, and answers nothing.
_LOG_CALLS: Final = frozenset(
    {"critical", "debug", "error", "exception", "fatal", "info", "log", "warn", "warning"}
)


def rules() -> dict[type, Any]:
    """Return the rules for types that are loaded."""
    by_type: dict[type, Any] = {
        BaseException: _exception,
        # What synchronises holds nothing that is computed with.
        **{kind: rule.leaf(kind.__qualname__, tag="keyprint lock") for kind in _LOCKS},
        **{type(getattr({}, name)()): _view for name in ("keys", "values", "items")},
        property: parts_of("fget", "fset", "fdel"),
        staticmethod: parts_of("__func__"),
        classmethod: parts_of("__func__"),
    }
    for module, name, given in _LIBRARY:
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            by_type[cls] = given
    return by_type


def parts_of(*names: str) -> Callable[[Any], Any]:
    """Return a rule that counts attributes of an object, and the state of a subclass."""

    def parts(value: Any) -> Any:
        attributes = [getattr(value, name) for name in names]
        state = {name: held for name, held in getattr(value, "__dict__", {}).items() if name != "__doc__"}
        return rule.ordered(type(value), *attributes, state, tag="keyprint parts")

    return parts


def _exception(error: BaseException) -> Any:
    if error.__traceback__ is not None:
        raise FingerprintError(
            f"a `{type(error).__qualname__}` that was raised knows the lines that it went through",
            code="not-reducible",
            hint="keep it without them: `error.with_traceback(None)`",
        )
    causes = (error.__cause__, error.__context__, error.__suppress_context__)
    fields = [getattr(error, name, None) for name in _EXCEPTION_FIELDS]
    return rule.ordered(type(error), error.args, vars(error), *causes, fields, tag="keyprint exception")


#: What some builtin exceptions hold besides their arguments.
_EXCEPTION_FIELDS: Final = (
    *("errno", "strerror", "filename", "filename2", "name", "path", "value", "code", "obj", "msg"),
    *("lineno", "offset", "text", "end_lineno", "end_offset", "encoding", "object", "start", "end", "reason"),
)


def _view(view: Any) -> Description:
    return rule.ordered(type(view).__qualname__, *view, tag="keyprint view")


def _context_variable(variable: Any) -> Description:
    try:
        held: tuple[Any, ...] = (variable.get(),)
    except LookupError:
        held = ()
    return rule.ordered(variable.name, held, tag="keyprint context variable")


def _weak_items(mapping: Any) -> Description:
    return rule.ordered(type(mapping), list(mapping.items()), tag="keyprint weak dictionary")


def _logger(logger: Any) -> Any:
    parts = (logger.name, logger.getEffectiveLevel(), logger.disabled)
    return rule.ordered(type(logger), *parts, tag="keyprint logger")


def _ufunc(ufunc: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    if getattr(numpy, ufunc.__name__, None) is ufunc:
        return NotImplemented
    import gc

    # Made of a function of the program, which nothing else leads to.
    inside = [referent for referent in gc.get_referents(ufunc) if is_a(referent, (types.FunctionType, tuple))]
    if not inside:
        return NotImplemented
    return rule.ordered(ufunc.__name__, ufunc.nin, ufunc.nout, inside, tag="keyprint ufunc")


#: Types of the standard library and of NumPy: only those that a program has loaded matter.
_LIBRARY: Final[tuple[tuple[str, str, Any], ...]] = (
    ("_struct", "Struct", lambda value: rule.leaf(value.format, tag="keyprint struct")),
    ("_contextvars", "ContextVar", _context_variable),
    ("weakref", "WeakKeyDictionary", _weak_items),
    ("weakref", "WeakValueDictionary", _weak_items),
    ("weakref", "WeakSet", lambda value: rule.unordered(type(value), *value, tag="keyprint weak set")),
    ("weakref", "ref", lambda value: rule.ordered(value(), tag="keyprint reference")),
    ("_thread", "_local", parts_of()),
    ("typing", "TypeVar", parts_of("__name__", "__bound__", "__constraints__")),
    ("typing", "ParamSpec", parts_of("__name__", "__bound__")),
    ("logging", "Logger", _logger),
    (
        "logging",
        "LoggerAdapter",
        lambda value: rule.ordered(value.logger, value.extra, tag="keyprint adapter"),
    ),
    ("functools", "_lru_cache_wrapper", lambda value: rule.ordered(value.__wrapped__, tag="keyprint parts")),
    ("typing", "ForwardRef", lambda value: rule.leaf(value.__forward_arg__, tag="keyprint name")),
    ("numpy", "ufunc", _ufunc),
)


def is_log_call(owner: Any, name: str) -> bool:
    """Whether a method of an object only logs."""
    logging = sys.modules.get("logging")
    kinds = tuple(getattr(logging, name, ()) for name in ("Logger", "RootLogger", "LoggerAdapter"))
    return type(owner) in kinds and name in _LOG_CALLS


def is_standard_stream(value: Any) -> bool:
    """Whether something is what the interpreter prints to."""
    return any(value is stream for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
