"""What a function reads, found in its byte code: for functions whose source cannot be had.

Byte code tells less than source: what is handed to other functions counts whole.
"""

from __future__ import annotations

import dis
from types import CodeType

from .._native import _dynamic_members
from .dynamic_access import ASKING_MEMBERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: A use, as `SourceFunction.uses` has them.
    Use = tuple[tuple[str, object], tuple[str, ...], str, int]

__all__ = ["reads_of"]


def reads_of(code: CodeType) -> list[Use]:
    """Return what a code object reads, and what is nested in it."""
    uses: dict[tuple[Any, ...], Use] = {}
    pending = [(code, frozenset[str](), True)]
    while pending:
        current, local, is_outer = pending.pop(0)
        for use in _reads_of_one(current, local, is_outer):
            uses.setdefault(use[:3], use)
        inner = local | set(current.co_cellvars)
        pending += [(const, inner, False) for const in current.co_consts if isinstance(const, CodeType)]
    return list(uses.values())


def _reads_of_one(code: CodeType, local: frozenset[str], is_outer: bool) -> list[Use]:
    general = _asked(code)
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    parameters = {name: at for at, name in enumerate(_in_order(code, count))} if is_outer else {}
    # Names that a class body binds itself are still looked for outside: whichever is missing says so.
    uses: list[Use] = [(("global", name), (), how, code.co_firstlineno) for name, how in general]
    root: tuple[str, object] | None = None
    path: list[str] = []
    line = code.co_firstlineno
    consts: list[Any] = [0, None]
    # What is captured by functions inside may be read there in any way.
    uses += [
        (("parameter", parameters[name]), (), "whole", line)
        for name in code.co_cellvars
        if name in parameters
    ]

    def finish() -> None:
        nonlocal root
        if root is not None:
            uses.append((root, tuple(path), "whole", line))
        root = None
        path.clear()

    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in ("LOAD_ATTR", "LOAD_METHOD") and root is not None:
            path.append(value)
            continue
        if name in ("EXTENDED_ARG", "CACHE", "PUSH_NULL"):
            continue
        finish()
        line = _line_of(instruction) or line
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            root = ("global", value)
            if value == "super":
                uses.append((("parameter", 0), (), "super", line))
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            if value in parameters:
                root = ("parameter", parameters[value])
            elif value in code.co_freevars and value not in local:
                root = ("free", value)
        elif "LOAD_FAST" in name:
            # Newer interpreters have one instruction for two: store and load, or load twice.
            for variable in value if isinstance(value, tuple) else (value,):
                if variable in parameters:
                    finish()
                    root = ("parameter", parameters[variable])
        elif name == "LOAD_SUPER_ATTR":
            uses.append((("parameter", 0), (value,), "super", line))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            consts = [consts[1], value]
        elif name == "IMPORT_NAME":
            level, names = consts
            level = level if isinstance(level, int) else 0
            uses.append((("import", (value, level, None)), (), "imported", line))
            if isinstance(names, tuple):
                uses += [(("import", (value, level, member)), (), "whole", line) for member in names]
            else:
                uses.append((("import", (value, level, None)), (), "whole", line))
    finish()
    # Instructions that are not known here may read a parameter too.
    seen = {use[0] for use in uses}
    unseen = [("parameter", at) for at in parameters.values() if ("parameter", at) not in seen]
    return uses + [(parameter, (), "whole", code.co_firstlineno) for parameter in unseen]


def _asked(code: CodeType) -> list[tuple[str, str]]:
    """Return what code asks of things in general, and members through which it may read anything."""
    dynamic = set(_dynamic_members())
    texts = [part for const in code.co_consts if isinstance(const, str) for part in const.split(".")]
    instructions = list(dis.get_instructions(code))
    # Interpreters write some of these names into classes; only reading members counts.
    members = [str(instruction.argval) for instruction in instructions if instruction.opname in _MEMBERS]
    asked = []
    for name in dict.fromkeys([*members, *texts]):
        if name in dynamic:
            asked.append((name, "dynamic"))
        elif name in ASKING_MEMBERS:
            asked.append((name, ASKING_MEMBERS[name]))
    if any(instruction.opname == "IS_OP" for instruction in instructions):
        asked.append(("is", "identity"))
    return asked


#: Instructions that read members.
_MEMBERS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")


def _in_order(code: CodeType, count: int) -> list[str]:
    """Return the names of the parameters in the order of the source: what is variadic is last in code."""
    names = list(code.co_varnames[:count])
    if code.co_flags & 4:
        names.insert(code.co_argcount, names.pop(code.co_argcount + code.co_kwonlyargcount))
    return names


def _line_of(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    if positions is not None and positions.lineno is not None:
        return int(positions.lineno)
    starts = instruction.starts_line
    return starts if isinstance(starts, int) and not isinstance(starts, bool) else None
