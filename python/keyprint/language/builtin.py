"""What the language defines: functions of kernels, which work outside of them as far as that makes sense."""

from __future__ import annotations

from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

__all__ = ["BUILTINS", "Builtin", "graph"]


class Builtin:
    """A function of the language."""

    __keyprint_constant__ = True

    def __init__(self, name: str, doc: str, outside: Any = None) -> None:
        self.name = name
        self.__doc__ = doc
        self.__module__ = __name__
        self.__name__ = self.__qualname__ = name
        self._outside = outside

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._outside is None:
            raise RuntimeError(
                f"`{self.name}` can only be called in a kernel\nhint: decorate the function with `@kernel`"
            )
        return self._outside(*arguments, **named)

    def __reduce__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<function {self.name} of the kernel language>"


def _math(name: str) -> Any:
    def call(*arguments: Any) -> Any:
        import math

        if arguments and hasattr(arguments[0], "__len__"):
            from .types.tensors import Matrix, make

            value = arguments[0] if isinstance(arguments[0], Matrix) else Matrix(arguments[0])
            return make(value.shape, tuple(call(entry, *arguments[1:]) for entry in value.entries))
        if name == "rsqrt":
            return 1.0 / math.sqrt(*arguments)
        if name == "round":
            return float(round(*arguments))
        if name in ("floor", "ceil", "trunc"):
            return float(getattr(math, name)(arguments[0]))
        return getattr(math, name)(*arguments)

    return call


def _static(value: Any, *more: Any) -> Any:
    return (value, *more) if more else value


def _ndrange(*bounds: Any) -> Any:
    import itertools

    return itertools.product(
        *(range(*bound) if isinstance(bound, tuple) else range(bound) for bound in bounds)
    )


def _grouped(of: Any) -> Any:
    import itertools

    from .types.tensors import make

    indices = itertools.product(*map(range, of.shape)) if hasattr(of, "shape") else of
    return (make((len(index),), tuple(index)) for index in indices)


def _random(dtype: Any = None) -> Any:
    import random

    if dtype is None or dtype.is_float:
        return random.random()
    return dtype(random.getrandbits(64))


def _select(condition: Any, then: Any, otherwise: Any) -> Any:
    return then if condition else otherwise


def _cast(value: Any, dtype: Any) -> Any:
    from .types.dtypes import scalar_of

    scalar = scalar_of(dtype)
    if scalar is None:
        raise TypeError(f"expected a type such as `kp.f32`, found {dtype!r}")
    return scalar(value)


def _static_assert(condition: Any, message: str = "") -> None:
    if not condition:
        raise AssertionError(message)


def _method(name: str) -> Any:
    return lambda value, *others: getattr(value, name)(*others)


def _raw_div(a: Any, b: Any) -> Any:
    return a / b if isinstance(a, float) or isinstance(b, float) else int(a / b)


class _Nothing:
    """What `with` makes of a piece of a graph outside of kernels."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _checkpoint(label: Any = None, yield_on: Any = None, *, cp_id: Any = None) -> _Nothing:
    return _Nothing()


_OUTSIDE: Final[dict[str, tuple[str, Any]]] = {
    "static": (
        "Known when the kernel is compiled: a condition that decides, a loop that is unrolled.",
        _static,
    ),
    "ndrange": ("Loop over a box of indices: `for i, j in ndrange(n, (1, m))`.", _ndrange),
    "grouped": ("Loop over indices as vectors: `for I in grouped(x)`.", _grouped),
    "loop_config": (
        "Say how the next loop runs: `loop_config(serialize=True)`, `loop_config(grain_size=64)`.",
        lambda **_: None,
    ),
    "cast": ("A number as another type: `cast(x, kp.i32)`.", _cast),
    "bit_cast": ("The same bits as another type: `bit_cast(x, kp.u32)`.", None),
    "select": ("One of two values: both are computed.", _select),
    "random": ("A number that is drawn: in [0, 1) for floats, all bits for ints.", _random),
    "randn": (
        "A number that is drawn from the normal distribution.",
        lambda *_: __import__("random").gauss(0.0, 1.0),
    ),
    "raw_div": ("Division of ints towards zero.", _raw_div),
    "raw_mod": ("What division towards zero leaves.", lambda a, b: a - b * int(a / b)),
    "clamp": ("A number, between two others.", lambda x, low, high: min(max(x, low), high)),
    "isnan": ("Whether a float is not a number.", lambda x: x != x),
    "isinf": ("Whether a float is infinite.", lambda x: abs(x) == float("inf")),
    "dot": ("The inner product of two vectors.", _method("dot")),
    "cross": ("The cross product of two vectors.", _method("cross")),
    "norm": ("The length of a vector.", _method("norm")),
    "normalize": ("A vector of the same direction, of length 1.", _method("normalized")),
    "checkpoint": (
        "A piece of a graph that can be left and entered: `with checkpoint(label, yield_on=flag):`.",
        _checkpoint,
    ),
    "static_assert": ("Fail to compile unless something that is known holds.", _static_assert),
    "static_print": ("Print while compiling; nothing here.", print),
    "assume": ("Something that holds; it changes nothing.", lambda *_: None),
    "pow": ("A power.", pow),
    **{
        f"atomic_{name}": (
            f"Change an element in one step and return what it was: `atomic_{name}(x[i], v)`.",
            None,
        )
        for name in ("add", "sub", "mul", "min", "max", "and", "or", "xor")
    },
    **{
        name: (f"The function `{name}`, of numbers and number by number of vectors.", _math(name))
        for name in (
            *("sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
            *("asinh", "acosh", "atanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "floor"),
            *(
                "ceil",
                "trunc",
                "round",
                "cbrt",
                "hypot",
                "erf",
                "erfc",
                "gamma",
                "lgamma",
                "fmod",
                "copysign",
                "fma",
            ),
        )
    },
    "max": ("The larger of several, number by number of vectors.", max),
    "min": ("The smaller of several, number by number of vectors.", min),
    "abs": ("Without the sign, number by number of vectors.", abs),
}

#: The functions of the language, by name.
BUILTINS: Final = {name: Builtin(name, doc, outside) for name, (doc, outside) in _OUTSIDE.items()}
globals().update(BUILTINS)

#: What graphs are made of: ``kp.graph``.
graph: Final = SimpleNamespace(
    do_while=Builtin(
        "graph.do_while",
        "Repeat a piece of a graph as long as an array holds no zero: `while graph.do_while(x):`.",
    ),
    parallel_context=Builtin(
        "graph.parallel_context",
        "Hold sections that do not depend on each other: `with graph.parallel_context():`.",
        _Nothing,
    ),
    parallel=Builtin(
        "graph.parallel", "A section that may run beside others: `with graph.parallel():`.", _Nothing
    ),
)
graph_do_while = graph.do_while
graph_parallel_context = graph.parallel_context
graph_parallel = graph.parallel
