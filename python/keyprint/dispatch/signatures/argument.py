"""What is known of an argument when something is compiled for it."""

from __future__ import annotations

from ..._native import _dlpack_spec, _short_text, fingerprint
from ...errors import SignatureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..._native import Fingerprint

__all__ = ["Argument", "foreign_array", "numpy_array", "type_name"]


class Argument:
    """What is known of an argument, or of a member of one, when something is compiled for it.

    ``kind`` is ``array``, ``scalar``, ``value`` (a compile-time value, in ``value``), ``object``,
    ``tuple``, ``callable`` or ``signature``. Arrays have ``dtype``, ``ndim``, ``layout`` (``C``, ``F`` or
    ``S`` for any strides), ``writable`` and ``aligned``, and ``element`` if their elements are vectors or
    matrices; scalars and objects have ``type``; objects and tuples have ``members``, by name or position, and
    objects their class in ``python_type``. ``process-local`` and ``opaque`` only mean something in this process.
    """

    __slots__ = (
        *("aligned", "device", "device_id", "divisibility", "dtype", "element", "kind", "layout", "members"),
        "ndim",
        *("guard", "is_misaligned", "needs_grad", "python_type", "signature", "type", "value", "writable"),
    )

    kind: str
    #: The name of the type.
    type: str | None
    dtype: str | None
    ndim: int | None
    layout: str | None
    writable: bool | None
    aligned: bool | None
    device: object
    #: Which device of its kind: where a launch runs, and nothing that code depends on.
    device_id: int | None
    #: Whether elements do not lie where their type wants them to.
    is_misaligned: bool | None
    needs_grad: bool | None
    divisibility: str | None
    element: tuple[int, ...] | None
    python_type: Any
    value: Any
    members: dict[Any, Argument] | None
    #: The digest of what counts, where nothing else says it.
    signature: Fingerprint | None
    #: The number of the argument guard that looks at it.
    guard: int

    def __init__(self, kind: str, **known: Any) -> None:
        for name in self.__slots__:
            setattr(self, name, known.get(name))
        self.kind = kind

    def guarded_by(self, guard: int) -> Argument:
        """Say which argument guard looks at it."""
        self.guard = guard
        return self

    def identity(self) -> tuple[object, ...]:
        """Return what counts, as a plain value."""
        members = None
        if self.members is not None and self.kind != "signature":
            # In which order they are read does not count.
            members = sorted(
                ((name, member.identity()) for name, member in self.members.items()), key=_name_of
            )
        return (
            self.kind,
            self.type,
            self.dtype,
            self.ndim,
            self.layout,
            (self.writable, self.aligned, self.device, self.needs_grad, self.divisibility, self.element),
            self.is_misaligned,
            None if self.signature is None else bytes(self.signature),
            members,
        )

    def __str__(self) -> str:
        if self.kind == "array":
            extras = [] if self.layout == "C" else [str(self.layout)]
            extras += [] if not self.element else [f"of {'x'.join(map(str, self.element))}"]
            extras += [] if self.writable is not False else ["read-only"]
            extras += [] if self.aligned is None else ["aligned" if self.aligned else "unaligned"]
            extras += [] if not self.device else [f"device {self.device}"]
            extras += ["misaligned"] if self.is_misaligned else []
            return " ".join([f"{self.dtype}[{', '.join(':' * (self.ndim or 0))}]", *extras])
        if self.kind == "scalar":
            return f"{self.type} {self.divisibility}" if self.divisibility else str(self.type)
        if self.kind == "value":
            return _short_text(self.value)
        if self.members is not None and self.kind == "object":
            inside = ", ".join(f"{name}: {member}" for name, member in self.members.items())
            return f"{str(self.type).rpartition('.')[2]}({inside})"
        if self.kind == "signature":
            return f"{self.type} {self.value}"
        if self.members is not None:
            return f"({', '.join(str(member) for member in self.members.values())})"
        return str(self.type)

    def __repr__(self) -> str:
        return f"<Argument {self}>"


def _name_of(member: tuple[Any, object]) -> tuple[bool, Any]:
    return isinstance(member[0], str), member[0]


def type_name(value: Any) -> str:
    cls = type(value)
    return f"{cls.__module__}.{cls.__qualname__}"


def numpy_array(array: Any, multiple: int) -> Argument:
    flags = array.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "S"
    dtype = array.dtype
    # NumPy has no such type of its own, and the one that there is for it counts as that of other libraries.
    is_bf16 = dtype.kind == "V" and dtype.type.__module__ == "ml_dtypes" and dtype.name == "bfloat16"
    plain = (dtype.kind in "biufc" or is_bf16) and dtype.metadata is None
    argument = Argument("array", ndim=array.ndim, layout=layout, writable=bool(flags.writeable))
    argument.type = type_name(array)
    argument.dtype = dtype.name if dtype.isnative and plain else dtype.str
    argument.needs_grad = None
    # Misaligned elements are rare, and compilers assume that there are none.
    argument.is_misaligned = None if flags.aligned else True
    if not plain:
        argument.signature = fingerprint(dtype)
    if multiple:
        argument.aligned = array.ctypes.data % multiple == 0
    return argument


def foreign_array(array: Any, multiple: int) -> Argument:
    """Return what counts of an array of another library, from what it says about itself. Nothing is copied.

    Whatever an array does not say itself is looked for where the next protocol has it: attributes first, then
    the array interfaces, then DLPack.
    """
    argument = Argument("array")
    argument.type = type_name(array)
    for name, device in (("__cuda_array_interface__", "cuda"), ("__array_interface__", None)):
        interface = getattr(array, name, None)
        if isinstance(interface, dict):
            return _of_interface(argument, interface, device, multiple)
    grad = getattr(array, "requires_grad", None)
    argument.needs_grad = None if grad is None else bool(grad)
    if getattr(array, "weak_type", False):
        argument.type += ", weak"
    if hasattr(array, "__dlpack__"):
        try:
            spec = _dlpack_spec(array)
        except Exception as error:
            # One that does not hand its memory out counts by what it says of itself, as far as that goes.
            return _of_attributes(argument, array, multiple, error)
        argument.dtype, argument.ndim, argument.layout, argument.device, address, argument.writable = spec
        if multiple:
            argument.aligned = address % multiple == 0
        return argument
    return _of_attributes(argument, array, multiple, None)


def _of_interface(argument: Argument, interface: Any, device: Any, multiple: int) -> Argument:
    """Take what an array interface says: a dict, the same for the host and for CUDA."""
    shape, typestr = interface["shape"], str(interface["typestr"])
    argument.dtype, argument.ndim = typestr, len(shape)
    size = int(typestr[2:].partition("[")[0])
    argument.layout = _layout(shape, interface.get("strides"), size)
    data = interface.get("data")
    if isinstance(data, tuple):
        argument.writable = not data[1]
        if multiple:
            argument.aligned = data[0] % multiple == 0
    argument.device = device
    fields = interface.get("descr")
    if typestr[1] == "V" and fields is not None:
        # Structs: names, types and places of their fields.
        argument.signature = fingerprint(fields)
    return argument


def _of_attributes(argument: Argument, array: Any, multiple: int, cause: Exception | None) -> Argument:
    """Take what an array says by its attributes."""
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if shape is None or dtype is None or multiple:
        what = "where it is in memory" if multiple and shape is not None else "its shape and data type"
        raise SignatureError(
            f"a `{argument.type}` is an array that does not say {what}",
            code="argument-type",
            hint="give its class a `__cache_signature__`, or pass what it holds",
        ) from cause
    argument.dtype, argument.ndim = str(dtype), len(shape)
    strides, size = getattr(array, "strides", None), getattr(dtype, "itemsize", None) or 1
    if strides is None and callable(getattr(array, "stride", None)):
        # In elements, as torch has them.
        strides, size = array.stride(), 1
    if strides is None:
        argument.layout = "unknown"
    else:
        argument.layout = _layout(tuple(shape), tuple(strides), size)
    if hasattr(array, "__dlpack_device__"):
        argument.device = int(array.__dlpack_device__()[0])
    return argument


def _layout(shape: tuple[int, ...], strides: tuple[int, ...] | None, size: int) -> str:
    """Return `C`, `F`, or `S` for any other strides, which are in bytes."""
    if strides is None or 0 in shape:
        return "C"
    for name, order in (("C", range(len(shape) - 1, -1, -1)), ("F", range(len(shape)))):
        expected = size
        for at in order:
            if shape[at] != 1 and strides[at] != expected:
                break
            expected *= shape[at]
        else:
            return name
    return "S"
