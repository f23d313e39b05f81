"""Random kernels of several loops, judged by plain Python.

`programs` is about what is computed for one iteration. This is about what is between: loops whose bounds are read from
what they change, variables that loops add up and later ones use, kernels that end early. What a loop does is the
same in any order: it reads nothing that it writes, and what several iterations change, they change by one operation.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np

import keyprint as kp

#: Arrays of whole numbers, and how many there are of each.
SIZES = {"n": (8,), "x": (2000,), "out": (2000,), "bins": (16,), "wide": (300,), "grid": (16, 20)}

NUMBERS = ("a", "b")

_CHANGES = {
    "+": "{0} += {1}",
    "-": "{0} -= {1}",
    "max": "{0} = max({0}, {1})",
    "min": "{0} = min({0}, {1})",
    "or": "{0} |= {1}",
    "xor": "{0} ^= {1}",
}


@dataclasses.dataclass
class Loops:
    """A kernel of loops: as the language has it, and as Python would run it."""

    kernel: list[str]
    plain: list[str]


class Maker:
    """Makes one kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = Loops([], [])
        self.level = 1
        #: Variables of the kernel.
        self.variables: list[str] = []
        #: Variables of the iteration.
        self.own: list[str] = []
        #: What the loop writes, and by which operation.
        self.written: dict[str, str] = {}

    def kernel(self) -> Loops:
        arrays = ", ".join(f"{name}: kp.types.NDArray[kp.i32, {len(shape)}]" for name, shape in SIZES.items())
        numbers = ", ".join(f"{name}: kp.i32" for name in NUMBERS)
        self.loops.kernel.append(f"def loops({arrays}, {numbers}) -> kp.i32:")
        self.loops.plain.append(f"def loops({', '.join([*SIZES, *NUMBERS])}):")
        for _ in range(self.rng.randrange(3, 9)):
            self._statement()
        if not any("for" in line for line in self.loops.kernel):
            self._parallel()
        self._put(f"return {' + '.join(['(b & 7)', *self.variables])}")
        return self.loops

    def _put(self, kernel: str, plain: str | None = None) -> None:
        indent = "    " * self.level
        self.loops.kernel.append(indent + kernel)
        self.loops.plain.append(indent + (kernel if plain is None else plain))

    # -- Numbers -----------------------------------------------------------------------------------

    def _leaf(self) -> str:
        rng = self.rng
        names = [*NUMBERS, *self.own, *(name for name in self.variables if name not in self.written)]
        pick = rng.random()
        if pick < 0.2:
            return str(rng.randrange(40))
        if pick < 0.55:
            return rng.choice(names)
        return self._element(rng.choice([name for name in SIZES if name not in self.written]))

    def _element(self, array: str) -> str:
        if array == "grid":
            return f"grid[{self._index() % 16}, {self._index()}]"
        if array == "x" and "i" in self.own and self.rng.random() < 0.7:
            return "x[i]"
        return f"{array}[{self._index() % SIZES[array][0]}]"

    def _index(self) -> int:
        return self.rng.randrange(20)

    def _number(self) -> str:
        """A number from 0 to 63."""
        rng = self.rng
        text = self._leaf()
        for _ in range(rng.randrange(3)):
            text = f"({text} {rng.choice('+-+^|')} {self._leaf()})"
        return f"({text} & {rng.choice([1, 7, 63])})"

    def _bound(self, most: int) -> str:
        """A number that a loop begins or ends at; it may depend on what the loop changes."""
        rng = self.rng
        written, self.written = self.written, {}
        leaf = self._leaf() if rng.random() < 0.4 else f"n[{rng.randrange(8)}]"
        if rng.random() < 0.3:
            leaf = f"({leaf} + {self._leaf()})"
        self.written = written
        # Always at least 0, and below the power of two that is left.
        mask = (1 << most.bit_length() - 1) - 1
        return f"min({leaf} & 4095, {most})" if most > 31 and rng.random() < 0.7 else f"({leaf} & {mask})"

    # -- Statements of the kernel ------------------------------------------------------------------

    def _statement(self) -> None:
        kinds = [self._parallel] * 4 + [
            self._new,
            self._set,
            self._store,
            self._branch,
            self._while,
            self._end,
        ]
        self.rng.choice(kinds)()

    def _new(self) -> None:
        name = f"m{len(self.variables)}"
        self._put(f"{name} = {self._number()}")
        self.variables.append(name)

    def _set(self) -> None:
        if self.variables:
            self._put(
                f"{self.rng.choice(self.variables)} {self.rng.choice(['=', '+=', '-='])} {self._number()}"
            )

    def _store(self) -> None:
        array = self.rng.choice([name for name in SIZES if name != "x"])
        self._put(f"{self._element(array)} {self.rng.choice(['=', '+='])} {self._number()}")

    def _branch(self) -> None:
        self._put(f"if {self._number()} > {self.rng.randrange(30)}:")
        self.level += 1
        self._store()
        self._set()
        if self.rng.random() < 0.4:
            self._parallel()
        self.level -= 1

    def _while(self) -> None:
        if self.variables:
            name = self.rng.choice(self.variables)
            self._put(f"while {name} > {self.rng.randrange(5, 50)}:")
            self.level += 1
            self._put(f"{name} = {name} // 2")
            self._store()
            self.level -= 1

    def _end(self) -> None:
        if self.rng.random() < 0.5:
            self._put(f"if {self._number()} > {self.rng.randrange(20, 60)}:")
            self.level += 1
            self._put(f"return {self._number()}")
            self.level -= 1

    # -- Loops -------------------------------------------------------------------------------------

    def _parallel(self) -> None:
        rng = self.rng
        kind = rng.choice(["end", "end", "both", "array", "two", "grid"])
        if kind == "end":
            self._put(f"for i in range({self._bound(2000)}):")
        elif kind == "both":
            self._put(f"for i in range({self._bound(31)}, {self._bound(2000)}):")
        elif kind == "array":
            self._put("for i in x:", "for i in range(len(x)):")
        elif kind == "two":
            bounds = f"{self._bound(16)}, ({self._bound(8)}, {self._bound(20)})"
            self._put(f"for i, j in kp.ndrange({bounds}):", f"for i, j in ndrange({bounds}):")
        else:
            self._put("for i, j in grid:", "for i, j in ndrange(16, 20):")
        self.own = ["i", "j"] if kind in ("two", "grid") else ["i"]
        for name in rng.sample(["out", "bins", "wide", "grid", "n", "m"], rng.randrange(1, 4)):
            if name == "m" and self.variables:
                self.written[rng.choice(self.variables)] = rng.choice(["+", "-", "max", "min", "xor"])
            elif name != "m" and (name != "grid" or "j" in self.own):
                self.written[name] = rng.choice(list(_CHANGES))
        self.level += 1
        if rng.random() < 0.4:
            self._put(f"v = {self._number()}")
            self.own.append("v")
        if rng.random() < 0.25:
            self._put(f"if {self._number()} > {rng.randrange(30)}:")
            self.level += 1
            self._put("continue")
            self.level -= 1
        for name in self.written:
            self._write(name)
        if not self.written:
            self._put("pass")
        self.level -= 1
        self.own, self.written = [], {}

    def _write(self, name: str) -> None:
        rng, op = self.rng, self.written[name]
        is_repeated = rng.random() < 0.2
        if is_repeated:
            self._put(f"for k in range({self._number()} & 3):")
            self.level += 1
            self.own.append("k")
        if name == "n":
            # All iterations say the same.
            self._put(f"n[{rng.randrange(8)}] = {rng.randrange(3000)}")
        elif name == "grid" and rng.random() < 0.5:
            self._put(
                f"grid[i, j] = {self._number()}" if not is_repeated else f"grid[i, j] += {self._number()}"
            )
        elif name == "out" and "j" not in self.own and rng.random() < 0.6:
            self._put(f"out[i] {'+=' if is_repeated else '='} {self._number()}")
        else:
            self._change(op, self._place(name), self._number())
        if is_repeated:
            self.level -= 1
            self.own.remove("k")

    def _place(self, name: str) -> str:
        rng = self.rng
        at = rng.choice(
            [self._number(), f"x[i] + {rng.randrange(9)}", "i", f"i * {rng.randrange(1, 40)}", "3"]
        )
        if name == "grid":
            return f"grid[({at}) % 16, j]"
        return f"{name}[({at}) % {SIZES[name][0]}]" if name in SIZES else name

    def _change(self, op: str, place: str, value: str) -> None:
        plain = _CHANGES[op].format(place, value)
        names = {"+": "add", "-": "sub"}
        if op in ("max", "min") or self.rng.random() < 0.3:
            self._put(f"kp.atomic_{names.get(op, op)}({place}, {value})", plain)
        else:
            self._put(plain)


def _ndrange(*bounds: Any) -> Any:
    ends = [bound if isinstance(bound, tuple) else (0, bound) for bound in bounds]
    return itertools.product(*(range(begin, end) for begin, end in ends))


def _arguments(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arrays = {name: rng.integers(0, 50, shape).astype(np.int32) for name, shape in SIZES.items()}
    arrays["n"][:] = rng.choice([0, 1, 5, 31, 40, 700, 2000, 3000], 8)
    return {**arrays, **{name: int(rng.integers(0, 2000)) for name in NUMBERS}}


def judge(seed: int, directory: Path) -> str | None:
    """Run a kernel on NumPy's arrays and on our own, twice each. Return what differs from Python."""
    loops = Maker(seed).kernel()
    text = "import keyprint as kp\n\n\n@kp.kernel\n" + "\n".join(loops.kernel) + "\n"
    path = directory / f"loops{seed}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names: dict[str, Any] = {"ndrange": _ndrange}
    exec(compile("\n".join(loops.plain), f"{path.stem} in Python", "exec"), names)
    for is_own in (False, True):
        arguments, expected = _arguments(seed), _arguments(seed)
        given = dict(arguments)
        if is_own:
            for name in SIZES:
                given[name] = kp.ndarray(kp.i32, SIZES[name])
                given[name].from_numpy(arguments[name])
        for turn in range(2):
            # With more bits than the kernel has: what overflows there differs, and nothing should.
            wide = {
                name: value.astype(np.int64) if name in SIZES else value for name, value in expected.items()
            }
            wanted = names["loops"](**wide)
            actual = module.loops(**given)
            expected = wide
            states = {name: given[name].to_numpy() if is_own else given[name] for name in SIZES}
            wrong = [name for name in SIZES if not np.array_equal(states[name], wide[name])]
            if actual != wanted or wrong:
                where = f"turn {turn}, {'own arrays' if is_own else 'arrays of NumPy'}"
                return f"{text}\nseed {seed}, {where}: {actual} instead of {wanted}; {wrong} differ"
    return None
