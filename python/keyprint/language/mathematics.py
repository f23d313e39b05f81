"""``kp.math``: constants, types and functions that simulations and shaders use, written in the language itself."""

from __future__ import annotations

import math as _math
from types import SimpleNamespace

from .builtin import BUILTINS
from .kernel import func
from .types.dtypes import DefaultTensorType, u32, vector

__all__ = ["math"]

_floor, _clamp, _select = (BUILTINS[name] for name in ("floor", "clamp", "select"))


@func
def fract(x):  # type: ignore[no-untyped-def]
    """Return what is behind the point."""
    return x - _floor(x)


@func
def mix(a, b, t):  # type: ignore[no-untyped-def]
    """Return what lies between two values."""
    return a * (1.0 - t) + b * t


@func
def step(edge, x):  # type: ignore[no-untyped-def]
    """Return 0 before an edge, and 1 from it on."""
    return _select(x < edge, 0.0, 1.0)


@func
def smoothstep(low, high, x):  # type: ignore[no-untyped-def]
    """Return a smooth way from 0 to 1 between two edges."""
    t = _clamp((x - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@func
def sign(x):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1."""
    return _select(x > 0, 1.0, _select(x < 0, -1.0, 0.0))


@func
def distance(a, b):  # type: ignore[no-untyped-def]
    """Return the length of the difference of two vectors."""
    return (a - b).norm()


@func
def reflect(x, normal):  # type: ignore[no-untyped-def]
    """Return a vector that is reflected at a plane with a normal of length 1."""
    return x - 2.0 * x.dot(normal) * normal


@func
def length(x):  # type: ignore[no-untyped-def]
    """Return the length of a vector."""
    return x.norm()


#: What ``kp.math`` has.
math = SimpleNamespace(
    pi=_math.pi,
    e=_math.e,
    inf=_math.inf,
    nan=_math.nan,
    fract=fract,
    mix=mix,
    step=step,
    smoothstep=smoothstep,
    sign=sign,
    length=length,
    distance=distance,
    reflect=reflect,
    **{f"vec{n}": DefaultTensorType((n,), float) for n in (2, 3, 4)},
    **{f"ivec{n}": DefaultTensorType((n,), int) for n in (2, 3, 4)},
    **{f"uvec{n}": vector(n, u32) for n in (2, 3, 4)},
    **{f"mat{n}": DefaultTensorType((n, n), float) for n in (2, 3, 4)},
    **{
        name: builtin
        for name, builtin in BUILTINS.items()
        if not name.startswith(("atomic", "static", "loop"))
    },
)
