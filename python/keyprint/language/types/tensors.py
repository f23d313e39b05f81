"""Vectors and matrices, outside of kernels."""

from __future__ import annotations

import math
import operator

from .dtypes import (
    BY_NAME,
    DType,
    TensorType,
    constructors,
    defaults,
    f32,
    matrix,
    numpy_name,
    scalar_of,
    vector,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["Matrix", "Vector", "build", "cast", "make"]

_LANES = {name: at for names in ("xyzw", "rgba", "stpq") for at, name in enumerate(names)}


class Matrix:
    """A small vector or matrix of numbers.

    Inside of kernels the same name builds vectors and matrices of whatever numbers are computed there.
    """

    __slots__ = ("_home", "_items", "dtype", "shape")

    #: Where the numbers are, for kernels that take them one by one.
    __keyprint_numbers__ = "_items"

    def __init__(self, values: Any, dt: Any = None, *, dtype: Any = None) -> None:
        flat, shape = _flatten(values)
        self._set(flat, shape, dt if dt is not None else dtype)

    def _set(self, flat: list[Any], shape: tuple[int, ...], wanted: Any) -> None:
        given = None if wanted is None else scalar_of(wanted)
        if wanted is not None and given is None:
            raise TypeError(f"expected a type such as `kp.f32`, found {wanted!r}")
        if given is None:
            given = defaults.float if any(isinstance(number, float) for number in flat) else defaults.int
        #: Where the numbers come from, if they are those of an element: setting one sets it there, too.
        self._home: Callable[[int, Any], None] | None = None
        self.dtype: DType = given
        self.shape = shape
        self._items: tuple[Any, ...] = tuple(given(number) for number in flat)

    # -- Looking at it -----------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """How many numbers, or rows."""
        return self.shape[0]

    @property
    def m(self) -> int:
        """How many columns."""
        return self.shape[1] if len(self.shape) == 2 else 1

    @property
    def entries(self) -> list[Any]:
        """All numbers, row by row."""
        return list(self._items)

    def _at(self, index: Any) -> int:
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        if len(self.shape) == 1:
            position = operator.index(index)
            place = position + self.n if position < 0 else position
            if not 0 <= place < self.n:
                raise IndexError(f"index {position} of a vector of {self.n}")
            return place
        if not isinstance(index, tuple) or len(index) != 2:
            raise IndexError(f"a matrix has two indices, found {index!r}")
        row, column = (operator.index(part) for part in index)
        row, column = row + self.n if row < 0 else row, column + self.m if column < 0 else column
        if not (0 <= row < self.n and 0 <= column < self.m):
            raise IndexError(f"index {index} of a {self.n}x{self.m} matrix")
        return row * self.m + column

    def __getitem__(self, index: Any) -> Any:
        if len(self.shape) == 2 and not isinstance(index, tuple):
            row = operator.index(index)
            if not -self.n <= row < self.n:
                raise IndexError(f"row {row} of a {self.n}x{self.m} matrix")
            row %= self.n
            row_vector = make((self.m,), self._items[row * self.m : (row + 1) * self.m], self.dtype)
            row_vector._home = lambda column, value: self.__setitem__((row, column), value)
            return row_vector
        return self._items[self._at(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        if len(self.shape) == 2 and not isinstance(index, tuple):
            row = self[index]
            if len(value) != self.m:
                raise ValueError(f"a row of {self.m} numbers, found {len(value)}")
            for column, number in enumerate(value):
                row[column] = number
            return
        at = self._at(index)
        value = self.dtype(value)
        if self._home is not None:
            self._home(at, value)
        self._items = (*self._items[:at], value, *self._items[at + 1 :])

    def __getattr__(self, name: str) -> Any:
        if len(self.shape) == 1 and name and all(letter in _LANES for letter in name):
            lanes = [_LANES[letter] for letter in name]
            if max(lanes) < self.n:
                numbers = [self._items[lane] for lane in lanes]
                return numbers[0] if len(numbers) == 1 else make((len(numbers),), tuple(numbers), self.dtype)
        raise AttributeError(f"a vector or matrix of shape {self.shape} has no member {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LANES and len(self.shape) == 1:
            self[_LANES[name]] = value
        else:
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(self.n))

    def to_list(self) -> list[Any]:
        """Return the numbers as a list, or a list of rows."""
        if len(self.shape) == 1:
            return list(self._items)
        return [list(self._items[at : at + self.m]) for at in range(0, len(self._items), self.m)]

    def to_numpy(self) -> Any:
        """Return a NumPy array of the numbers."""
        import numpy

        return numpy.array(self.to_list(), dtype=numpy_name(self.dtype.name))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"{'Vector' if len(self.shape) == 1 else 'Matrix'}({self.to_list()}, {self.dtype})"

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return make, (self.shape, self._items, self.dtype)

    # -- Computing ---------------------------------------------------------------------------------

    def _compare(self, other: object, op: Callable[[Any, Any], Any]) -> Any:
        results = self._with(other, op)
        return results if results is NotImplemented else all(results) if op is operator.eq else any(results)

    def _with(self, other: Any, op: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, (list, tuple)):
            other = Matrix(other)
        if isinstance(other, Matrix):
            if other.shape != self.shape:
                raise ValueError(f"shapes {self.shape} and {other.shape} do not go together")
            return [op(a, b) for a, b in zip(self._items, other._items, strict=True)]
        if isinstance(other, (int, float)):
            return [op(a, other) for a in self._items]
        return NotImplemented

    def _arithmetic(self, other: Any, op: Callable[[Any, Any], Any]) -> Any:
        results = self._with(other, op)
        if results is NotImplemented:
            return results
        wide = self.dtype
        if isinstance(other, Matrix) and other.dtype != wide:
            both = (self.dtype, other.dtype)
            # Neither kind of halves holds the other.
            is_half = all(dtype.is_float and dtype.bits == 16 for dtype in both)
            wide = f32 if is_half else max(both, key=lambda dtype: (dtype.is_float, dtype.bits))
        if not wide.is_float and any(isinstance(number, float) for number in results):
            wide = None  # type: ignore[assignment]
        return make(self.shape, tuple(results), wide)

    def __add__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._arithmetic(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.mul)

    def __truediv__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> Any:
        return self._arithmetic(other, lambda a, b: b / a)

    def __floordiv__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.floordiv)

    def __mod__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.mod)

    def __pow__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.pow)

    def __neg__(self) -> Any:
        return make(self.shape, tuple(-number for number in self._items), self.dtype)

    def __matmul__(self, other: Any) -> Any:
        other = other if isinstance(other, Matrix) else Matrix(other)
        rows, inner = self.shape if len(self.shape) == 2 else (1, self.n)
        columns = other.m
        if inner != other.n:
            raise ValueError(f"shapes {self.shape} and {other.shape} do not go together")
        items = [
            sum(self._items[row * inner + k] * other._items[k * columns + column] for k in range(inner))
            for row in range(rows)
            for column in range(columns)
        ]
        if len(self.shape) == 1 and len(other.shape) == 1:
            return items[0]
        if len(self.shape) == 2 and len(other.shape) == 2:
            return make((rows, columns), tuple(items))
        return make((len(items),), tuple(items))

    def dot(self, other: Any) -> Any:
        """Return the inner product of two vectors."""
        return self @ other

    def cross(self, other: Any) -> Any:
        """Return the cross product of two vectors."""
        a, b = self._items, tuple(other)
        if len(a) == 2:
            return a[0] * b[1] - a[1] * b[0]
        items = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
        return make((3,), items, self.dtype)

    def norm_sqr(self) -> Any:
        """Return the sum of the squares."""
        return sum(number * number for number in self._items)

    def norm(self) -> float:
        """Return the length."""
        return math.sqrt(self.norm_sqr())

    def normalized(self) -> Any:
        """Return a vector of this direction, of length 1."""
        length = self.norm()
        return make(self.shape, tuple(number / length for number in self._items))

    def sum(self) -> Any:
        """Return the sum of all numbers."""
        return sum(self._items)

    def min(self) -> Any:
        """Return the smallest number."""
        return min(self._items)

    def max(self) -> Any:
        """Return the largest number."""
        return max(self._items)

    def transpose(self) -> Any:
        """Return the matrix with rows and columns exchanged."""
        items = tuple(self[row, column] for column in range(self.m) for row in range(self.n))
        return make((self.m, self.n), items, self.dtype)

    def trace(self) -> Any:
        """Return the sum of the diagonal."""
        return sum(self[at, at] for at in range(self.n))

    def determinant(self) -> Any:
        """Return the determinant."""
        rows = self.to_list()
        return _determinant(rows)

    def inverse(self) -> Any:
        """Return the inverse of a square matrix."""
        rows = self.to_list()
        whole = _determinant(rows)
        n = self.n

        def minor(row: int, column: int) -> Any:
            return _determinant(
                [line[:column] + line[column + 1 :] for at, line in enumerate(rows) if at != row]
            )

        items = tuple((-1) ** (i + j) * minor(j, i) / whole for i in range(n) for j in range(n))
        return make((n, n), items)

    # -- Making it ---------------------------------------------------------------------------------

    @staticmethod
    def zero(dt: Any, n: int, m: int | None = None) -> Any:
        """Return zeros."""
        return _filled(dt, n, m, lambda *_: 0)

    @staticmethod
    def one(dt: Any, n: int, m: int | None = None) -> Any:
        """Return ones."""
        return _filled(dt, n, m, lambda *_: 1)

    @staticmethod
    def identity(dt: Any, n: int) -> Any:
        """Return the identity matrix."""
        return _filled(dt, n, n, lambda i, j: int(i == j))

    @staticmethod
    def field(n: int, *sizes: Any, shape: Any = None, **options: Any) -> Any:
        """Return a field of matrices: ``Matrix.field(3, 3, kp.f32, shape=8)``."""
        m, dtype = sizes if len(sizes) == 2 else (sizes[0], options.pop("dtype"))
        return constructors.field(matrix(n, m, dtype), () if shape is None else shape, **options)

    @staticmethod
    def ndarray(n: int, m: int, dtype: Any, shape: Any) -> Any:
        """Return an array of matrices."""
        return constructors.ndarray(matrix(n, m, dtype), shape)


class Vector(Matrix):
    """A small vector of numbers."""

    __slots__ = ()

    def __init__(self, values: Any, dt: Any = None, *, dtype: Any = None) -> None:
        super().__init__(values, dt, dtype=dtype)
        if len(self.shape) != 1:
            raise ValueError(f"a vector is made of numbers, found a list of shape {self.shape}")

    @staticmethod
    def field(n: int, dtype: Any, shape: Any = (), **options: Any) -> Any:  # type: ignore[override]
        """Return a field of vectors: ``Vector.field(3, kp.f32, shape=8)``."""
        return constructors.field(vector(n, dtype), () if shape is None else shape, **options)

    @staticmethod
    def ndarray(n: int, dtype: Any, shape: Any) -> Any:  # type: ignore[override]
        """Return an array of vectors."""
        return constructors.ndarray(vector(n, dtype), shape)

    @staticmethod
    def unit(n: int, i: int, dt: Any = None) -> Any:
        """Return a vector of length 1 along an axis."""
        return make((n,), tuple(int(at == i) for at in range(n)), None if dt is None else scalar_of(dt))


def make(shape: tuple[int, ...], items: tuple[Any, ...], dtype: DType | str | None = None) -> Any:
    """Return a vector or matrix of numbers."""
    tensor: Any = object.__new__(Vector if len(shape) == 1 else Matrix)
    tensor._set(list(items), tuple(shape), BY_NAME[dtype] if isinstance(dtype, str) else dtype)
    return tensor


def element(array: Any, index: Any, items: tuple[Any, ...]) -> Any:
    """Return an element of an array that is a vector or matrix; setting a number of it sets that of the element."""
    tensor = make(array.element_shape, items, array.scalar)
    tensor._home = lambda lane, value: array.set_lane(index, lane, value)
    return tensor


def build(kind: TensorType, values: tuple[Any, ...]) -> Any:
    """Return a vector or matrix of a type: of numbers, of one number everywhere, or of parts."""
    flat: list[Any] = []
    for value in values:
        flat += _flatten(value)[0] if hasattr(value, "__len__") else [value]
    many = math.prod(kind.shape)
    if len(values) == 1 and len(flat) == 1:
        flat *= many
    if len(flat) != many:
        raise ValueError(f"expected {many} numbers, found {len(flat)}")
    return make(kind.shape, tuple(flat), kind.dtype)


def cast(value: Any, dtype: DType) -> Any:
    """Return a vector or matrix of another type of numbers."""
    flat, shape = _flatten(value)
    return make(shape, tuple(flat), dtype)


def _flatten(values: Any) -> tuple[list[Any], tuple[int, ...]]:
    if isinstance(values, Matrix):
        return list(values._items), values.shape
    rows = values.tolist() if hasattr(values, "tolist") else list(values)
    if not rows:
        raise ValueError("a vector has at least one number")
    if not hasattr(rows[0], "__len__"):
        return rows, (len(rows),)
    rows = [list(row) for row in rows]
    if len({len(row) for row in rows}) != 1:
        raise ValueError("the rows of a matrix have one length")
    return [number for row in rows for number in row], (len(rows), len(rows[0]))


def _filled(dt: Any, n: int, m: int | None, value: Callable[..., int]) -> Any:
    dtype = scalar_of(dt)
    if m is None:
        return make((n,), tuple(value(at) for at in range(n)), dtype)
    return make((n, m), tuple(value(i, j) for i in range(n) for j in range(m)), dtype)


def _determinant(rows: list[list[Any]]) -> Any:
    if len(rows) == 1:
        return rows[0][0]
    minors = ([line[:at] + line[at + 1 :] for line in rows[1:]] for at in range(len(rows)))
    return sum((-1) ** at * rows[0][at] * _determinant(minor) for at, minor in enumerate(minors))
