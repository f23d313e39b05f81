"""Runs programs of the kernel language as `docs/semantics.md` has it, statement by statement.

What a variable or a conditional is depends on the types of all branches, those that are not taken included. So there
are two passes over everything: `types` says what things are, `run` what they hold.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import numpy as np

from . import model
from .model import Const, Events, Refused, Value, Vec

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}


@dataclasses.dataclass(frozen=True)
class StructType:
    name: str
    members: tuple[tuple[str, str], ...]


@dataclasses.dataclass
class Variable:
    """A variable: its type, what it holds, and whether every way here has set it."""

    type: Any
    value: Any = None
    is_set: bool = True


@dataclasses.dataclass
class Memory:
    """What a program can reach: functions, constants, types of structs, and arrays by name."""

    functions: dict[str, ast.FunctionDef]
    constants: dict[str, Any]
    structs: dict[str, StructType]
    #: The type of the elements, and the elements themselves, by indices.
    arrays: dict[str, tuple[str, Any]]
    events: Events = dataclasses.field(default_factory=Events)


class Left(Exception):
    """A loop or a function is left."""

    def __init__(self, how: str, value: Any = None) -> None:
        self.how, self.value = how, value


def zero(kind: Any) -> Any:
    if isinstance(kind, Vec):
        return [zero(kind.of)] * kind.n
    if isinstance(kind, StructType):
        return {name: zero(member) for name, member in kind.members}
    return model.rounded(kind, 0) if model.is_float(kind) else kind != "bool" and 0


Names = dict[str, Variable]


class Frame:
    """A function that runs, or whose types are looked for (`ghost`): then values are zeros."""

    def __init__(self, world: Memory, names: Names, is_ghost: bool) -> None:
        self.world = world
        self.names = names
        self.is_ghost = is_ghost
        self.returns: list[Any] = []
        #: Whether there was a `return` on another way, and which way is taken is not known before.
        self.is_unsure = False

    def ghost(self) -> Frame:
        """The same, to look for types from here on."""
        names = {name: dataclasses.replace(variable) for name, variable in self.names.items()}
        frame = Frame(self.world, names, True)
        frame.returns = self.returns
        return frame

    # -- Expressions -------------------------------------------------------------------------------

    def type_of(self, node: ast.expr) -> Value | Const:
        """What an expression is; what it holds does not matter."""
        return self.ghost().eval(node)

    def eval(self, node: ast.expr) -> Value | Const:
        return getattr(self, "_" + type(node).__name__.lower())(node)

    def _constant(self, node: ast.Constant) -> Const:
        return Const(node.value)

    def _name(self, node: ast.Name) -> Value | Const:
        if node.id in self.names:
            known = self.names[node.id]
            if not known.is_set:
                raise Refused(f"{node.id} may not be set")
            return Value(known.type, known.value)
        return Const(self.world.constants[node.id])

    def _binop(self, node: ast.BinOp) -> Value | Const:
        left, right = self.eval(node.left), self.eval(node.right)
        return model.binary(_BINARY[type(node.op)], left, right, self._events())

    def _events(self) -> Events:
        return Events() if self.is_ghost else self.world.events

    def _unaryop(self, node: ast.UnaryOp) -> Value | Const:
        return model.unary(_UNARY[type(node.op)], self.eval(node.operand))

    def _compare(self, node: ast.Compare) -> Value | Const:
        left = self.eval(node.left)
        result: Value | Const = Const(True)
        for op, right in zip(node.ops, node.comparators, strict=True):
            # What is further to the right is only computed if all before it holds.
            frame = self if model.truth(result) else self.ghost()
            value = frame.eval(right)
            compared = model.compare(_COMPARE[type(op)], left, value)
            if isinstance(compared, Value) and isinstance(compared.type, Vec):
                if len(node.ops) > 1:
                    raise Refused("a chain of vectors")
                return compared
            if isinstance(result, Const) and not result.value:
                return result
            is_known = isinstance(result, Const) and isinstance(compared, Const)
            both = model.truth(result) and model.truth(compared)
            result = Const(both) if is_known else Value("bool", both)
            left = value
        return result

    def _boolop(self, node: ast.BoolOp) -> Value | Const:
        is_and = isinstance(node.op, ast.And)
        result = self.eval(node.values[0])
        decided = False
        for operand in node.values[1:]:
            if isinstance(result, Const):
                # What is known decides as in Python.
                if bool(result.value) == is_and:
                    result = self.eval(operand)
                continue
            decided = decided or model.truth(result) != is_and
            frame = self.ghost() if decided else self
            other = model.typed(frame.eval(operand))
            if isinstance(other.type, Vec):
                raise Refused("the truth of a vector")
            kind = model.common(result.type, other.type)
            result = Value(kind, model.convert(result if decided else other, kind))
        return result

    def _ifexp(self, node: ast.IfExp) -> Value | Const:
        test = self.eval(node.test)
        taken, other = (node.body, node.orelse) if model.truth(test) else (node.orelse, node.body)
        if _is_static(node.test):
            return self.eval(taken)
        chosen, missed = self.eval(taken), self.type_of(other)
        if isinstance(chosen, Const) and isinstance(missed, Const) and isinstance(test, Const):
            # A number that is known stays one, as a kind that holds both.
            kinds = [bool, int, float]
            kind = kinds[max(kinds.index(type(const.value)) for const in (chosen, missed))]
            return Const(kind(chosen.value))
        chosen, missed = model.typed(chosen), model.typed(missed)
        kind = _joined(chosen.type, missed.type)
        if isinstance(kind, Vec) and not isinstance(chosen.type, Vec):
            return Value(kind, [model.convert(chosen, kind.of)] * kind.n)
        return Value(kind, model.convert(chosen, kind))

    def _call(self, node: ast.Call) -> Value | Const:
        name = ast.unparse(node.func)
        short = name.removeprefix("kp.")
        if isinstance(node.func, ast.Attribute) and not name.startswith("kp."):
            return self._method(self.eval(node.func.value), node.func.attr, node)
        if short.startswith("atomic_"):
            return self._atomic(short.removeprefix("atomic_"), node)
        if short == "Vector":
            items = [model.typed(self.eval(element)) for element in node.args[0].elts]
            kind = items[0].type
            for item in items[1:]:
                kind = model.common(kind, item.type)
            return Value(Vec(len(items), kind), [model.convert(item, kind) for item in items])
        values = [self.eval(argument) for argument in node.args]
        if short == "static":
            return values[0]
        if short in model.SCALARS:
            return model.cast(values[0], short, self._events())
        if name in self.world.structs:
            return self._struct(self.world.structs[name], values, node)
        if name in self.world.functions:
            return self._function(self.world.functions[name], values)
        return getattr(self, "_call_" + short)(*values)

    def _call_min(self, *values: Value | Const) -> Value | Const:
        smallest = values[0]
        for value in values[1:]:
            smallest = model.extreme("min", smallest, value)
        return smallest

    def _call_max(self, *values: Value | Const) -> Value | Const:
        largest = values[0]
        for value in values[1:]:
            largest = model.extreme("max", largest, value)
        return largest

    def _call_abs(self, value: Value | Const) -> Value | Const:
        return model.absolute(value)

    def _call_int(self, value: Value | Const) -> Value | Const:
        if isinstance(value, Const):
            number = int(value.value)
            model.literal(number)
            return Const(number)
        to = value.type if model.is_int(value.type) else model.DEFAULT_INT
        return model.cast(value, to, self._events())

    def _call_float(self, value: Value | Const) -> Value | Const:
        if isinstance(value, Const) and not isinstance(value.value, bool):
            return Const(float(value.value))
        value = model.typed(value)
        to = value.type if model.is_float(value.type) else model.DEFAULT_FLOAT
        return model.cast(value, to, self._events())

    def _call_select(self, test: Any, then: Any, otherwise: Any) -> Value:
        then, otherwise = model.typed(then), model.typed(otherwise)
        kind = model.common(then.type, otherwise.type)
        return Value(kind, model.convert(then if model.truth(test) else otherwise, kind))

    def _call_floor(self, value: Value | Const) -> Value | Const:
        return self._rounding(value, np.floor)

    def _call_ceil(self, value: Value | Const) -> Value | Const:
        return self._rounding(value, np.ceil)

    def _call_round(self, value: Value | Const) -> Value | Const:
        return self._rounding(value, np.rint)

    def _call_sqrt(self, value: Value | Const) -> Value:
        value = model.typed(value)
        kind = value.type if model.is_float(value.type) else model.DEFAULT_FLOAT
        with np.errstate(all="ignore"):
            wide = model.rounded(model.computed(kind), model.convert(value, kind))
            return Value(kind, model.rounded(kind, np.sqrt(wide)))

    def _rounding(self, value: Value | Const, work: Any) -> Value | Const:
        if isinstance(value, Const) and not isinstance(value.value, float):
            return value
        value = model.typed(value)
        return Value(value.type, work(value.value)) if model.is_float(value.type) else value

    def _method(self, of: Value, name: str, node: ast.Call) -> Value:
        lanes = [Value(of.type.of, number) for number in of.value]
        if name in ("sum", "max", "min"):
            result: Any = lanes[0]
            for lane in lanes[1:]:
                result = (
                    model.binary("+", result, lane, self._events())
                    if name == "sum"
                    else model.extreme(name, result, lane)
                )
            if name != "sum" and result.type == "bool":
                raise Refused("of truth values")
            return result
        other = self.eval(node.args[0])
        result = None
        for a, b in zip(lanes, other.value, strict=True):
            product = model.binary("*", a, Value(other.type.of, b), self._events())
            result = product if result is None else model.binary("+", result, product, self._events())
        return result

    def _struct(self, kind: StructType, values: list[Any], node: ast.Call) -> Value:
        given = dict(zip((name for name, _ in kind.members), values, strict=False))
        given.update({keyword.arg: self.eval(keyword.value) for keyword in node.keywords})
        members = {}
        for name, of in kind.members:
            members[name] = zero(of) if name not in given else _stored(given[name], of)
        return Value(kind, members)

    def _function(self, function: ast.FunctionDef, values: list[Any]) -> Value | Const:
        names: Names = {}
        constants: dict[str, Any] = {}
        assigned = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and _is_store(node)}
        for parameter, value in zip(function.args.args, values, strict=True):
            if isinstance(value, Const) and parameter.arg not in assigned:
                constants[parameter.arg] = value.value
            else:
                value = model.typed(value)
                names[parameter.arg] = Variable(value.type, value.value)
        events = self._events()
        world = dataclasses.replace(
            self.world, constants={**self.world.constants, **constants}, events=events
        )
        looking = Frame(world, {name: dataclasses.replace(known) for name, known in names.items()}, True)
        looking.block(function.body)
        kind = None
        for returned in looking.returns:
            returned = model.typed(returned)
            kind = returned.type if kind is None else model.common(kind, returned.type)
        frame = Frame(world, names, False)
        try:
            frame.block(function.body)
        except Left as left:
            if isinstance(left.value, Const) and not frame.is_unsure and model.typed(left.value).type == kind:
                # What is known which way it comes stays known.
                return left.value
            return Value(kind, model.convert(model.typed(left.value), kind))
        raise Refused("a function that does not return")

    def _subscript(self, node: ast.Subscript) -> Value | Const:
        name = node.value.id if isinstance(node.value, ast.Name) else None
        if name in self.world.arrays:
            kind, elements = self.world.arrays[name]
            return Value(kind, zero(kind) if self.is_ghost else elements[self._index(node)])
        of = self.eval(node.value)
        return Value(of.type.of, of.value[self.eval(node.slice).value])

    def _index(self, node: ast.Subscript) -> tuple[int, ...]:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return tuple(int(self.eval(part).value) for part in parts)

    def _attribute(self, node: ast.Attribute) -> Value:
        of = self.eval(node.value)
        if isinstance(of.type, StructType):
            return Value(dict(of.type.members)[node.attr], of.value[node.attr])
        return Value(of.type.of, of.value["xyzw".index(node.attr)])

    def _atomic(self, op: str, node: ast.Call) -> Value:
        value = self.eval(node.args[1])
        return self._changed(
            {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}.get(op, op),
            node.args[0],
            value,
            True,
        )

    def _changed(self, op: str, target: ast.Subscript, value: Any, is_atomic: bool) -> Value:
        kind, elements = self.world.arrays[target.value.id]
        if is_atomic and model.is_float(model.typed(value).type) and not model.is_float(kind):
            raise Refused("a whole number that is changed by a float")
        before = zero(kind) if self.is_ghost else elements[self._index(target)]
        after = model.change(op, Value(kind, before), value)
        if not self.is_ghost:
            elements[self._index(target)] = after
        return Value(kind, before)

    # -- Statements --------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> bool:
        """Run statements; of a ghost, return whether they leave."""
        return any(getattr(self, "_" + type(stmt).__name__.lower())(stmt) for stmt in body)

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _expr(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def _assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Tuple):
            values = [self.eval(element) for element in node.value.elts]
            for target, value in zip(node.targets[0].elts, values, strict=True):
                self._set(target, value)
            return
        self._set(node.targets[0], self.eval(node.value))

    def _annassign(self, node: ast.AnnAssign) -> None:
        kind = ast.unparse(node.annotation).removeprefix("kp.")
        self._set(node.target, Value(kind, _stored(self.eval(node.value), kind)))

    def _set(self, target: ast.expr, value: Value | Const) -> None:
        if isinstance(target, ast.Name):
            known = self.names.get(target.id)
            if known is not None and known.is_set:
                known.value = _stored(value, known.type)
            else:
                value = model.typed(value)
                self.names[target.id] = Variable(value.type, value.value)
        elif isinstance(target, ast.Subscript) and getattr(target.value, "id", None) in self.world.arrays:
            kind, elements = self.world.arrays[target.value.id]
            stored = _stored(value, kind)
            if not self.is_ghost:
                elements[self._index(target)] = stored
        elif isinstance(target, ast.Subscript):
            of = self.names[target.value.id]
            of.value = list(of.value)
            of.value[self.eval(target.slice).value] = _stored(value, of.type.of)
        else:
            of = self.names[target.value.id]
            if isinstance(of.type, StructType):
                of.value = {**of.value, target.attr: _stored(value, dict(of.type.members)[target.attr])}
            else:
                of.value = list(of.value)
                of.value["xyzw".index(target.attr)] = _stored(value, of.type.of)

    def _augassign(self, node: ast.AugAssign) -> None:
        op = _BINARY[type(node.op)]
        value = self.eval(node.value)
        if (
            isinstance(node.target, ast.Subscript)
            and getattr(node.target.value, "id", None) in self.world.arrays
        ):
            self._changed(op, node.target, value, op in "+-*&|^")
            return
        read = ast.parse(ast.unparse(node.target), mode="eval").body
        before = model.typed(self.eval(read))
        if isinstance(value, Const) and model.is_float(_scalar(before.type)):
            of = _scalar(before.type)
            if model.bits(of) >= model.bits(model.DEFAULT_FLOAT):
                value = model.cast(value, of, Events())
        self._set(node.target, model.binary(op, before, value, self._events()))

    def _if(self, node: ast.If) -> bool:
        test = self.eval(node.test)
        holds = model.truth(test)
        taken, other = (node.body, node.orelse) if holds else (node.orelse, node.body)
        if _is_static(node.test):
            return self.block(taken)
        self.is_unsure |= not isinstance(test, Const) and _returns(node)
        missed = self.ghost()
        missed_left = missed.block(other)
        # What leaves is an exception, but of a ghost.
        if self.block(taken):
            self.names = missed.names
            return missed_left
        if missed_left:
            return False
        if not isinstance(test, Const):
            self._join(missed.names)
            return False
        # Which branch is taken is known: what the other one sets matters for types alone.
        both = {name: variable for name, variable in missed.names.items() if name in self.names}
        for name, variable in both.items():
            if not (variable.is_set and self.names[name].is_set):
                both[name] = self.names[name]
        self._join({**self.names, **both})
        return False

    def _join(self, other: Names) -> None:
        for name in set(self.names) | set(other):
            own, theirs = self.names.get(name), other.get(name)
            if own is None or theirs is None or not (own.is_set and theirs.is_set):
                known = own or theirs
                self.names[name] = dataclasses.replace(known, is_set=False)
            elif own.type != theirs.type:
                kind = model.common(own.type, theirs.type)
                self.names[name] = Variable(kind, model.convert(Value(own.type, own.value), kind))

    def _loop(self, body: list[ast.stmt]) -> bool:
        """One turn; returns whether the loop is left."""
        try:
            self.block(body)
        except Left as left:
            if left.how == "return":
                raise
            return left.how == "break"
        return False

    def _after_loop(self, before: Names) -> None:
        for name in list(self.names):
            if name not in before:
                del self.names[name]
            elif not before[name].is_set:
                self.names[name] = before[name]

    def _for(self, node: ast.For) -> None:
        before = {name: dataclasses.replace(variable) for name, variable in self.names.items()}
        text = ast.unparse(node.iter)
        is_static = text.startswith("kp.static")
        call = node.iter.args[0] if is_static else node.iter
        bounds = [self.eval(bound) for bound in call.args]
        name = node.target.id
        if is_static:
            for at in range(*(bound.value for bound in bounds)):
                self.world = dataclasses.replace(self.world, constants={**self.world.constants, name: at})
                self.block(node.body)
            return
        self.is_unsure |= _returns(node)
        kind = _range_type(bounds)
        numbers = [int(bound.value) for bound in map(model.typed, bounds)]
        frame = self.ghost()
        frame.names[name] = Variable(kind, zero(kind))
        frame.block(node.body)
        if not self.is_ghost:
            for at in range(*numbers):
                self.names[name] = Variable(kind, at)
                left = self._loop(node.body)
                self._after_loop(before)
                if left:
                    break
        self._after_loop(before)

    def _while(self, node: ast.While) -> None:
        before = {name: dataclasses.replace(variable) for name, variable in self.names.items()}
        self.is_unsure |= _returns(node)
        frame = self.ghost()
        frame.eval(node.test)
        frame.block(node.body)
        turns = 0
        while not self.is_ghost and model.truth(self.eval(node.test)):
            turns += 1
            assert turns < 10_000, "a program that does not end"
            left = self._loop(node.body)
            self._after_loop(before)
            if left:
                break
        self._after_loop(before)

    def _break(self, node: ast.Break) -> bool:
        if not self.is_ghost:
            raise Left("break")
        return True

    def _continue(self, node: ast.Continue) -> bool:
        if not self.is_ghost:
            raise Left("continue")
        return True

    def _return(self, node: ast.Return) -> bool:
        value = self.eval(node.value)
        if self.is_ghost:
            self.returns.append(value)
            return True
        raise Left("return", value)


def _returns(node: ast.stmt) -> bool:
    return any(isinstance(child, ast.Return) for child in ast.walk(node))


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_static(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "kp.static"


def _scalar(kind: Any) -> Any:
    return kind.of if isinstance(kind, Vec) else kind


def _joined(kind: Any, other: Any) -> Any:
    """The type of one of two values: a number beside a vector is one everywhere."""
    if isinstance(kind, Vec) != isinstance(other, Vec):
        vector, number = (kind, other) if isinstance(kind, Vec) else (other, kind)
        return Vec(vector.n, model.common(vector.of, number))
    return model.common(kind, other)


def _range_type(bounds: list[Any]) -> str:
    """The type of the variable of a loop."""
    types = [model.typed(bound).type for bound in bounds]
    kind = "i32" if types[0] == "bool" else types[0]
    for name in types[1:]:
        kind = model.promote(kind, name)
    if model.bits(kind) < 32:
        return "i32"
    is_negative = any(isinstance(bound, Const) and bound.value < 0 for bound in bounds)
    is_mixed = any(model.is_signed(name) for name in types if name != "bool") and len(types) > 1
    return "i64" if kind[0] == "u" and (is_negative or is_mixed) else kind


def _stored(value: Any, to: Any) -> Any:
    """What is left of a value that is assigned to something of a type: of what is written out, all digits."""
    if isinstance(value, Const):
        return model.cast(value, to, Events()).value if not isinstance(to, Vec) else _everywhere(value, to)
    if isinstance(to, StructType):
        return dict(value.value)
    if isinstance(to, Vec) and not isinstance(value.type, Vec):
        raise Refused("a number that is assigned to a vector")
    return model.convert(value, to)


def _everywhere(value: Any, to: Vec) -> Any:
    raise Refused("a number that is assigned to a vector")
