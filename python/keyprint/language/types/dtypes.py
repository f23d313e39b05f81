"""Types of numbers, vectors and matrices."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

__all__ = [
    "DType",
    "DefaultTensorType",
    "TensorType",
    "constructors",
    "defaults",
    "matrix",
    "scalar_of",
    "vector",
]


class DType:
    """A type of numbers: ``kp.f32``. Called, it converts: ``kp.f32(x)``."""

    __slots__ = ("name",)
    __keyprint_constant__ = True

    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"`{self.name}` cannot be changed")

    @property
    def is_float(self) -> bool:
        """Whether it has a fraction."""
        return "f" in self.name

    @property
    def bits(self) -> int:
        """How many bits a number takes."""
        return 8 if self.name == "bool" else int(self.name.lstrip("biuf"))

    def __call__(self, value: Any) -> Any:
        """Convert a number, as a kernel does."""
        if hasattr(value, "__len__"):
            return constructors.cast(value, self)
        if self.name == "bool":
            return bool(value)
        if self.name == "bf16":
            return round_to_bf16(float(value))
        if self.is_float:
            import struct

            code = {"f16": "e", "f32": "f", "f64": "d"}[self.name]
            try:
                return struct.unpack(code, struct.pack(code, float(value)))[0]
            except OverflowError:
                return float("inf") if value > 0 else float("-inf")
        signed = self.name.startswith("i")
        low, high = (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if signed else (0, (1 << self.bits) - 1)
        if isinstance(value, float):
            # The nearest there is.
            return 0 if value != value else max(low, min(high, int(max(min(value, 2.0**65), -(2.0**65)))))
        return (int(value) - low) % (1 << self.bits) + low

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return scalar_named, (self.name,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("keyprint dtype", self.name))


bool_ = DType("bool")
i8, i16, i32, i64 = DType("i8"), DType("i16"), DType("i32"), DType("i64")
u8, u16, u32, u64 = DType("u8"), DType("u16"), DType("u32"), DType("u64")
f16, bf16, f32, f64 = DType("f16"), DType("bf16"), DType("f32"), DType("f64")


class _Defaults:
    """The types of numbers that say nothing else; :func:`keyprint.init` sets them."""

    __slots__ = ("float", "int")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Take what is usual."""
        self.int: DType = i32
        self.float: DType = f32


defaults: Final = _Defaults()


class _Constructors:
    """What makes values of types: hooks that the package fills, because what makes them needs the types."""

    __slots__ = ("build", "cast", "field", "ndarray")

    #: A vector or matrix of a type, from a tuple of numbers.
    build: Callable[..., Any]
    #: A vector or matrix of another type of numbers.
    cast: Callable[..., Any]
    #: A field, from the type of its elements and its shape.
    field: Callable[..., Any]
    #: An array, from the type of its elements and its shape.
    ndarray: Callable[..., Any]


constructors: Final = _Constructors()

BY_NAME: Final = {
    dtype.name: dtype for dtype in (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
}

#: What other libraries call them.
_OTHER_NAMES: Final = {
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "bool_": "bool",
    "u1": "bool",
}


def round_to_bf16(value: float) -> float:
    """Return the nearest number that a ``bf16`` holds, ties to even."""
    import math

    if value == 0 or not math.isfinite(value):
        return value
    # Eight bits; the smallest numbers all have the same distance.
    step = 2.0 ** (max(math.frexp(value)[1], -125) - 8)
    rounded = math.copysign(round(value / step) * step, value)
    return rounded if abs(rounded) < 2.0**128 else math.copysign(math.inf, value)


def numpy_name(scalar: str) -> str:
    """Return what NumPy calls numbers of a type, or of one that holds them."""
    if scalar in ("bool", "bf16"):
        return {"bool": "bool", "bf16": "float32"}[scalar]
    return {"i": "int", "u": "uint", "f": "float"}[scalar[0]] + scalar[1:]


def scalar_named(name: str) -> DType:
    """Return the type of a name."""
    return BY_NAME[name]


def name_of(dtype: str) -> str | None:
    """Return what the language calls a type of another library: ``float32`` or ``torch.float32``."""
    short = dtype.rpartition(".")[2]
    return short if short in BY_NAME else _OTHER_NAMES.get(short)


def scalar_of(value: Any) -> DType | None:
    """Return the type of numbers that something stands for: ours, Python's, NumPy's, torch's."""
    if isinstance(value, DType):
        return value
    if any(value is python_type for python_type in (int, float, bool)):
        return {int: defaults.int, float: defaults.float, bool: bool_}[value]
    if isinstance(value, type) and value.__module__ in ("numpy", "ml_dtypes"):
        name = name_of(value.__name__)
        return BY_NAME[name] if name else None
    text = getattr(value, "name", None) or str(value)
    if type(value).__module__.partition(".")[0] in ("numpy", "torch"):
        name = name_of(text)
        return BY_NAME[name] if name else None
    return None


class TensorType:
    """A type of vectors or matrices: ``kp.types.vector(3, kp.f32)``. Called, it builds one."""

    __slots__ = ("dtype", "shape")
    __keyprint_constant__ = True

    dtype: DType
    shape: tuple[int, ...]

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"`{self}` cannot be changed")

    @property
    def n(self) -> int:
        """How many numbers, or rows."""
        return self.shape[0]

    @property
    def m(self) -> int:
        """How many columns."""
        return self.shape[1] if len(self.shape) == 2 else 1

    def __call__(self, *values: Any) -> Any:
        return constructors.build(self, values)

    def field(self, shape: Any = (), **options: Any) -> Any:
        """Return a field whose elements are of this type."""
        return constructors.field(self, shape, **options)

    def ndarray(self, shape: Any = ()) -> Any:
        """Return an array whose elements are of this type."""
        return constructors.ndarray(self, shape)

    def __repr__(self) -> str:
        if len(self.shape) == 1:
            return f"vector({self.n}, {self.dtype})"
        return f"matrix({self.n}, {self.m}, {self.dtype})"

    def __reduce__(self) -> tuple[object, ...]:
        return TensorType, (self.shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash(("keyprint tensor", self.shape, self.dtype))


class DefaultTensorType(TensorType):
    """A type of vectors or matrices of the default float or int, whichever that is when it is used."""

    __slots__ = ("kind",)

    kind: type

    def __init__(self, shape: tuple[int, ...], kind: type) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "kind", kind)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The type of its numbers."""
        scalar = scalar_of(self.kind)
        assert scalar is not None
        return scalar

    def __reduce__(self) -> tuple[object, ...]:
        return DefaultTensorType, (self.shape, self.kind)


def _checked(dtype: Any, *sizes: Any) -> TensorType:
    scalar = scalar_of(dtype)
    if scalar is None:
        raise TypeError(f"expected a type such as `kp.f32`, found {dtype!r}")
    for size in sizes:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 1024:
            raise ValueError(f"a size of a vector or matrix is between 1 and 1024, found {size!r}")
    return TensorType(tuple(sizes), scalar)


def vector(n: int, dtype: Any) -> TensorType:
    """Return the type of vectors of ``n`` numbers."""
    return _checked(dtype, n)


def matrix(n: int, m: int, dtype: Any) -> TensorType:
    """Return the type of matrices of ``n`` rows and ``m`` columns."""
    return _checked(dtype, n, m)
