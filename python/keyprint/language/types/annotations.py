"""What parameters are annotated with: arrays, templates, tensors."""

from __future__ import annotations

from ..._native import CompileTimeValue
from .dtypes import DType, TensorType, matrix, scalar_of, vector
from .structs import StructType, struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

__all__ = [
    "ArrayAnnotation",
    "NDArray",
    "Template",
    "Tensor",
    "template",
    "types",
]


class ArrayAnnotation:
    """An array: of a type of elements and a number of dimensions, or of any."""

    __slots__ = ("dtype", "ndim")
    __keyprint_constant__ = True

    dtype: Any
    ndim: int | None

    def __init__(self, dtype: Any = None, ndim: int | None = None) -> None:
        if dtype is not None and not isinstance(dtype, TensorType):
            scalar = scalar_of(dtype)
            if scalar is None:
                raise TypeError(f"expected the type of the elements, found {dtype!r}")
            dtype = scalar
        if ndim is not None and (not isinstance(ndim, int) or not 0 <= ndim <= 8):
            raise TypeError(f"an array has 0 to 8 dimensions, found {ndim!r}")
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "ndim", ndim)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("annotations cannot be changed")

    def __reduce__(self) -> tuple[object, ...]:
        return ArrayAnnotation, (self.dtype, self.ndim)

    def __repr__(self) -> str:
        if self.dtype is None and self.ndim is None:
            return "NDArray"
        return f"NDArray[{self.dtype}, {self.ndim}]"


class _NDArray:
    """Makes annotations: ``NDArray[kp.f32, 2]``, ``NDArray[kp.f32]``, ``NDArray``."""

    __keyprint_constant__ = True

    def __getitem__(self, what: Any) -> ArrayAnnotation:
        return ArrayAnnotation(*what) if isinstance(what, tuple) else ArrayAnnotation(what)

    def __call__(
        self,
        dtype: Any = None,
        ndim: int | None = None,
        *,
        field_dim: int | None = None,
        needs_grad: Any = None,
    ) -> ArrayAnnotation:
        return ArrayAnnotation(dtype, ndim if field_dim is None else field_dim)

    def __reduce__(self) -> str:
        return "NDArray"

    def __repr__(self) -> str:
        return "NDArray"


NDArray: Final = _NDArray()


class Template:
    """Anything, passed as it is: numbers count by value, arrays by what they are of."""

    __slots__ = ()
    __keyprint_constant__ = True

    def __repr__(self) -> str:
        return "template()"


class Tensor:
    """An array or a field, whichever is passed."""

    __keyprint_constant__ = True


def template() -> Template:
    """Return an annotation for parameters that are passed as they are."""
    return _TEMPLATE


_TEMPLATE: Final = Template()


class _Types:
    """The types that annotations are made of: ``kp.types.NDArray[kp.f32, 1]``."""

    NDArray = NDArray
    ndarray = NDArray
    struct = staticmethod(struct)

    @staticmethod
    def vector(n: int, dtype: Any) -> TensorType:
        """Return the type of vectors of ``n`` numbers."""
        return vector(n, dtype)

    @staticmethod
    def matrix(n: int, m: int, dtype: Any) -> TensorType:
        """Return the type of matrices of ``n`` rows and ``m`` columns."""
        return matrix(n, m, dtype)

    template = staticmethod(template)


types: Final = _Types


def kind_of(annotation: Any) -> tuple[str, Any]:
    """Return what an annotation stands for: ``scalar``, ``tensor``, ``array``, ``template``, ``struct``, ``object``."""
    if annotation is Template or isinstance(annotation, Template):
        return "template", None
    if annotation is Tensor:
        return "template", None
    if annotation is template:
        return "template", None
    if isinstance(annotation, ArrayAnnotation):
        return "array", annotation
    if isinstance(annotation, _NDArray):
        return "array", ArrayAnnotation()
    if isinstance(annotation, TensorType):
        return "tensor", annotation
    if isinstance(annotation, StructType):
        return "struct", annotation
    if isinstance(annotation, DType):
        return "scalar", annotation
    if isinstance(annotation, type) and hasattr(annotation, "__dataclass_fields__"):
        return "object", annotation
    if isinstance(annotation, type) and getattr(annotation, "__keyprint_data_oriented__", False):
        return "template", None
    scalar = scalar_of(annotation)
    if scalar is not None:
        return "scalar", scalar
    return "unknown", annotation


def type_value(kind: Any) -> CompileTimeValue:
    """Return a type as the compiler takes it."""
    if isinstance(kind, DType):
        return CompileTimeValue.scalar(kind.name)
    return CompileTimeValue.tensor_type(kind.shape, kind.dtype.name)
