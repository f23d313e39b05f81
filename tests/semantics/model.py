"""Types and operators of the kernel language, by the tables of `docs/semantics.md`.

Nothing here knows of the compiler: whole numbers are Python's, floats NumPy's, vectors lists.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
SCALARS = ("bool", *INTS, *FLOATS)

DEFAULT_INT, DEFAULT_FLOAT = "i32", "f32"


class Refused(Exception):
    """The compiler refuses this, or ought to."""


@dataclasses.dataclass(frozen=True)
class Vec:
    """The type of a vector."""

    n: int
    of: str


@dataclasses.dataclass(frozen=True)
class Const:
    """A number that is known when a kernel is compiled: what Python computes with it is known, too."""

    value: Any


@dataclasses.dataclass
class Value:
    """A number of a type, or a vector: a list of numbers."""

    type: Any
    value: Any


def bits(kind: str) -> int:
    return 8 if kind == "bool" else int(kind.lstrip("biuf"))


def is_int(kind: Any) -> bool:
    return kind in INTS


def is_float(kind: Any) -> bool:
    return kind in FLOATS


def is_signed(kind: str) -> bool:
    return kind[0] == "i"


def bounds(kind: str) -> tuple[int, int]:
    many = bits(kind)
    return (-(1 << many - 1), (1 << many - 1) - 1) if is_signed(kind) else (0, (1 << many) - 1)


def wrap(kind: str, value: int) -> int:
    low, _ = bounds(kind)
    return (value - low) % (1 << bits(kind)) + low


_NUMPY = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def computed(kind: str) -> str:
    """The type that floats of a type are computed in."""
    return "f32" if kind in ("f16", "bf16") else kind


def rounded(kind: str, value: Any) -> Any:
    """A float of a type: of whole numbers, too, rounded once."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return _NUMPY[kind](_round_int(value, {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[kind]))
    if kind == "bf16":
        return np.float32(_round_float(float(value)))
    with np.errstate(all="ignore"):
        return _NUMPY[kind](value)


def _round_int(value: int, digits: int) -> float:
    """The nearest number of so many binary digits, ties to even."""
    size, sign = abs(value), -1 if value < 0 else 1
    shift = max(size.bit_length() - digits, 0)
    if shift == 0:
        return float(value)
    low, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    if rest > half or (rest == half and low & 1):
        low += 1
    return sign * math.ldexp(low, shift)


def _round_float(value: float) -> float:
    """The nearest number of eight binary digits that single precision has, ties to even."""
    if value == 0 or not math.isfinite(value):
        return value
    # What is left of the last digit; the smallest numbers have fewer.
    last = max(math.frexp(value)[1], -125) - 8
    low, rest = divmod(abs(value) / 2.0**last, 1)
    low += rest > 0.5 or (rest == 0.5 and low % 2 == 1)
    size = low * 2.0**last
    return math.copysign(size if size < 2.0**128 else math.inf, value)


# -- Types -------------------------------------------------------------------------------------------


def promote(a: str, b: str) -> str:
    """The type that arithmetic on two numbers is done in."""
    if a == b:
        return "i32" if a == "bool" else a
    if "bool" in (a, b):
        return b if a == "bool" else a
    if is_float(a) or is_float(b):
        floats = [kind for kind in (a, b) if is_float(kind)]
        if {*floats} == {"f16", "bf16"}:
            return "f32"
        return max(floats, key=bits)
    if bits(a) != bits(b):
        return max(a, b, key=bits)
    return a if not is_signed(a) else b


def common(a: Any, b: Any) -> Any:
    """The type of what is one thing or another: truth values stay what they are among themselves."""
    if isinstance(a, Vec) or isinstance(b, Vec):
        if isinstance(a, Vec) and isinstance(b, Vec) and a.n == b.n:
            return Vec(a.n, common(a.of, b.of))
        raise Refused("a vector and something else")
    return a if a == b else promote(a, b)


def literal(value: Any) -> str:
    """The type of a number that is known, where it meets one that is not."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return DEFAULT_FLOAT
    for kind in (DEFAULT_INT, "i64", "u64"):
        low, high = bounds(kind)
        if low <= value <= high:
            return kind
    raise Refused("more than 64 bits")


def typed(value: Value | Const) -> Value:
    """A number with the type that it has at run time."""
    if isinstance(value, Value):
        return value
    kind = literal(value.value)
    return Value(kind, rounded(kind, value.value) if is_float(kind) else value.value)


def convert(value: Value, to: Any) -> Any:
    """What a number is as one of another type."""
    kind, number = value.type, value.value
    if isinstance(kind, Vec):
        of = to.of if isinstance(to, Vec) else to
        return [convert(Value(kind.of, lane), of) for lane in number]
    if kind == to:
        return number
    if to == "bool":
        return bool(number != 0)
    if is_float(to):
        with np.errstate(all="ignore"):
            return rounded(to, int(number) if not is_float(kind) else number)
    if is_float(kind):
        low, high = bounds(to)
        number = float(number)
        if math.isnan(number):
            return 0
        if number <= low:
            return low
        return high if number >= high else int(number)
    return wrap(to, int(number))


def fits(value: Value, to: str) -> bool:
    """Whether a float can be converted to a whole number without loss of its size: debug mode looks."""
    low, high = bounds(to)
    number = float(value.value)
    return not math.isnan(number) and not math.isinf(number) and low <= math.trunc(number) <= high


# -- Operators ---------------------------------------------------------------------------------------


def known(op: str, x: Any, y: Any) -> Any:
    """What Python computes of two numbers that are known."""
    try:
        number = {
            "+": lambda: x + y,
            "-": lambda: x - y,
            "*": lambda: x * y,
            "/": lambda: x / y,
            "//": lambda: x // y,
            "%": lambda: x % y,
            "<<": lambda: x << y,
            ">>": lambda: x >> y,
            "&": lambda: x & y,
            "|": lambda: x | y,
            "^": lambda: x ^ y,
            "**": lambda: x**y,
        }[op]()
    except (ArithmeticError, ValueError, TypeError) as error:
        raise Refused(str(error)) from None
    if isinstance(number, complex) or (isinstance(number, int) and abs(number) >= 1 << 60):
        raise Refused("too large")
    return number


def floor_div(kind: str, x: Any, y: Any) -> Any:
    if is_int(kind):
        return 0 if y == 0 else wrap(kind, x // y)
    f = _NUMPY[computed(kind)]
    x, y = f(x), f(y)
    rest = np.fmod(x, y)
    if y == 0:
        return x / y
    quotient = f(f(x - rest) / y)
    if rest != 0 and (y < 0) != (rest < 0):
        quotient = f(quotient - f(1))
    if quotient == 0:
        return np.copysign(f(0), x / y)
    floor = np.floor(quotient)
    return f(floor + 1) if f(quotient - floor) > 0.5 else floor


def modulo(kind: str, x: Any, y: Any) -> Any:
    if is_int(kind):
        return 0 if y == 0 else wrap(kind, x % y)
    f = _NUMPY[computed(kind)]
    x, y = f(x), f(y)
    rest = np.fmod(x, y)
    if y == 0:
        return rest
    if rest == 0:
        return np.copysign(f(0), y)
    return f(rest + y) if (y < 0) != (rest < 0) else rest


def power(kind: str, x: int, y: int) -> int:
    """Of whole numbers."""
    if y < 0:
        return 1 if x == 1 else (-1 if y & 1 else 1) if x == -1 else 0
    return wrap(kind, pow(x, y, 1 << 64) if x >= 0 else pow(x % (1 << 64), y, 1 << 64))


def shift(op: str, kind: str, x: int, count: int) -> int:
    """Of a number of a type, by a count of any type."""
    if not 0 <= count < bits(kind):
        return -1 if op == ">>" and x < 0 else 0
    return wrap(kind, x << count if op == "<<" else x >> count)


class Events(set[str]):
    """What debug mode would have raised."""


def binary(op: str, left: Value | Const, right: Value | Const, events: Events) -> Value | Const:
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(known(op, left.value, right.value))
    exponent = right.value if op == "**" and isinstance(right, Const) and type(right.value) is int else None
    left, right = typed(left), typed(right)
    if isinstance(left.type, Vec) or isinstance(right.type, Vec):
        return _lanes(left, right, lambda a, b: _numbers(op, a, b, events, exponent))
    return _numbers(op, left, right, events, exponent)


def _lanes(left: Value, right: Value, work: Any) -> Value:
    """Something done number by number; a number goes with every number of a vector."""
    many = left.type.n if isinstance(left.type, Vec) else right.type.n
    for operand in (left, right):
        if isinstance(operand.type, Vec) and operand.type.n != many:
            raise Refused("vectors of other sizes")

    def lane(operand: Value, at: int) -> Value:
        return Value(operand.type.of, operand.value[at]) if isinstance(operand.type, Vec) else operand

    lanes = [work(lane(left, at), lane(right, at)) for at in range(many)]
    return Value(Vec(many, lanes[0].type), [element.value for element in lanes])


def _numbers(op: str, left: Value, right: Value, events: Events, exponent: int | None) -> Value:
    with np.errstate(all="ignore"):
        if op in ("<<", ">>"):
            if is_float(left.type) or is_float(right.type):
                raise Refused("a shift of floats")
            kind = "i32" if left.type == "bool" else left.type
            count = int(right.value)
            if not 0 <= count < bits(kind):
                events.add("shift")
            return Value(kind, shift(op, kind, int(left.value), count))
        kind = common(left.type, right.type)
        is_bits = op in "&|^"
        if is_bits and is_float(kind):
            raise Refused("bits of floats")
        if kind == "bool" and not is_bits:
            kind = "i32"
        if op == "/" and not is_float(kind):
            kind = DEFAULT_FLOAT
        x, y = convert(left, kind), convert(right, kind)
        if is_bits:
            number = {"&": x & y, "|": x | y, "^": x ^ y}[op]
            return Value(kind, number)
        wide = computed(kind)
        if is_float(kind):
            x, y = rounded(wide, x), rounded(wide, y)
        if op in ("//", "%") and is_int(kind) and y == 0:
            events.add("division")
        if op == "+":
            number = x + y
        elif op == "-":
            number = x - y
        elif op == "*":
            number = x * y
        elif op == "/":
            number = x / y
        elif op == "//":
            number = floor_div(kind, x, y)
        elif op == "%":
            number = modulo(kind, x, y)
        elif is_int(kind):
            number = power(kind, x, y)
        elif exponent is not None and 0 <= exponent <= 4:
            one = rounded(wide, 1)
            number = one if exponent == 0 else x
            if exponent == 4:
                number = (x * x) * (x * x)
            elif exponent > 1:
                for _ in range(exponent - 1):
                    number = number * x
        else:
            raise Refused("a power that only the C library knows")
        return Value(kind, wrap(kind, number) if is_int(kind) else rounded(kind, number))


def compare(op: str, left: Value | Const, right: Value | Const) -> Value | Const:
    work = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
    }[op]
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(work(left.value, right.value))
    left, right = typed(left), typed(right)

    def numbers(a: Value, b: Value) -> Value:
        # Whole numbers are compared as they are; with a float, both are floats of one type.
        kind = common(a.type, b.type)
        if is_float(kind):
            return Value("bool", bool(work(convert(a, kind), convert(b, kind))))
        return Value("bool", bool(work(int(a.value), int(b.value))))

    if isinstance(left.type, Vec) or isinstance(right.type, Vec):
        return _lanes(left, right, numbers)
    return numbers(left, right)


def extreme(op: str, left: Value | Const, right: Value | Const) -> Value | Const:
    """`min` and `max`: the first unless the second is beyond it."""
    sign = "<" if op == "min" else ">"
    if isinstance(left, Const) and isinstance(right, Const):
        return right if compare(sign, right, left).value else left
    left, right = typed(left), typed(right)

    def numbers(a: Value, b: Value) -> Value:
        kind = promote(a.type, b.type)
        if is_int(a.type) and is_int(b.type) and is_signed(a.type) != is_signed(b.type) and kind[0] == "u":
            kind = kind if op == "max" else "i" + kind[1:]
        chosen = b if compare(sign, b, a).value else a
        return Value(kind, convert(chosen, kind))

    if isinstance(left.type, Vec) or isinstance(right.type, Vec):
        return _lanes(left, right, numbers)
    return numbers(left, right)


def unary(op: str, value: Value | Const) -> Value | Const:
    if isinstance(value, Const):
        number = value.value
        if op == "not":
            return Const(not number)
        if op == "~" and not isinstance(number, int):
            raise Refused("bits of floats")
        if op == "~" and isinstance(number, bool):
            return Value("bool", not number)
        return Const({"-": lambda: -number, "+": lambda: +number, "~": lambda: ~number}[op]())
    if isinstance(value.type, Vec):
        lanes = [unary(op, Value(value.type.of, element)) for element in value.value]
        return Value(Vec(value.type.n, lanes[0].type), [lane.value for lane in lanes])
    kind, number = value.type, value.value
    if op == "not":
        return Value("bool", not truth(value))
    if op == "+":
        return Value("i32", int(number)) if kind == "bool" else value
    if op == "~":
        if is_float(kind):
            raise Refused("bits of floats")
        return Value(kind, not number if kind == "bool" else wrap(kind, ~number))
    if kind == "bool":
        return Value("i32", -int(number))
    return Value(kind, -number if is_float(kind) else wrap(kind, -number))


def absolute(value: Value | Const) -> Value | Const:
    if isinstance(value, Const):
        return Const(abs(value.value))
    kind = "i32" if value.type == "bool" else value.type
    number = abs(convert(value, kind))
    return Value(kind, wrap(kind, number) if is_int(kind) else number)


def truth(value: Value | Const) -> bool:
    if isinstance(value, Value) and isinstance(value.type, Vec):
        raise Refused("the truth of a vector")
    return bool(value.value != 0)


def cast(value: Value | Const, to: str, events: Events) -> Value:
    """`kp.i8(x)`: of what is written out, with all its digits."""
    if isinstance(value, Const):
        number = value.value
        if is_float(to):
            with np.errstate(all="ignore"):
                return Value(to, rounded(to, number))
        if to == "bool":
            return Value(to, bool(number))
        if isinstance(number, float):
            return Value(to, convert(typed(value), to))
        return Value(to, wrap(to, int(number)))
    if not isinstance(value.type, Vec) and is_float(value.type) and is_int(to) and not fits(value, to):
        events.add("range")
    kind = Vec(value.type.n, to) if isinstance(value.type, Vec) else to
    return Value(kind, convert(value, to))


def change(op: str, target: Value, value: Value | Const) -> Any:
    """What `target op= value` leaves in the target, atomic or not."""
    if isinstance(value, Const):
        wide = is_float(target.type) and bits(target.type) >= bits(DEFAULT_FLOAT)
        value = cast(value, target.type, Events()) if wide else typed(value)
    if op in ("min", "max"):
        pair = (target.type, value.type)
        is_mixed = all(is_int(kind) for kind in pair) and is_signed(pair[0]) != is_signed(pair[1])
        if is_mixed and max(bits(kind) for kind in pair) == 64:
            raise Refused("no type holds both")
        changed = extreme(op, target, value)
    else:
        changed = binary(op, target, value, Events())
    return convert(typed(changed), target.type)
