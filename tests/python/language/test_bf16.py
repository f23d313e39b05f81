"""Upper halves of single precision: stored in 16 bits, computed in single precision, rounded once."""

import numpy as np
import pytest

import keyprint as kp

N = kp.types.NDArray
NAN = float("nan")


def rounded(numbers):
    """Each number as the nearest one of eight binary digits, by whole numbers: ties to even."""
    bits = np.asarray(numbers, np.float32).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return nearest.astype(np.uint32).view(np.float32)


def array_of(numbers):
    array = kp.ndarray(kp.bf16, np.shape(numbers))
    array.from_numpy(numbers)
    return array


@kp.kernel
def operations(a: N[kp.bf16, 1], b: N[kp.bf16, 1], out: N[kp.bf16, 2], s: kp.bf16) -> kp.bf16:
    for i in a:
        out[0, i] = a[i] + b[i]
        out[1, i] = a[i] * b[i] - s
        out[2, i] = kp.sqrt(abs(a[i]))
        out[3, i] = max(a[i], b[i])
        out[4, i] = -a[i]
        out[5, i] = a[i] if a[i] > b[i] else kp.bf16(0.1)
        out[6, i] = a[i] // b[i]
        whole = kp.bf16(0)
        if a[i]:
            whole = kp.i32(a[i])
        out[7, i] = whole
    return s * 3


def test_numbers_are_rounded_after_each_operation():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000)).astype(np.float32) * 10
    a, b, out = array_of(x), array_of(y), kp.ndarray(kp.bf16, (8, 1000))
    result = operations(a, b, out, 0.3)
    x, y, s = rounded(x), rounded(y), rounded(0.3)[()]
    expected = [x + y, rounded(x * y) - s, np.sqrt(abs(x)), np.maximum(x, y), -x]
    expected += [np.where(x > y, x, rounded(0.1)), np.floor_divide(x, y), np.trunc(x)]
    assert result == rounded(s * np.float32(3))
    assert np.array_equal(a.to_numpy(), x)
    for row, (actual, wanted) in enumerate(zip(out.to_numpy(), expected, strict=True)):
        assert np.array_equal(actual, rounded(wanted)), row


@kp.kernel
def converts(doubles: N[kp.f64, 1], longs: N[kp.i64, 1], out: N[kp.bf16, 2], halves: N[kp.f32, 1]):
    for i in doubles:
        out[0, i] = doubles[i]
        out[1, i] = longs[i]
        out[2, i] = kp.i32(longs[i])
        out[3, i] = kp.u64(longs[i])
        halves[i] = kp.f16(1.5) + kp.bf16(doubles[i])


def nearest_of(whole):
    """A whole number of eight binary digits, ties to even."""
    size = abs(int(whole))
    last = max(size.bit_length() - 8, 0)
    low, rest = size >> last, size & ((1 << last) - 1)
    low += last > 0 and (rest << 1, low & 1) > (1 << last, 0)
    return float((low << last) * (-1 if whole < 0 else 1))


def test_conversions_round_once():
    rng = np.random.default_rng(1)
    n = 4000
    doubles = rng.standard_normal(n) * 10.0 ** rng.integers(-46, 39, n)
    # In the middle of two, and right beside it: rounded to single precision first, these would be ties.
    middle = rounded(doubles).astype(np.float64) * (1 + 2.0**-8)
    doubles[1000:2000] = middle[1000:2000]
    doubles[2000:3000] = np.nextafter(middle[2000:3000], np.inf)
    doubles[3000:] = np.nextafter(middle[3000:], 0)
    doubles[:6] = 1e300, -1e300, 1e-300, 2.0**-134, np.nextafter(2.0**-134, 1), np.inf
    longs = rng.integers(-(2**63), 2**63, n) >> rng.integers(0, 62, n)
    longs[:4] = 2**62 + 2**54, 2**62 + 2**54 + 1, -(2**62) - 2**54 - 1, -(2**63)
    given, whole = kp.ndarray(kp.f64, n), kp.ndarray(kp.i64, n)
    given.from_numpy(doubles)
    whole.from_numpy(longs)
    out, halves = kp.ndarray(kp.bf16, (4, n)), kp.ndarray(kp.f32, n)
    converts(given, whole, out, halves)
    numbers = out.to_numpy()
    with np.errstate(over="ignore"):
        assert np.array_equal(numbers[0], [np.float32(kp.bf16(double)) for double in doubles])
    is_near = np.isfinite(numbers[0])
    close, exact = numbers[0, is_near], doubles[is_near]
    assert (abs(close - exact) <= np.maximum(abs(exact) * 2.0**-8, 2.0**-134)).all()
    assert numbers[0, :6].tolist() == [np.inf, -np.inf, 0, 0, 2.0**-133, np.inf]
    assert np.array_equal(numbers[1], [nearest_of(number) for number in longs])
    assert np.array_equal(numbers[2], [nearest_of(number) for number in longs.astype(np.int32)])
    assert np.array_equal(numbers[3], [nearest_of(number) for number in longs.astype(np.uint64)])
    with np.errstate(invalid="ignore"):
        assert np.array_equal(halves.to_numpy(), np.float32(1.5) + numbers[0])


@kp.kernel
def changes(a: N[kp.bf16, 1], out: N[kp.bf16, 1], v: kp.types.vector(2, kp.bf16)):
    for i in a:
        kp.atomic_add(out[0], 1.0)
        kp.atomic_max(out[1], a[i])
        kp.atomic_min(out[2], a[i])
        out[3] += kp.bf16(0.5)
    out[4] = v[0] * v[1]
    out[5] = kp.isnan(out[4]) + kp.isnan(kp.bf16(NAN))
    out[6] = kp.bit_cast(kp.u16(0x4049), kp.bf16)


def test_atomic_changes_vectors_and_bits():
    out = kp.ndarray(kp.bf16, 7)
    changes(array_of(np.arange(-50, 100)), out, (1.5, 3))
    # 16 bits are not enough to count further than 256; beyond, one changes nothing.
    assert out.to_numpy().tolist() == [150, 99, -50, 75, 4.5, 1, 3.140625]


@kp.kernel
def draws(out: N[kp.bf16, 1]):
    for i in out:
        out[i] = kp.random(kp.bf16)


def test_random_numbers_are_below_one():
    out = kp.ndarray(kp.bf16, 10_000)
    draws(out)
    numbers = out.to_numpy()
    assert numbers.min() >= 0 and numbers.max() < 1 and 0.45 < numbers.mean() < 0.55


def test_the_type_outside_of_kernels():
    assert [kp.bf16(number) for number in (1 / 3, 1e39, -1e-45, 256.5)] == [0.333984375, np.inf, 0, 256]
    assert (kp.bf16.bits, kp.bf16.is_float) == (16, True)
    vector = kp.Vector([1.2, 2.3], dt=kp.bf16)
    assert vector.to_numpy().dtype == np.float32
    assert (vector + kp.Vector([1, 2], dt=kp.f16)).dtype == kp.f32
    field = kp.field(kp.bf16, 4)
    field[2] = 1 / 3
    assert field.to_numpy().tolist() == [0, 0, 0.333984375, 0]


def test_numpy_gets_single_precision():
    array = array_of([0.1, 2])
    assert np.asarray(array).dtype == np.float32 and np.array_equal(np.asarray(array), rounded([0.1, 2]))
    other = kp.ndarray(kp.f64, 2)
    other.from_numpy(array)
    assert np.array_equal(other.to_numpy(), rounded([0.1, 2]))
    with pytest.raises(TypeError, match="complex128"):
        array.from_numpy(np.ones(2, complex))


@pytest.mark.cpu
def test_buffers_have_no_name_for_it():
    array = array_of([1, 2])
    with pytest.raises(BufferError, match="`to_numpy\\(\\)` copies the numbers as `float32`"):
        memoryview(array)
    assert kp.fingerprint(array) != kp.fingerprint(kp.ndarray(kp.u16, 2))
    assert kp.fingerprint(array) == kp.fingerprint(array_of([1, 2])) != kp.fingerprint(array_of([1, 3]))
