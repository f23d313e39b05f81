"""Operators and functions: executed, and compared with NumPy or plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

import keyprint as kp

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]

EDGES = {
    np.dtype(name): np.array(
        [0, 1, 2, 3, 5, 7, 100, *([] if name.startswith("u") else [-1, -2, -3, -7, -100])], dtype=name
    )
    for name in INTS
}
for _dtype in EDGES:
    _info = np.iinfo(_dtype)
    EDGES[_dtype] = np.concatenate([EDGES[_dtype], np.array([_info.min, _info.max, _info.max - 1], _dtype)])


def pairs(dtype):
    values = EDGES[np.dtype(dtype)]
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel().copy(), b.ravel().copy()


@kp.kernel
def binary_int(a: kp.types.NDArray, b: kp.types.NDArray, out: kp.types.NDArray):
    for i in range(a.shape[0]):
        x = a[i]
        y = b[i]
        out[0, i] = x + y
        out[1, i] = x - y
        out[2, i] = x * y
        out[3, i] = x // y
        out[4, i] = x % y
        out[5, i] = x & y
        out[6, i] = x | y
        out[7, i] = x ^ y
        out[8, i] = x << y
        out[9, i] = x >> y
        out[10, i] = min(x, y)
        out[11, i] = max(x, y)
        out[12, i] = -x
        out[13, i] = ~x
        out[14, i] = abs(x)
        out[15, i] = +x


@pytest.mark.parametrize("dtype", INTS)
def test_ints_wrap_and_divide_as_numpy_does(dtype):
    a, b = pairs(dtype)
    out = np.zeros((16, len(a)), dtype)
    binary_int(a, b, out)
    width = np.dtype(dtype).itemsize * 8
    with np.errstate(all="ignore"):
        zero = b == 0
        # NumPy's own quotient of the smallest number and -1 is documented as undefined: it wraps here.
        smallest = (a == np.iinfo(dtype).min) & (
            b == -1 if not dtype.startswith("u") else np.zeros(len(b), bool)
        )
        safe = np.where(zero | smallest, 1, b).astype(dtype)
        divided = np.where(zero, 0, np.where(smallest, a, a // safe)).astype(dtype)
        rest = np.where(zero | smallest, 0, a % safe).astype(dtype)
        inside = (b >= 0) & (b < width) if not dtype.startswith("u") else b < width
        shift = np.where(inside, b, 0).astype(dtype)
        up = np.where(inside, a << shift, 0).astype(dtype)
        sign = np.zeros(len(a), dtype) if dtype.startswith("u") else np.where(a < 0, -1, 0).astype(dtype)
        down = np.where(inside, a >> shift, sign).astype(dtype)
        expected = [a + b, a - b, a * b, divided, rest, a & b, a | b, a ^ b, up, down]
        expected += [np.minimum(a, b), np.maximum(a, b), -a, ~a, np.abs(a), a]
    for row, (actual, wanted) in enumerate(zip(out, expected, strict=True)):
        assert np.array_equal(actual, wanted), (row, a[actual != wanted][:5], b[actual != wanted][:5])


@kp.kernel
def compare(a: kp.types.NDArray, b: kp.types.NDArray, out: kp.types.NDArray[kp.bool, 2]):
    for i in range(a.shape[0]):
        out[0, i] = a[i] < b[i]
        out[1, i] = a[i] <= b[i]
        out[2, i] = a[i] > b[i]
        out[3, i] = a[i] >= b[i]
        out[4, i] = a[i] == b[i]
        out[5, i] = a[i] != b[i]
        out[6, i] = not a[i] < b[i]
        out[7, i] = a[i] < b[i] and b[i] > 2
        out[8, i] = a[i] < b[i] or b[i] > 2
        out[9, i] = 0 <= a[i] < b[i] <= 100
        out[10, i] = bool(a[i])


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_comparisons(dtype):
    if dtype in INTS:
        a, b = pairs(dtype)
    else:
        values = np.array([0.0, -0.0, 1.5, -1.5, 3, np.inf, -np.inf, np.nan, 99.5], dtype)
        a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    out = np.zeros((11, len(a)), bool)
    compare(a, b, out)
    expected = [a < b, a <= b, a > b, a >= b, a == b, a != b, ~(a < b)]
    expected += [(a < b) & (b > 2), (a < b) | (b > 2), (a >= 0) & (a < b) & (b <= 100), a.astype(bool)]
    for row, (actual, wanted) in enumerate(zip(out, expected, strict=True)):
        assert np.array_equal(actual, wanted), row


@kp.kernel
def binary_float(a: kp.types.NDArray, b: kp.types.NDArray, out: kp.types.NDArray):
    for i in range(a.shape[0]):
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] - b[i]
        out[2, i] = a[i] * b[i]
        out[3, i] = a[i] / b[i]
        out[4, i] = a[i] // b[i]
        out[5, i] = a[i] % b[i]
        out[6, i] = -a[i]
        out[7, i] = abs(a[i])
        out[8, i] = a[i] ** 2
        out[9, i] = kp.sqrt(a[i])


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_those_of_numpy_bit_for_bit(dtype):
    values = np.array([0.0, -0.0, 1, -1, 0.1, -0.1, 3.7, 1e-30, 1e30, np.inf, -np.inf, np.nan, 7.25], dtype)
    a, b = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    out = np.zeros((10, len(a)), dtype)
    binary_float(a, b, out)
    with np.errstate(all="ignore"):
        expected = [
            a + b,
            a - b,
            a * b,
            a / b,
            np.floor_divide(a, b),
            np.mod(a, b),
            -a,
            np.abs(a),
            a * a,
            np.sqrt(a),
        ]
    for row, (actual, wanted) in enumerate(zip(out, expected, strict=True)):
        if row == 4:
            # What NumPy says about infinities changed between versions: where the remainder is a number.
            known = np.isfinite(a) & np.isfinite(b) & (b != 0)
            actual, wanted = actual[known], wanted[known]
        assert np.array_equal(actual, wanted, equal_nan=True), (row, actual, wanted)


MATH = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "exp", "exp2", "expm1"),
    *("log", "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc"),
)


@kp.kernel
def functions(x: kp.types.NDArray, out: kp.types.NDArray):
    for i in range(x.shape[0]):
        out[0, i] = kp.sin(x[i])
        out[1, i] = kp.cos(x[i])
        out[2, i] = kp.tan(x[i])
        out[3, i] = kp.asin(x[i])
        out[4, i] = kp.acos(x[i])
        out[5, i] = kp.atan(x[i])
        out[6, i] = kp.sinh(x[i])
        out[7, i] = kp.cosh(x[i])
        out[8, i] = kp.tanh(x[i])
        out[9, i] = kp.asinh(x[i])
        out[10, i] = kp.exp(x[i])
        out[11, i] = kp.exp2(x[i])
        out[12, i] = kp.expm1(x[i])
        out[13, i] = kp.log(x[i])
        out[14, i] = kp.log2(x[i])
        out[15, i] = kp.log10(x[i])
        out[16, i] = kp.log1p(x[i])
        out[17, i] = kp.sqrt(x[i])
        out[18, i] = kp.cbrt(x[i])
        out[19, i] = kp.floor(x[i])
        out[20, i] = kp.ceil(x[i])
        out[21, i] = kp.trunc(x[i])
        out[22, i] = kp.rsqrt(x[i])
        out[23, i] = kp.round(x[i])
        out[24, i] = kp.atan2(x[i], 0.5)
        out[25, i] = kp.hypot(x[i], 3.0)
        out[26, i] = x[i] ** 2.5
        out[27, i] = math.sin(x[i])
        out[28, i] = np.cos(x[i])


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions(dtype):
    x = np.array([0.1, 0.25, 0.5, 0.75, 0.99], dtype)
    out = np.zeros((29, len(x)), dtype)
    functions(x, out)
    inverse = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
    expected = [getattr(np, inverse.get(name, name))(x) for name in MATH]
    expected += [
        1 / np.sqrt(x),
        np.rint(x),
        np.arctan2(x, dtype(0.5) if callable(dtype) else 0.5),
        np.hypot(x, 3.0),
    ]
    expected += [x**2.5, np.sin(x), np.cos(x)]
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    for row, (actual, wanted) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance, err_msg=str(row))


@kp.kernel
def rounding(x: kp.types.NDArray[kp.f64, 1], out: kp.types.NDArray[kp.f64, 2]):
    for i in range(x.shape[0]):
        out[0, i] = round(x[i])
        out[1, i] = kp.floor(x[i], kp.i32)
        out[2, i] = kp.ceil(x[i], kp.i32)
        out[3, i] = int(x[i])


def test_rounding_is_half_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6, 7.0])
    out = np.zeros((4, len(x)))
    rounding(x, out)
    assert out[0].tolist() == [float(round(number)) for number in x]
    assert out[1].tolist() == np.floor(x).tolist()
    assert out[2].tolist() == np.ceil(x).tolist()
    assert out[3].tolist() == np.trunc(x).tolist()


@kp.kernel
def casts(
    x: kp.types.NDArray[kp.f64, 1], out: kp.types.NDArray[kp.i64, 2], high: kp.types.NDArray[kp.u64, 1]
):
    for i in range(x.shape[0]):
        out[0, i] = kp.cast(x[i], kp.i8)
        out[1, i] = kp.cast(x[i], kp.i16)
        out[2, i] = kp.cast(x[i], kp.i32)
        out[3, i] = kp.cast(x[i], kp.i64)
        out[4, i] = kp.cast(x[i], kp.u8)
        out[5, i] = kp.cast(x[i], kp.u16)
        out[6, i] = kp.cast(x[i], kp.u32)
        high[i] = kp.cast(x[i], kp.u64)


def test_casts_of_floats_are_total():
    x = np.array(
        [0.0, 1.9, -1.9, 127.5, 128, -129, 300, -5, 1e10, -1e10, 1e19, 1e30, -1e30, np.inf, -np.inf, np.nan]
    )
    out, high = np.zeros((7, len(x)), np.int64), np.zeros(len(x), np.uint64)
    casts(x, out, high)
    for row, name in enumerate(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]):
        info = np.iinfo(name)
        wanted = [
            0
            if number != number
            else int(max(info.min, min(info.max, number if math.isinf(number) else math.trunc(number))))
            for number in x.tolist()
        ]
        actual = high.tolist() if name == "uint64" else out[row].tolist()
        assert actual == wanted, name


@kp.kernel
def narrowing(x: kp.types.NDArray[kp.i64, 1], out: kp.types.NDArray[kp.i64, 2]):
    for i in range(x.shape[0]):
        out[0, i] = kp.i8(x[i])
        out[1, i] = kp.u8(x[i])
        out[2, i] = kp.i16(x[i])
        out[3, i] = kp.u16(x[i])
        out[4, i] = kp.i32(x[i])
        out[5, i] = kp.u32(x[i])
        out[6, i] = kp.bool(x[i])


def test_casts_of_ints_wrap():
    x = np.array(
        [0, 1, -1, 127, 128, 255, 256, -129, 65535, 65536, 2**31, 2**32, -(2**40), 2**63 - 1, -(2**63)]
    )
    out = np.zeros((7, len(x)), np.int64)
    narrowing(x, out)
    for row, name in enumerate(["int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"]):
        assert out[row].tolist() == x.astype(name).astype(np.int64).tolist(), name


@kp.kernel
def bits(
    x: kp.types.NDArray[kp.f32, 1],
    d: kp.types.NDArray[kp.f64, 1],
    out: kp.types.NDArray[kp.u32, 1],
    wide: kp.types.NDArray[kp.i64, 1],
    back: kp.types.NDArray[kp.f32, 1],
):
    for i in range(x.shape[0]):
        out[i] = kp.bit_cast(x[i], kp.u32)
        wide[i] = kp.bit_cast(d[i], kp.i64)
        back[i] = kp.bit_cast(kp.bit_cast(x[i], kp.i32), kp.f32)


def test_bit_casts():
    x = np.array([0, 1, -1.5, np.inf, 3e-40], np.float32)
    d = x.astype(np.float64)
    out, wide, back = np.zeros(5, np.uint32), np.zeros(5, np.int64), np.zeros(5, np.float32)
    bits(x, d, out, wide, back)
    assert np.array_equal(out, x.view(np.uint32))
    assert np.array_equal(wide, d.view(np.int64))
    assert np.array_equal(back, x)


@kp.kernel
def powers(base: kp.types.NDArray[kp.i32, 1], out: kp.types.NDArray[kp.i32, 2]):
    for i in range(base.shape[0]):
        for k in range(out.shape[0]):
            out[k, i] = base[i] ** (k - 2)


def test_powers_of_ints():
    base = np.array([0, 1, -1, 2, -3, 10, 77777], np.int32)
    out = np.zeros((10, len(base)), np.int32)
    powers(base, out)
    for k in range(10):
        for i, b in enumerate(base.tolist()):
            exponent = k - 2
            if exponent >= 0:
                wanted = (b**exponent + 2**31) % 2**32 - 2**31
            else:
                wanted = {1: 1, -1: 1 if exponent % 2 == 0 else -1}.get(b, 0)
            assert out[k, i] == wanted, (b, exponent)


@kp.kernel
def mixed(a: kp.types.NDArray, b: kp.types.NDArray, out: kp.types.NDArray):
    for i in range(a.shape[0]):
        out[i] = a[i] * b[i]


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int8", "int16", "int16"),
        ("int32", "int64", "int64"),
        ("int32", "uint32", "uint32"),
        ("uint8", "int32", "int32"),
        ("int64", "uint64", "uint64"),
        ("int32", "float32", "float32"),
        ("int64", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("bool", "int8", "int8"),
        ("bool", "bool", "int32"),
        ("bool", "float64", "float64"),
    ],
)
def test_mixing_types(a, b, result):
    x = np.array([1, 3, 100, 0], a)
    y = np.array([2, 50, 100, 7], b)
    out = np.zeros(4, result)
    mixed(x, y, out)
    with np.errstate(all="ignore"):
        assert np.array_equal(out, x.astype(result) * y.astype(result))


@kp.kernel
def division_of_ints(a: kp.types.NDArray[kp.i32, 1], out: kp.types.NDArray[kp.f64, 1]):
    for i in range(a.shape[0]):
        out[i] = a[i] / 3


def test_true_division_gives_the_default_float():
    a = np.array([1, 2, -7, 100], np.int32)
    out = np.zeros(4)
    division_of_ints(a, out)
    assert np.array_equal(out, (a.astype(np.float32) / np.float32(3)).astype(np.float64))
    kp.init(default_fp=kp.f64)
    division_of_ints(a, out)
    assert np.array_equal(out, a / 3)


@kp.kernel
def halves(a: kp.types.NDArray[kp.f16, 1], b: kp.types.NDArray[kp.f16, 1], out: kp.types.NDArray[kp.f16, 2]):
    for i in range(a.shape[0]):
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] * b[i]
        out[2, i] = a[i] / b[i]
        out[3, i] = a[i] - b[i] * a[i]
        out[4, i] = kp.sqrt(a[i])
        out[5, i] = max(a[i], b[i])


def test_halves_are_rounded_after_each_operation():
    a = np.array([1, 2.5, 0.1, 1000, 60000, 3e-5], np.float16)
    b = np.array([3, 0.3, 7, 77, 3, 0.2], np.float16)
    out = np.zeros((6, len(a)), np.float16)
    halves(a, b, out)
    with np.errstate(all="ignore"):
        expected = [a + b, a * b, a / b, a - b * a, np.sqrt(a), np.maximum(a, b)]
    for row, (actual, wanted) in enumerate(zip(out, expected, strict=True)):
        assert np.array_equal(actual, wanted), (row, actual, wanted)


@kp.kernel
def conversions(out: kp.types.NDArray[kp.f64, 1], x: kp.f32, n: kp.i32):
    out[0] = int(x)
    out[1] = float(n) / 2
    out[2] = bool(n)
    out[3] = kp.select(n > 3, x, -x)
    out[4] = x if n > 3 else -x
    out[5] = kp.clamp(x, 0.0, 1.0)
    out[6] = min(n, 2, 1, 5)
    out[7] = max(x, n, 1.5)
    out[8] = kp.raw_div(-7, n)
    out[9] = kp.raw_mod(-7, n)
    out[10] = kp.isnan(x)
    out[11] = kp.isinf(x / 0.0)
    out[12] = abs(-n)
    out[13] = pow(n, 2)


def test_conversions_and_choices():
    out = np.zeros(14)
    conversions(out, 2.75, 4)
    assert out.tolist() == [2, 2, 1, 2.75, 2.75, 1, 1, 4, -1, -3, 0, 1, 4, 16]
    conversions(out, 2.75, 2)
    assert out[3] == out[4] == -2.75


@kp.kernel
def constants(out: kp.types.NDArray[kp.f64, 1]):
    out[0] = 7 // 2 + 2**10 - 7 % 3
    out[1] = -7 // 2
    out[2] = 1 / 4
    out[3] = 3000000000
    out[4] = 18446744073709551615
    out[5] = 1e300
    out[6] = 5 if True else 6
    out[7] = 3 in (1, 2, 3)
    out[8] = len((1, 2, 3))
    out[9] = 0.1


def test_constants_are_computed_as_python_does():
    out = np.zeros(10)
    constants(out)
    assert out[:4].tolist() == [7 // 2 + 2**10 - 7 % 3, -4, 0.25, 3e9]
    assert out[4] == float(2**64)
    # The digits of a constant that is stored as it is are those of the array.
    assert out[5:].tolist() == [1e300, 5, 1, 3, 0.1]
