"""Compiles programs, runs them, and compares with the interpreter: bit by bit, but for the signs of NaN."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import math
import random
import struct
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import keyprint as kp

from . import model
from .interpreter import Frame, Left, Memory, Variable
from .model import Events
from .programs import ARRAYS, CONSTANTS, HELPERS, NUMBERS, STRUCTS, WIDTH, Maker, Program, helpers

_DTYPES = {"i": "int", "u": "uint", "f": "float"}


@dataclasses.dataclass
class Mode:
    """How programs are compiled and run."""

    name: str
    init: dict[str, Any] = dataclasses.field(default_factory=dict)
    graph: bool = False
    checkpoints: bool = False
    serial: bool = False
    is_smooth: bool = False
    debug: bool = False


#: Where kernels run: what `init` is told besides.
ARCH: dict[str, str] = {}

MODES = {
    "plain": Mode("plain"),
    "serial": Mode("serial", serial=True),
    "graph": Mode("graph", graph=True),
    "checkpoints": Mode("checkpoints", graph=True, checkpoints=True),
    "debug": Mode("debug", {"debug": True}, debug=True),
    "contract": Mode("contract", {"contract": True}, is_smooth=True),
    "fast math": Mode("fast math", {"fast_math": True}, is_smooth=True),
}


@dataclasses.dataclass
class Batch:
    """Programs that are compiled together, and the rows of numbers that they run on."""

    programs: list[Program]
    rows: list[dict[str, Any]]
    arrays: dict[str, list[list[Any]]]


def dtype(kind: str) -> str:
    return "bool" if kind == "bool" else _DTYPES[kind[0]] + kind[1:]


def _held(kind: str) -> str:
    """What NumPy holds numbers of a type as: their bits, if it has no such type."""
    return "u16" if kind == "bf16" else kind


def _numbers(values: list[Any], kind: str) -> Any:
    if kind == "bf16":
        return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.array(values, dtype(kind))


def make(seed: int, many: int, rows: int, mode: Mode) -> Batch:
    programs = [
        Maker(seed * 1000 + at, is_smooth=mode.is_smooth).program(f"program{at}") for at in range(many)
    ]
    rng = random.Random(seed)
    return Batch(
        programs,
        [{name: number(rng, kind, mode.is_smooth) for name, kind in NUMBERS.items()} for _ in range(rows)],
        {
            name: [[number(rng, kind, mode.is_smooth) for _ in range(WIDTH)] for _ in range(rows)]
            for name, kind in ARRAYS.items()
        },
    )


def number(rng: random.Random, kind: str, is_smooth: bool) -> Any:
    if kind == "bool":
        return rng.random() < 0.5
    if model.is_float(kind):
        if is_smooth:
            return model.rounded(kind, rng.uniform(0.25, 4))
        edges = [0.0, -0.0, 1.0, -0.5, 2.5, -3.75, 1e4, -1e9, 1e30, math.inf, -math.inf, math.nan, 0.1]
        with np.errstate(all="ignore"):
            return model.rounded(kind, rng.choice([*edges, rng.uniform(-100, 100)]))
    edges = [0, 1, 2, 3, 5, -1, -2, -7, 31, 32, 64, 127, 128, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32]
    return model.wrap(kind, rng.choice([*edges, -(2**31), 2**63 - 1, -(2**63), rng.getrandbits(64)]))


def text_of(batch: Batch, mode: Mode) -> str:
    """The module of a batch."""
    lines = ["import keyprint as kp", ""]
    lines += [f"{name} = {value!r}" for name, value in CONSTANTS.items()]
    for struct_type in STRUCTS.values():
        members = ", ".join(f"{name}=kp.{kind}" for name, kind in struct_type.members)
        lines.append(f"{struct_type.name} = kp.types.struct({members})")
    lines += [HELPERS]
    lines += ["@kp.func\n" + program.text for program in batch.programs]
    parameters = [f"all_{name}: kp.types.NDArray[kp.{_held(kind)}, 1]" for name, kind in NUMBERS.items()]
    parameters += [f"{name}: kp.types.NDArray[kp.{kind}, 2]" for name, kind in ARRAYS.items()]
    parameters += ["OI: kp.types.NDArray[kp.i64, 3]", "OF: kp.types.NDArray[kp.f64, 3]"]
    given = [
        f"all_{name}[i]" if _held(kind) == kind else f"kp.bit_cast(all_{name}[i], kp.{kind})"
        for name, kind in NUMBERS.items()
    ]
    call = ", ".join([*given, *ARRAYS, "OI", "OF"])
    loops = []
    for at, program in enumerate(batch.programs):
        if mode.graph or at == 0:
            if mode.serial:
                loops.append("kp.loop_config(serialize=True)")
            head, pad = "for i in range(all_a.shape[0]):", ""
            if mode.checkpoints:
                loops.append(f"with kp.checkpoint({at}):")
                pad = "    "
            loops.append(pad + head)
        loops.append(f"{pad}    {program.name}(i, {at}, {call})")
    if mode.graph:
        parameters.append("more: kp.types.NDArray[kp.i32, 0]")
        loops = ["while kp.graph.do_while(more):", *("    " + line for line in loops)]
        loops += ["    for i in range(1):", "        more[None] -= 1"]
    decorator = "@kp.kernel"
    if mode.graph:
        decorator = f"@kp.kernel(graph=True, checkpoints={mode.checkpoints})"
    lines += [f"{decorator}\ndef k({', '.join(parameters)}):", *("    " + line for line in loops)]
    return "\n".join(lines) + "\n"


class Failed(Exception):
    """A batch that was not compiled."""


def launch(
    batch: Batch, mode: Mode, directory: Path, name: str
) -> tuple[Any, Any, dict[str, Any], str | None]:
    """Compile and run a batch; returns what it stored, and the code of what debug mode raised."""
    path = directory / f"{name}.py"
    path.write_text(text_of(batch, mode))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    rows = len(batch.rows)
    numbers = [_numbers([row[key] for row in batch.rows], kind) for key, kind in NUMBERS.items()]
    arrays = {array: np.array(batch.arrays[array], dtype(kind)) for array, kind in ARRAYS.items()}
    many = len(batch.programs)
    ints = np.zeros((rows, many, max(1, *(program.ints for program in batch.programs))), np.int64)
    floats = np.zeros((rows, many, max(1, *(program.floats for program in batch.programs))), np.float64)
    more = [np.array(turns(mode), np.int32)] if mode.graph else []
    raised = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kp.init(offline_cache=False, **ARCH, **mode.init)
        try:
            spec.loader.exec_module(module)
            module.k(*numbers, *arrays.values(), ints, floats, *more)
        except kp.KernelRuntimeError as error:
            raised = error.code
        except kp.KernelError as error:
            raise Failed(str(error)) from error
        finally:
            kp.reset()
            sys.modules.pop(name, None)
    return ints, floats, arrays, raised


def turns(mode: Mode) -> int:
    """How often a batch runs: a graph goes round."""
    return 2 if mode.graph else 1


def interpret(batch: Batch, mode: Mode) -> tuple[dict[Any, Any], dict[Any, Any], dict[str, Any], Events]:
    """What the model makes of a batch."""
    ints: dict[Any, Any] = {}
    floats: dict[Any, Any] = {}
    events = Events()
    state = {name: {} for name in ARRAYS}
    for name in ARRAYS:
        for row, items in enumerate(batch.arrays[name]):
            state[name].update({(row, at): element for at, element in enumerate(items)})
    arrays = {name: (kind, state[name]) for name, kind in ARRAYS.items()}
    arrays |= {"OI": ("i64", ints), "OF": ("f64", floats)}
    trees = [program.tree.body for program in batch.programs]
    with np.errstate(all="ignore"):
        for _ in range(turns(mode)):
            for at, body in enumerate(trees):
                for row, numbers in enumerate(batch.rows):
                    names = {name: Variable(NUMBERS[name], value) for name, value in numbers.items()}
                    names["i"] = Variable("i32", row)
                    world = Memory(helpers_, {**CONSTANTS, "AT": at}, STRUCTS, arrays, events)
                    try:
                        Frame(world, names, False).block(body)
                    except Left:
                        raise AssertionError("a program that is left") from None
    return ints, floats, state, events


helpers_: dict[str, ast.FunctionDef] = helpers()


def is_same(actual: Any, wanted: Any) -> bool:
    if wanted != wanted or actual != actual:
        return wanted != wanted and actual != actual
    if isinstance(wanted, float):
        return struct.pack("d", actual) == struct.pack("d", wanted)
    return actual == wanted


def compare(batch: Batch, mode: Mode, directory: Path, name: str) -> str | None:
    """Run a batch both ways; returns what differs, if anything."""
    want_ints, want_floats, state, events = interpret(batch, mode)
    ints, floats, arrays, raised = launch(batch, mode, directory, name)
    if mode.debug and (raised is not None or events):
        return None if (raised is not None) == bool(events) else f"raised {raised}, expected one of {events}"

    def close(actual: float, wanted: float) -> bool:
        return is_same(actual, wanted) or math.isclose(actual, wanted, rel_tol=1e-3, abs_tol=1e-3)

    same = close if mode.is_smooth else is_same
    for kind, stored, wanted in (("int", ints, want_ints), ("float", floats, want_floats)):
        for (row, at, place), value in wanted.items():
            value = float(value) if kind == "float" else int(value)
            if not same(stored[row, at, place].item(), value):
                return f"{kind} {place} of {batch.programs[at].name}, row {row}: {stored[row, at, place]!r}, expected {value!r}"
    for array, kind in ARRAYS.items():
        for (row, at), value in state[array].items():
            value = float(value) if model.is_float(kind) else int(value)
            if not same(arrays[array][row, at].item(), value):
                return f"{array}[{row}, {at}]: {arrays[array][row, at]!r}, expected {value!r}"
    return None


def judge(batch: Batch, mode: Mode, directory: Path, name: str) -> tuple[Batch, str] | None:
    """Compare; what differs is narrowed down to one program, one row and as few lines as possible."""
    try:
        wrong = compare(batch, mode, directory, name)
    except Failed as error:
        wrong = str(error)
    if wrong is None:
        return None
    return shrink(batch, mode, directory, name, wrong)


def shrink(batch: Batch, mode: Mode, directory: Path, name: str, wrong: str) -> tuple[Batch, str]:
    count = [0]

    def fails(candidate: Batch) -> str | None:
        count[0] += 1
        if count[0] > 300:
            return None
        try:
            return compare(candidate, mode, directory, f"{name}_{count[0]}")
        except Failed as error:
            return str(error)
        except Exception:
            return None

    def smaller() -> Any:
        for program in batch.programs:
            if len(batch.programs) > 1:
                yield dataclasses.replace(batch, programs=[program])
        if len(batch.rows) > 1:
            for row in range(len(batch.rows)):
                arrays = {array: [items[row]] for array, items in batch.arrays.items()}
                yield dataclasses.replace(batch, rows=[batch.rows[row]], arrays=arrays)
        if len(batch.programs) == 1:
            lines = batch.programs[0].text.split("\n")
            for at in range(1, len(lines)):
                depth = len(lines[at]) - len(lines[at].lstrip())
                end = at + 1
                while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
                    end += 1
                text = "\n".join(lines[:at] + lines[end:])
                try:
                    ast.parse(text)
                except SyntaxError:
                    continue
                yield dataclasses.replace(batch, programs=[dataclasses.replace(batch.programs[0], text=text)])

    again = True
    while again:
        again = False
        for candidate in smaller():
            difference = fails(candidate)
            if difference is not None:
                batch, wrong, again = candidate, difference, True
                break
    return batch, wrong


def report(batch: Batch, wrong: str) -> str:
    program = batch.programs[0]
    used = {node.id for node in ast.walk(program.tree) if isinstance(node, ast.Name)}
    row = {name: value for name, value in batch.rows[0].items() if name in used}
    arrays = {name: elements[0] for name, elements in batch.arrays.items() if name in used}
    return f"{wrong}\n{program.text}\n{row}\n{arrays}"
