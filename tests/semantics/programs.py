"""Makes random programs: functions that take numbers of all types, compute with them, and store what they have.

Every statement is tried on the model before it is kept: what the language refuses is not what these are for.
"""

from __future__ import annotations

import ast
import dataclasses
import random
from typing import Any

from . import model
from .interpreter import Frame, Memory, StructType, Variable, zero
from .model import Events, Refused, Vec

#: Numbers that come with each call, by name.
NUMBERS = {
    "a": "i32",
    "b": "i64",
    "c": "u8",
    "d": "i8",
    "e": "u32",
    "f": "f32",
    "g": "f64",
    "h": "u64",
    "p": "i16",
    "q": "u16",
    "r": "bool",
    "s": "f16",
    "t": "bf16",
}

#: Arrays that programs change, a row for each iteration.
ARRAYS = {"I": "i32", "J": "i64", "U": "u8", "V": "u32", "F": "f32", "G": "f64", "B": "i16"}

#: How many elements a row has.
WIDTH = 3

CONSTANTS = {
    "YES": True,
    "NO": False,
    "TWO": 2,
    "BIG": 3_000_000_000,
    "HALF": 0.5,
    "THIRD": 1 / 3,
    "LESS": -7,
}

STRUCTS = {
    "Pair": StructType("Pair", (("one", "i16"), ("two", "f64"))),
    "Small": StructType("Small", (("n", "u8"), ("x", "f32"))),
}

HELPERS = """
def sign_of(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


def wide_or_not(x, y):
    if x:
        return y
    return 2.5


def clamped(x, low, high):
    for k in range(3):
        if x < low:
            return low
    if x > high:
        return high
    return x


def twice(x):
    y = x
    y += x
    return y
"""

_CASTS = [*model.SCALARS]

_LITERALS = [
    *("0", "1", "2", "3", "7", "31", "63", "127", "255", "256", "-1", "-2", "-128", "65536", "2147483647"),
    *("4294967295", "0.5", "-0.0", "2.5", "0.1", "1e10", "True", "False"),
]


@dataclasses.dataclass
class Program:
    """A function, and how many numbers it stores: whole ones, and floats."""

    name: str
    text: str
    ints: int
    floats: int

    @property
    def tree(self) -> ast.FunctionDef:
        return ast.parse(self.text).body[0]


def helpers() -> dict[str, ast.FunctionDef]:
    return {function.name: function for function in ast.parse(HELPERS).body}


class Maker:
    """Makes one program."""

    def __init__(self, seed: int, *, is_smooth: bool = False) -> None:
        self.rng = random.Random(seed)
        #: Only floats, and what changes them a little at a time: for modes in which results are not exact.
        self.is_smooth = is_smooth
        arrays: dict[str, tuple[str, Any]] = {name: (kind, None) for name, kind in ARRAYS.items()}
        arrays.update({"OI": ("i64", None), "OF": ("f64", None)})
        world = Memory(helpers(), dict(CONSTANTS), dict(STRUCTS), arrays, Events())
        names = {name: Variable(kind, zero(kind)) for name, kind in NUMBERS.items()}
        names["i"] = Variable("i32", 0)
        self.frame = Frame(world, names, True)
        self.fresh = 0
        self.in_loop = 0

    # -- Expressions -------------------------------------------------------------------------------

    def _readable(self, want: Any = None) -> list[str]:
        names = []
        for name, variable in self.frame.names.items():
            if not variable.is_set or name == "i":
                continue
            if (
                (want is None and (isinstance(variable.type, str)))
                or (want == "vector" and isinstance(variable.type, Vec))
                or (want == "struct" and isinstance(variable.type, StructType))
            ):
                names.append(name)
        return names

    def leaf(self) -> str:
        rng = self.rng
        if self.is_smooth:
            return rng.choice(["f", "g", "0.75", "1.25", "HALF", *self._floats()])
        pick = rng.random()
        if pick < 0.22:
            return f"({rng.choice(_LITERALS)})"
        if pick < 0.3:
            return rng.choice(list(CONSTANTS))
        if pick < 0.4:
            return f"{rng.choice(list(ARRAYS))}[i, {rng.randrange(WIDTH)}]"
        if pick < 0.46 and (vectors := self._readable("vector")):
            name = rng.choice(vectors)
            return rng.choice([f"{name}[{rng.randrange(2)}]", f"{name}.x", f"{name}.sum()", f"{name}.max()"])
        if pick < 0.5 and (structs := self._readable("struct")):
            name = rng.choice(structs)
            return f"{name}.{rng.choice([field for field, _ in self.frame.names[name].type.members])}"
        return rng.choice(self._readable())

    def _floats(self) -> list[str]:
        names = self._readable()
        return [
            name for name in names if name.startswith("v") and model.is_float(self.frame.names[name].type)
        ]

    def expr(self, depth: int) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf()
        operand = lambda: self.expr(depth - 1)  # noqa: E731
        if self.is_smooth:
            kind = rng.choice(["+", "-", "*", "mean", "sqrt", "max"])
            if kind == "mean":
                return f"(({operand()} + {operand()}) * 0.5)"
            if kind == "sqrt":
                return f"kp.sqrt(abs({operand()}) + 0.5)"
            return f"max({operand()}, {operand()})" if kind == "max" else f"({operand()} {kind} {operand()})"
        kind = rng.choice(
            ["arithmetic"] * 5
            + ["divide", "divide", "bits", "shift", "shift", "compare", "compare", "logical", "logical"]
            + ["choose", "choose", "choose", "minmax", "minmax", "unary", "cast", "cast", "call", "function"]
            + ["power"]
        )
        if kind == "arithmetic":
            return f"({operand()} {rng.choice('+-*')} {operand()})"
        if kind == "divide":
            return f"({operand()} {rng.choice(['/', '//', '%'])} {operand()})"
        if kind == "bits":
            return f"({operand()} {rng.choice('&|^')} {operand()})"
        if kind == "shift":
            return f"({operand()} {rng.choice(['<<', '>>'])} {operand()})"
        if kind == "power":
            return f"({operand()} ** {rng.choice(['0', '1', '2', '3', '4', 'c', '(a & 7)'])})"
        if kind == "compare":
            return self.condition(depth - 1)
        if kind == "logical":
            return f"({operand()} {rng.choice(['and', 'or'])} {operand()})"
        if kind == "choose":
            test = rng.choice([self.condition(depth - 1), "YES", "NO", "kp.static(TWO > 1)", self.leaf()])
            return f"({operand()} if {test} else {operand()})"
        if kind == "minmax":
            more = f", {operand()}" if rng.random() < 0.2 else ""
            return f"{rng.choice(['min', 'max'])}({operand()}, {operand()}{more})"
        if kind == "unary":
            return f"({rng.choice(['-', '~', 'not ', '+'])}{operand()})"
        if kind == "cast":
            return f"kp.{rng.choice(_CASTS)}({operand()})"
        if kind == "call":
            name = rng.choice(["abs", "int", "float", "kp.floor", "kp.ceil", "kp.round", "kp.sqrt"])
            return f"{name}({operand()})"
        return rng.choice(
            [
                f"sign_of({operand()})",
                f"wide_or_not({operand()}, {operand()})",
                f"clamped({operand()}, {operand()}, {operand()})",
                f"twice({operand()})",
                f"kp.select({self.condition(depth - 1)}, {operand()}, {operand()})",
            ]
        )

    def condition(self, depth: int) -> str:
        rng = self.rng
        sign = lambda: rng.choice(["<", "<=", ">", ">=", "==", "!="])  # noqa: E731
        if rng.random() < 0.15:
            return f"({self.expr(depth)} {sign()} {self.expr(depth)} {sign()} {self.expr(depth)})"
        return f"({self.expr(depth)} {sign()} {self.expr(depth)})"

    # -- Statements --------------------------------------------------------------------------------

    def name(self) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    def known(self, is_vector: bool = False) -> str | None:
        """A variable of the program that can be assigned to."""
        names = self._readable("vector") if is_vector else [var for var in self._readable() if var[0] == "v"]
        return self.rng.choice(names) if names else None

    def statement(self, depth: int) -> list[str]:
        rng = self.rng
        kinds = ["new"] * 3 + ["set", "augment", "augment", "array", "atomic"]
        kinds += ["vector", "lane", "struct", "member", "swap", "annotated"]
        kinds += ["if", "if", "if", "known", "for", "while", "static"] if depth else []
        kinds += ["leave"] if self.in_loop else []
        if self.is_smooth:
            kinds = ["new", "new", "set", "augment", "float array"]
        return getattr(self, "_" + rng.choice(kinds).replace(" ", "_"))(depth)

    def _new(self, depth: int) -> list[str]:
        return [f"{self.name()} = {self.expr(2)}"]

    def _annotated(self, depth: int) -> list[str]:
        return [f"{self.name()}: kp.{self.rng.choice(_CASTS)} = {self.expr(2)}"]

    def _set(self, depth: int) -> list[str]:
        name = self.known()
        return [] if name is None else [f"{name} = {self.expr(2)}"]

    def _augment(self, depth: int) -> list[str]:
        name = self.known()
        if name is None:
            return []
        ops = (
            ["+", "-", "*"] if self.is_smooth else ["+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^", "/"]
        )
        return [f"{name} {self.rng.choice(ops)}= {self.expr(1)}"]

    def _array(self, depth: int) -> list[str]:
        target = f"{self.rng.choice(list(ARRAYS))}[i, {self.rng.randrange(WIDTH)}]"
        if self.rng.random() < 0.4:
            return [f"{target} = {self.expr(2)}"]
        return [f"{target} {self.rng.choice(['+', '-', '*', '&', '|', '^', '-', '+'])}= {self.expr(2)}"]

    def _float_array(self, depth: int) -> list[str]:
        return [f"{self.rng.choice('FG')}[i, {self.rng.randrange(WIDTH)}] += {self.expr(1)} * 0.125"]

    def _atomic(self, depth: int) -> list[str]:
        op = self.rng.choice(["add", "sub", "mul", "min", "max", "and", "or", "xor", "sub", "min", "max"])
        target = f"{self.rng.choice(list(ARRAYS))}[i, {self.rng.randrange(WIDTH)}]"
        call = f"kp.atomic_{op}({target}, {self.expr(2)})"
        return [call if self.rng.random() < 0.5 else f"{self.name()} = {call}"]

    def _vector(self, depth: int) -> list[str]:
        rng = self.rng
        vectors = self._readable("vector")
        literal = f"kp.Vector([{self.expr(1)}, {self.expr(1)}])"
        if not vectors or rng.random() < 0.4:
            return [f"{self.name()} = {literal}"]
        vector, other = rng.choice(vectors), rng.choice([*vectors, literal, self.expr(1)])
        value = rng.choice(
            [
                f"{vector} {rng.choice(['+', '-', '*', '/', '//', '<<', '&'])} {other}",
                f"min({vector}, {other})",
                f"-{vector}",
                f"{vector} {rng.choice(['<', '>=', '=='])} {other}",
                f"({vector} if {self.condition(1)} else {rng.choice(vectors)})",
            ]
        )
        return [f"{rng.choice([self.name(), rng.choice(vectors)])} = {value}"]

    def _lane(self, depth: int) -> list[str]:
        name = self.known(is_vector=True)
        if name is None:
            return []
        place = self.rng.choice([f"{name}[1]", f"{name}.y"])
        return [f"{place} {self.rng.choice(['=', '+=', '-=', '*='])} {self.expr(2)}"]

    def _struct(self, depth: int) -> list[str]:
        kind = self.rng.choice(list(STRUCTS))
        first = STRUCTS[kind].members[0][0]
        return [
            f"{self.name()} = {kind}({self.expr(1)}{', ' + self.expr(1) if self.rng.random() < 0.7 else ''})"
        ] + ([] if self.rng.random() < 0.5 else [f"v{self.fresh}.{first} = {self.expr(2)}"])

    def _member(self, depth: int) -> list[str]:
        structs = self._readable("struct")
        if not structs:
            return []
        name = self.rng.choice(structs)
        member = self.rng.choice([field for field, _ in self.frame.names[name].type.members])
        return [f"{name}.{member} {self.rng.choice(['=', '+=', '-='])} {self.expr(2)}"]

    def _swap(self, depth: int) -> list[str]:
        variable, other = self.known(), self.known()
        return [] if variable is None or variable == other else [f"{variable}, {other} = {other}, {variable}"]

    def _if(self, depth: int) -> list[str]:
        return self._branches(depth, self.rng.choice([self.condition(2), self.leaf(), self.expr(2)]))

    def _known(self, depth: int) -> list[str]:
        return self._branches(depth, self.rng.choice(["YES", "NO", "TWO > 1", "kp.static(NO)", "LESS > 0"]))

    def _branches(self, depth: int, test: str) -> list[str]:
        rng = self.rng
        # A variable that every branch makes, of whatever type.
        shared = self.name() if rng.random() < 0.7 else None
        what = rng.random()

        def body() -> list[str]:
            before = self.frame
            self.frame = before.ghost()
            lines = self.block(depth - 1, rng.randrange(0, 3))
            if shared is not None:
                if what < 0.15:
                    lines.append(f"{shared} = kp.Vector([{self.expr(1)}, {self.expr(1)}])")
                elif what < 0.25:
                    lines.append(f"{shared} = Pair({self.expr(1)}, {self.expr(1)})")
                else:
                    lines.append(f"{shared} = {self.expr(1)}")
            self.frame = before
            return indented(lines or ["pass"])

        lines = [f"if {test}:", *body()]
        if rng.random() < 0.25:
            lines += [f"elif {self.condition(1)}:", *body()]
        if shared is not None or rng.random() < 0.5:
            lines += ["else:", *body()]
        return lines

    def _for(self, depth: int) -> list[str]:
        rng = self.rng
        self.fresh += 1
        name = f"n{self.fresh}"
        bounds = rng.choice(
            ["3", "1, 4", "5, 0, -2", "(a & 3)", "(c & 3), (e & 3)", "(d & 3) - 1, kp.u32(2)", "-2, (q & 3)"]
        )
        return [f"for {name} in range({bounds}):", *self._turn(depth, name)]

    def _while(self, depth: int) -> list[str]:
        name = self.name()
        body = self._turn(depth, None)
        return [f"{name} = 0", f"while {name} < 3:", *indented([f"{name} += 1"]), *body]

    def _turn(self, depth: int, variable: str | None) -> list[str]:
        before = self.frame
        self.frame = before.ghost()
        if variable is not None:
            self.frame.names[variable] = Variable("i32", 0)
        self.in_loop += 1
        lines = self.block(depth - 1, 2)
        self.in_loop -= 1
        self.frame = before
        return indented(lines or ["pass"])

    def _static(self, depth: int) -> list[str]:
        self.fresh += 1
        name = f"k{self.fresh}"
        target = self.known() or self.name()
        return [
            f"for {name} in kp.static(range({self.rng.randrange(3)})):",
            *indented([f"{self.name()} = {name} * {self.expr(1)}", f"U[i, {name}] -= {self.expr(1)}"]),
            f"{target} = {self.expr(1)}",
        ]

    def _leave(self, depth: int) -> list[str]:
        return [f"if {self.condition(1)}:", *indented([self.rng.choice(["break", "continue"])])]

    def block(self, depth: int, many: int) -> list[str]:
        """Statements that the model takes."""
        statements: list[str] = []
        tries = 0
        while many > 0 and tries < 40:
            tries += 1
            before, fresh = self.frame.ghost(), self.fresh
            lines = self.statement(depth)
            if not lines:
                continue
            try:
                tree = ast.parse("\n".join(lines)).body
                self.frame.block(tree)
            except Refused:
                self.frame, self.fresh = before, fresh
                continue
            except RecursionError:
                self.frame = before
                continue
            if any(len(line) > 400 for line in lines):
                self.frame = before
                continue
            statements += lines
            many -= 1
        return statements

    def program(self, name: str) -> Program:
        lines = self.block(2, self.rng.randrange(3, 9))
        ints = floats = 0
        stores = []
        probed = False
        for variable, declared in self.frame.names.items():
            if variable[0] != "v" or not declared.is_set:
                continue
            parts = [(variable, declared.type)]
            if isinstance(declared.type, Vec):
                parts = [(f"{variable}[{at}]", declared.type.of) for at in range(declared.type.n)]
            elif isinstance(declared.type, StructType):
                parts = [(f"{variable}.{member}", kind) for member, kind in declared.type.members]
            for text, kind in parts:
                if model.is_float(kind):
                    stores.append(f"OF[i, AT, {floats}] = {text}")
                    floats += 1
                    continue
                stores.append(f"OI[i, AT, {ints}] = {text}")
                ints += 1
                if kind != "bool" and not probed:
                    # What tells the types of whole numbers apart.
                    probed = True
                    for count in ("0", "15", "31", "40"):
                        stores.append(f"OI[i, AT, {ints}] = (~({text} ^ {text})) << {count}")
                        ints += 1
        parameters = ", ".join([*NUMBERS, *ARRAYS, "OI", "OF"])
        body = "\n".join(indented([*lines, *stores] or ["pass"]))
        return Program(name, f"def {name}(i, AT, {parameters}):\n{body}\n", ints, floats)


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
