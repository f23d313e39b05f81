"""The host: it answers what the compiler asks about objects that a function's text does not say.

Everything that is answered here is part of the kernel's key: globals, closures and what they lead to by the
function key, arguments by the signature. Arguments themselves are never looked at, only what is known of
them.
"""

from __future__ import annotations

import builtins
import types
from functools import cached_property

from ..._native import (
    AnnotationValue,
    CompileTimeValue,
    FunctionSource,
    NdArray,
    ParameterValue,
)
from ...dispatch.kernel import Kernel
from ...dispatch.signatures.inspection import with_article
from ...functions.access_paths import function_of, lookup
from ..builtin import Builtin
from ..errors import host_error
from ..types.annotations import kind_of, type_value
from ..types.devices import name_of_device
from ..types.dtypes import BY_NAME, DType, TensorType, defaults, name_of, scalar_of
from ..types.field import Field, StructField
from ..types.postponed import annotations_of, evaluate
from ..types.structs import Struct, StructType
from ..types.tensors import Matrix, Vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...dispatch.signatures.argument import Argument
    from ...functions.sources import Sources

__all__ = ["Host"]

#: Builtins of Python that kernels have.
_PYTHON: Final = (
    *("abs", "all", "any", "bool", "enumerate", "float", "int", "len", "list", "max", "min", "pow", "print"),
    *("range", "reversed", "round", "sum", "tuple", "zip"),
)

#: Functions of `math` that kernels call otherwise.
_MATH: Final = {"fabs": "abs", "atan2": "atan2", "gamma": "gamma"}


#: Tuples inside each other, deeper than this, are objects.
_MOST_TUPLES: Final = 64


class Node:
    """An argument that is an object, or a member of one: what is known of it, and how programs get at it."""

    __slots__ = ("argument", "fields", "path")

    def __init__(self, argument: Argument, path: str, fields: Any) -> None:
        self.argument = argument
        self.path = path
        #: The dataclass that an annotation says it is.
        self.fields = fields


class Opaque:
    """An object without a cache signature: what is read of it is recorded."""

    __slots__ = ("observed", "path", "places", "value")

    def __init__(self, value: Any, observed: Any, path: str, places: tuple[tuple[str, Any], ...]) -> None:
        self.value = value
        self.observed = observed
        self.path = path
        #: How to get from the argument to this: members and items.
        self.places = places


class Host:
    """Answers the compiler, by compile-time values."""

    def __init__(self, sources: Sources, device: int | None = None) -> None:
        self._sources = sources
        #: The CUDA device that is compiled for; nothing for the CPU.
        self._device = device
        self._nodes: dict[str, Node] = {}
        self._functions: dict[int, FunctionSource] = {}
        #: Fields that are read by name: their addresses are in the code.
        self.captured: list[Any] = []
        #: How many tuples are open inside each other.
        self._depth = 0
        #: How many there were when trials began that go on.
        self._trials: list[int] = []

    def begin_trial(self) -> None:
        """Take note that what is asked next is only looked at."""
        self._trials.append(len(self.captured))

    def end_trial(self) -> None:
        """Forget what was asked since the trial began."""
        del self.captured[self._trials.pop() :]

    # -- Questions ---------------------------------------------------------------------------------

    def function(self, function: Any) -> FunctionSource:
        """Return the source of a function, and what it takes and returns."""
        known = self._functions.get(id(function))
        if known is None:
            known = self._functions[id(function)] = self._function(function)
        return known

    def name(self, function: Any, name: str) -> tuple[Any, ...]:
        """Return what a name means in a function: nothing, or one value."""
        code = function.__code__
        if name in code.co_freevars and function.__closure__ is not None:
            cell = function.__closure__[code.co_freevars.index(name)]
            try:
                return (self._named(cell.cell_contents, name),)
            except ValueError:
                return ()
        if name in function.__globals__:
            return (self._named(function.__globals__[name], name),)
        if name in _PYTHON:
            return (CompileTimeValue.builtin(name),)
        if hasattr(builtins, name):
            return (CompileTimeValue.object(getattr(builtins, name), f"the builtin `{name}`"),)
        return ()

    def member(self, of: Any, name: str) -> tuple[Any, ...]:
        """Return what an object has under a name: nothing, or one value."""
        if isinstance(of, Node):
            return self._argument_member(of, name)
        if isinstance(of, Opaque):
            return self._opaque_part(of, ("member", name), f"{of.path}.{name}")
        if isinstance(of, types.ModuleType):
            value = getattr(of, name, _MISSING)
            return () if value is _MISSING else (self._named(value, name),)
        if isinstance(of, type):
            value = getattr(of, name, _MISSING)
            return () if value is _MISSING else (self._named(value, name),)
        return self._instance_member(of, name)

    def item(self, of: Any, at: Any) -> tuple[Any, ...]:
        """Return what an object has at an index: nothing, or one value."""
        if isinstance(of, Opaque):
            return self._opaque_part(of, ("item", at), f"{of.path}[{at!r}]")
        if isinstance(of, dict) and at in of:
            return (self.value_of(of[at], str(at)),)
        if isinstance(of, (list, tuple)) and type(at) is int and -len(of) <= at < len(of):
            return (self.value_of(of[at], str(at)),)
        return ()

    # -- Answers -----------------------------------------------------------------------------------

    def _named(self, value: Any, label: str) -> Any:
        """Return what something that has a name of its own is: enums label checkpoints by their members."""
        import enum

        if isinstance(value, enum.Enum):
            number = int(value) if isinstance(value, int) else value.value
            if type(number) is int and -(1 << 126) < number < 1 << 126:
                return CompileTimeValue.enumerated(value, number, is_int=isinstance(value, int))
        return self.value_of(value, label)

    def value_of(self, value: Any, label: str) -> Any:
        """Return what a value is, as the compiler takes it."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            if kind is int and not -(1 << 126) < value < 1 << 126:
                raise host_error("overflow", f"`{label}` does not fit into 64 bits")
            return value
        if isinstance(value, DType):
            return CompileTimeValue.scalar(value.name)
        if isinstance(value, TensorType):
            return type_value(value)
        if isinstance(value, StructType):
            return self._struct_type(value)
        if isinstance(value, Builtin):
            return CompileTimeValue.builtin(value.name)
        if value is Vector or value is Matrix:
            return CompileTimeValue.builtin("Vector" if value is Vector else "Matrix")
        if isinstance(value, Matrix):
            numbers = [_typed(number, value.dtype) for number in value.entries]
            return CompileTimeValue.tensor(value.shape, value.dtype.name, numbers)
        if isinstance(value, (list, tuple)):
            if self._depth >= _MOST_TUPLES:
                # Deeper ones are looked into item by item, as far as the program goes.
                return CompileTimeValue.object(value, with_article(f"{kind.__qualname__}"))
            self._depth += 1
            try:
                return CompileTimeValue.tuple(
                    [self.value_of(item, f"{label}[{at}]") for at, item in enumerate(value)]
                )
            finally:
                self._depth -= 1
        if isinstance(value, (Field, StructField)):
            self.captured.append(value)
            return self._field(value, label)
        if isinstance(value, NdArray) or hasattr(kind, "__array_interface__"):
            raise host_error(
                "type",
                f"the array `{label}` is inside of something that cannot hold arrays",
                "pass it to the kernel, or put it into a tuple, a dataclass or a `@data_oriented` object",
            )
        if isinstance(value, Struct):
            members = [(name, self.value_of(member, name)) for name, member in value.to_dict().items()]
            return CompileTimeValue.struct(members, self._struct_type(value._kind))
        return self._other(value, label)

    def _other(self, value: Any, label: str) -> Any:
        enum = _enum_value(value)
        if enum is not _MISSING:
            return self.value_of(enum, label)
        number = _number(value)
        if number is not _MISSING:
            return number
        named = _library_function(value)
        if named is not None:
            return CompileTimeValue.builtin(named)
        scalar = None if isinstance(value, types.ModuleType) else _scalar_type(value)
        if scalar is not None:
            return CompileTimeValue.scalar(scalar.name)
        if isinstance(value, types.MethodType):
            inner = function_of(value.__func__)
            if inner is not None:
                return CompileTimeValue.function(inner, self.value_of(value.__self__, label))
        if isinstance(value, Kernel):
            return CompileTimeValue.object(value, f"the kernel `{value.__name__}`")
        if isinstance(value, types.BuiltinFunctionType):
            for name in _PYTHON:
                if value is getattr(builtins, name):
                    return CompileTimeValue.builtin(name)
        if isinstance(value, type) and value.__module__ == "builtins" and value.__name__ in _PYTHON:
            return CompileTimeValue.builtin(value.__name__)
        function = function_of(value)
        if isinstance(value, types.FunctionType) and value.__module__.startswith("keyprint."):
            # Functions of the library are for programs: kernels have functions of the language.
            return CompileTimeValue.object(value, f"`{value.__name__}`")
        if function is not None:
            return CompileTimeValue.function(function)
        if isinstance(value, types.ModuleType):
            return CompileTimeValue.object(value, f"the module `{value.__name__}`")
        if isinstance(value, type):
            return CompileTimeValue.object(value, f"the class `{value.__qualname__}`")
        return CompileTimeValue.object(value, with_article(f"{type(value).__qualname__}"))

    def _struct_type(self, value: StructType) -> Any:
        members = [
            (name, self._struct_type(member) if isinstance(member, StructType) else type_value(member))
            for name, member in value.members.items()
        ]
        methods = [
            (name, CompileTimeValue.function(function_of(method))) for name, method in value.methods.items()
        ]
        return CompileTimeValue.struct_type(value.name, members, methods)

    def _field(self, value: Any, label: str) -> Any:
        if isinstance(value, StructField):
            members = [
                (name, self._field(member, f"{label}.{name}")) for name, member in value._members.items()
            ]
            return CompileTimeValue.struct(members, self._struct_type(value._kind))
        array = value._array
        if array.device_id != self._device:
            raise host_error(
                "devices",
                f"the field `{label}` is on {name_of_device(array.device_id)}, and this launch runs on "
                f"{name_of_device(self._device)}",
                "a launch runs where its arrays are, and without any where `kp.init(arch=...)` says: fields have to be there",
            )
        fixed = (array.address, list(array.shape))
        name = f"{label}#{value._token}"
        element = array.element_shape or None
        return CompileTimeValue.array(
            name,
            array.scalar,
            array.ndim,
            element=element,
            lanes_in_shape=False,
            contiguous=True,
            read_only=None,
            fixed=fixed,
        )

    def _instance_member(self, of: Any, name: str) -> tuple[Any, ...]:
        stored = getattr(of, "__dict__", {})
        if name in stored:
            return (self._named(stored[name], name),)
        for attribute in lookup(type(of), name):
            if isinstance(attribute, types.MemberDescriptorType):
                try:
                    return (self.value_of(attribute.__get__(of), name),)
                except AttributeError:
                    return ()
            return (
                self._from_class(
                    attribute,
                    name,
                    CompileTimeValue.object(of, with_article(f"{type(of).__qualname__}")),
                    type(of),
                ),
            )
        return ()

    def _from_class(self, attribute: Any, name: str, owner: Any, cls: type) -> Any:
        """Return what a class has under a name, for an instance."""
        if isinstance(attribute, (property, cached_property)):
            raise host_error(
                "attribute",
                f"`{cls.__qualname__}.{name}` is a property, which kernels cannot call",
                "store the value in a plain attribute, or write a method with `@func`",
            )
        if isinstance(attribute, staticmethod):
            return self.value_of(attribute.__func__, name)
        if isinstance(attribute, classmethod):
            return CompileTimeValue.function(function_of(attribute.__func__), self.value_of(cls, name))
        if isinstance(attribute, Kernel):
            return self.value_of(attribute, name)
        function = function_of(attribute)
        if function is not None:
            return CompileTimeValue.function(function, owner)
        return self._named(attribute, name)

    # -- Arguments ---------------------------------------------------------------------------------

    def parameter(self, name: str, argument: Argument, annotation: Any) -> Any:
        """Return what a parameter of the kernel is."""
        kind: str
        what: Any
        kind, what = kind_of(annotation) if annotation is not None else ("template", None)
        if kind == "scalar":
            return CompileTimeValue.number(name, what.name, can_be_constant=False)
        if kind == "array":
            return self._array(argument, name, what)
        if kind == "tensor":
            return self._tensor(argument, name, what)
        if kind == "object":
            return self.argument(argument, name, what)
        return self.argument(argument, name, None)

    def argument(self, argument: Argument, path: str, fields: Any) -> Any:
        """Return what an argument, or a member of one, is."""
        kind = argument.kind
        if kind == "value":
            return self._named(argument.value, path)
        if kind == "array":
            return self._array(argument, path, None)
        if kind == "process-local":
            return self._field(argument.value, path)
        if kind == "callable":
            return self.value_of(argument.value, path)
        if kind == "opaque":
            value, observed = argument.value
            return self._opaque(value, observed, path, ())
        if kind == "scalar":
            scalar = _scalar_name(str(argument.type))
            if argument.type == "builtins.NoneType":
                return None
            if scalar is None or str(argument.type).startswith("builtins."):
                # Only its type was asked for: `s.grid is None`.
                return CompileTimeValue.object(
                    argument, with_article(f"{str(argument.type).removeprefix('builtins.')}")
                )
            return CompileTimeValue.number(path, scalar, can_be_constant=True)
        if kind == "tuple":
            members = argument.members or {}
            return CompileTimeValue.tuple(
                [self.argument(member, f"{path}[{at}]", None) for at, member in members.items()]
            )
        if kind == "object":
            if argument.python_type in (Matrix, Vector):
                shape = argument.element or ()
                tensor = TensorType(shape, BY_NAME[argument.dtype or "f32"])
                return self._tensor(argument, path, tensor)
            node = self._nodes.get(path)
            if node is None:
                node = self._nodes[path] = Node(argument, path, fields)
            return CompileTimeValue.object(node, with_article(f"{str(argument.type).rpartition('.')[2]}"))
        raise host_error("type", f"`{path}` is a `{argument.type}`, of which kernels know nothing")

    def _opaque_part(self, of: Opaque, place: tuple[str, Any], path: str) -> tuple[Any, ...]:
        part = _part(of.value, place)
        if part is _MISSING:
            return ()
        return (self._opaque(part, of.observed, path, (*of.places, place)),)

    def _opaque(self, value: Any, observed: Any, path: str, places: tuple[Any, ...]) -> Any:
        """Return what is at a place of an object; what the compiler then knows is looked at in each launch."""

        def read(argument: Any) -> Any:
            for place in places:
                argument = _part(argument, place)
            return _MISSING if argument is _MISSING else _read(self, argument, path)

        # Recorded for the argument as a whole: whoever holds it may change any part of the way.
        observed.note(read, _read(self, value, path))
        answer = self.value_of(value, path)
        if not isinstance(answer, CompileTimeValue):
            return answer
        if answer.is_function:
            raise host_error(
                "call",
                f"the function `{path}` belongs to something that has no cache signature",
                "call it by a global name, or make the object a dataclass or a `@data_oriented` object",
            )
        if answer.label is not None:
            return CompileTimeValue.object(Opaque(value, observed, path, places), answer.label)
        return answer

    def _argument_member(self, node: Node, name: str) -> tuple[Any, ...]:
        argument = node.argument
        path = f"{node.path}.{name}"
        member = (argument.members or {}).get(name)
        cls = argument.python_type
        fields = getattr(node.fields, "__dataclass_fields__", {})
        if member is not None and member.kind != "absent":
            if name in fields:
                return (self._typed_member(member, path, fields[name], node.fields),)
            return (self.argument(member, path, None),)
        owner = CompileTimeValue.object(node, with_article(f"{cls.__qualname__}"))
        for attribute in lookup(cls, name):
            if not isinstance(attribute, types.MemberDescriptorType):
                return (self._from_class(attribute, name, owner, cls),)
        if member is not None:
            raise host_error(
                "attribute",
                f"{with_article(f'{cls.__qualname__}')} has no member `{path}`",
                "set the member before the call",
            )
        return ()

    def _typed_member(self, argument: Argument, path: str, field: Any, owner: Any) -> Any:
        """Return what a member of a dataclass is that a parameter is annotated with."""
        annotation = evaluate(field.type, owner)
        if getattr(annotation, "__keyprint_data_oriented__", False) or getattr(
            argument.python_type, "__keyprint_data_oriented__", False
        ):
            raise host_error(
                "annotation",
                f"the field `{field.name}` of `{owner.__qualname__}` is a `@data_oriented` object, which a "
                "dataclass that is an annotation cannot hold",
                "annotate the parameter with `template()` instead",
            )
        kind, what = kind_of(annotation)
        if kind == "scalar" and argument.kind == "scalar":
            return CompileTimeValue.number(path, what.name, can_be_constant=True)
        if kind == "array" and argument.kind == "array":
            return self._array(argument, path, what)
        if kind == "tensor":
            return self._tensor(argument, path, what)
        if kind == "object":
            return self.argument(argument, path, what)
        return self.argument(argument, path, None)

    def _array(self, argument: Argument, path: str, annotation: Any) -> Any:
        if argument.kind == "process-local":
            field = self._field(argument.value, path)
            if annotation is not None and field.array_of is not None:
                scalar, ndim, element = field.array_of
                if annotation.ndim not in (None, ndim):
                    raise _mismatch(path, annotation, scalar, ndim, element)
            return field
        if argument.kind != "array":
            expected = "an array" if annotation is None else f"an array `{annotation}`"
            raise host_error(
                "type", f"`{path}` is {expected}, found {with_article(f'{argument.type or argument.kind}')}"
            )
        if argument.is_misaligned:
            what = "not aligned: its elements do not lie at multiples of their size"
            raise host_error("type", f"`{path}` is {what}", "copy it first")
        if argument.device not in (None, 1, 2, "cuda"):
            raise host_error(
                "type",
                f"`{path}` is on a device of kind {argument.device}, and kernels run on the CPU and on CUDA devices",
                "copy it first",
            )
        scalar = name_of(str(argument.dtype))
        if scalar is None:
            raise host_error(
                "type", f"`{path}` is an array of `{argument.dtype}`, of which kernels know nothing"
            )
        ndim, element = argument.ndim or 0, argument.element
        in_shape = False
        wanted = None if annotation is None else annotation.dtype
        if isinstance(wanted, TensorType) and element is None:
            # The last dimensions of an array of another library are those of its elements.
            element, in_shape = wanted.shape, True
            ndim -= len(element)
        if annotation is not None:
            dtype = wanted.dtype if isinstance(wanted, TensorType) else wanted
            shape = wanted.shape if isinstance(wanted, TensorType) else None
            fits = dtype is None or (dtype.name == scalar and shape == element)
            if not fits or ndim < 0 or annotation.ndim not in (None, ndim):
                raise _mismatch(path, annotation, scalar, argument.ndim or 0, argument.element)
        return CompileTimeValue.array(
            path,
            scalar,
            ndim,
            element=element,
            lanes_in_shape=in_shape,
            contiguous=argument.layout == "C",
            read_only=_read_only(argument),
            fixed=None,
        )

    def _tensor(self, argument: Argument, path: str, wanted: TensorType) -> Any:
        """Return what a parameter is that is annotated with a type of vectors or matrices."""
        members = argument.members or {}
        places: list[str] = []
        if argument.kind == "value" and isinstance(argument.value, (Matrix, tuple)):
            return self.value_of(wanted(*argument.value), path)
        if argument.kind == "object" and argument.python_type in (Matrix, Vector):
            items = members["_items"]
            places = [f"{path}._items[{at}]" for at in (items.members or {})]
        elif argument.kind == "tuple":
            for at, member in members.items():
                inner = member.members or {}
                places += (
                    [f"{path}[{at}][{k}]" for k in inner] if member.kind == "tuple" else [f"{path}[{at}]"]
                )
        else:
            raise host_error(
                "type", f"`{path}` is {with_article(f'{wanted}')}, found {with_article(f'{argument.type}')}"
            )
        many = wanted.n * wanted.m
        if len(places) != many:
            raise host_error("shape", f"`{path}` has {many} numbers, found {len(places)}")
        return CompileTimeValue.numbers(wanted.shape, wanted.dtype.name, places)

    # -- Functions ---------------------------------------------------------------------------------

    def _function(self, function: Any) -> FunctionSource:
        if function.__name__ == "<lambda>":
            raise host_error(
                "syntax", "a `lambda` cannot be called in a kernel", "write a function with `def`"
            )
        source = self._sources.of(function.__code__, function.__globals__)
        located = self._sources.located(source, function.__globals__)
        name = function.__qualname__
        file = function.__code__.co_filename
        if located is None or source.function is None:
            raise host_error(
                "source",
                f"the source of `{name}` is not known (`{file}`): it was made by code, or the file was edited since",
                "define the function in a file, and start the program again if that was edited",
            )
        text, before = located
        indent = len(before) if not before.strip() else 0
        lines = text.split("\n")
        text = "\n".join(
            [lines[0], *(line[indent:] if line[:indent].isspace() else line for line in lines[1:])]
        )
        return FunctionSource(
            name.replace("<locals>.", ""),
            file,
            line=source.function.line,
            indent=indent,
            text=text,
            parameters=self._parameters(function),
            returns=self._annotation(annotations_of(function).get("return")),
        )

    def _parameters(self, function: Any) -> list[ParameterValue]:
        from ...dispatch.parameters import defaults_of

        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        annotations = annotations_of(function)
        return [
            ParameterValue(
                name,
                self._annotation(annotations.get(name, _MISSING)),
                [self.value_of(value, name) for value in default],
            )
            for name, default in zip(names, defaults_of(function), strict=True)
        ]

    def _annotation(self, annotation: Any) -> AnnotationValue:
        if annotation is _MISSING or annotation is None:
            return AnnotationValue.missing()
        kind, what = kind_of(annotation)
        if kind in ("scalar", "tensor"):
            return AnnotationValue.type(type_value(what))
        if kind == "struct":
            return AnnotationValue.type(self._struct_type(what))
        if kind == "template":
            return AnnotationValue.template()
        return AnnotationValue.array() if kind == "array" else AnnotationValue.object()


_MISSING: Final = object()


def _part(of: Any, place: tuple[str, Any]) -> Any:
    """Return a member or an item of an object, without running code of properties."""
    kind, name = place
    if kind == "item":
        return (
            of[name]
            if isinstance(of, (dict, list, tuple)) and (not isinstance(of, dict) or name in of)
            else _MISSING
        )
    return getattr(of, name, _MISSING)


def _read(host: Host, value: Any, path: str) -> Any:
    """Return what is compared of a value in later launches: what it is, or its type if it is an object."""
    answer = host.value_of(value, path)
    # An object is what is read of it later.
    is_object = isinstance(answer, CompileTimeValue) and answer.label is not None
    return type(value) if is_object else answer


def _read_only(argument: Argument) -> tuple[str, str] | None:
    """Return why an array cannot be written, and what to do."""
    if argument.writable is False:
        return "read-only", "pass an array that can be written"
    if argument.needs_grad and str(argument.type).startswith("torch."):
        why = "tracked by autograd, which would not see that it is written: gradients would be wrong"
        return why, "pass `tensor.detach()`"
    return None


def _mismatch(path: str, annotation: Any, scalar: str, ndim: int, element: Any) -> Exception:
    dtype = (
        scalar
        if not element
        else f"{'vector' if len(element) == 1 else 'matrix'}{tuple(element)} of {scalar}"
    )
    return host_error(
        "type",
        f"`{path}` is annotated with `{annotation}`, found an array of `{dtype}` with {ndim} dimension{'s' * (ndim != 1)}",
        "pass an array of that type, or change the annotation",
    )


def _typed(value: Any, dtype: DType) -> Any:
    """Return a number of a vector as what it is: a float stays one if it is whole."""
    return float(value) if dtype.is_float else value


def _enum_value(value: Any) -> Any:
    import enum

    return value.value if isinstance(value, enum.Enum) else _MISSING


def _number(value: Any) -> Any:
    """Return a scalar of NumPy, or a subclass of a number, as a number."""
    if isinstance(value, (bool, int, float)):
        return int(value) if isinstance(value, int) else float(value)
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item() if hasattr(value, "dtype") and value.dtype.kind in "biuf" else _MISSING
    return _MISSING


def _library_function(value: Any) -> str | None:
    """Return the function of the language that a function of `math` or NumPy stands for."""
    from ..builtin import BUILTINS

    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if module == "math" and isinstance(name, str):
        name = _MATH.get(name, name)
        return name if name in BUILTINS else None
    if type(value).__name__ == "ufunc" and isinstance(name, str):
        name = {
            "absolute": "abs",
            "arctan2": "atan2",
            "maximum": "max",
            "minimum": "min",
            "power": "pow",
        }.get(name, name.replace("arc", "a"))
        return name if name in BUILTINS else None
    return None


def _scalar_type(value: Any) -> DType | None:
    kind = type(value)
    if isinstance(value, type) and value.__module__ != "numpy":
        return None
    return (
        scalar_of(value)
        if isinstance(value, type) or kind.__module__.startswith(("numpy", "torch"))
        else None
    )


def _scalar_name(type_name: str) -> str | None:
    if type_name == "int":
        return defaults.int.name
    if type_name == "float":
        return defaults.float.name
    if type_name == "bool":
        return "bool"
    return name_of(type_name)
