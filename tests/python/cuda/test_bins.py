"""Counting into bins: blocks of threads have bins of their own, if that is worth it, and nothing else shows."""

import numpy as np
import pytest

import keyprint as kp

N = kp.types.NDArray


@kp.kernel
def count(bins: N[kp.i32, 1], data: N[kp.i32, 1]):
    for i in data:
        bins[data[i]] += 1


@pytest.mark.parametrize("many", [1, 2, 256, 4096, 4097, 10_000])
@pytest.mark.parametrize("size", [0, 1, 100, 50_000])
def test_histograms(many, size):
    data = np.random.default_rng(many).integers(0, many, size).astype(np.int32)
    bins = np.arange(many, dtype=np.int32)
    count(bins, data)
    assert np.array_equal(bins, np.arange(many) + np.bincount(data, minlength=many))


@kp.kernel
def orders(
    low: N[kp.i32, 1], high: N[kp.u32, 2], bits: N[kp.u32, 1], image: N[kp.u8, 2], values: N[kp.i32, 2]
):
    for i, j in image:
        kp.atomic_min(low[image[i, j]], values[i, j])
    for i, j in image:
        kp.atomic_max(high[image[i, j] // 4, image[i, j] % 4], kp.u32(values[i, j] & 1023))
    for i, j in image:
        at = image[i, j]
        if at < 7:
            bits[at] |= kp.u32(1) << kp.u32(values[i, j] & 31)
            continue
        kp.atomic_xor(bits[at], kp.u32(values[i, j]))


def test_other_changes_in_two_dimensions():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 16, (150, 170)).astype(np.uint8)
    values = rng.integers(-(2**31), 2**31, image.shape).astype(np.int32)
    low, high, bits = np.full(16, 5, np.int32), np.zeros((4, 4), np.uint32), np.zeros(16, np.uint32)
    orders(low, high, bits, image, values)
    expected = [np.full(16, 5, np.int32), np.zeros(16, np.uint32), np.zeros(16, np.uint32)]
    np.minimum.at(expected[0], image, values)
    np.maximum.at(expected[1], image, (values & 1023).astype(np.uint32))
    is_low = image < 7
    np.bitwise_or.at(expected[2], image[is_low], np.uint32(1) << (values[is_low] & 31).astype(np.uint32))
    np.bitwise_xor.at(expected[2], image[~is_low], values[~is_low].view(np.uint32))
    for actual, wanted in zip((low, high.ravel(), bits), expected, strict=True):
        assert np.array_equal(actual, wanted)


@kp.kernel
def counts_and_reads(bins: N[kp.i32, 1], where: N[kp.u8, 1], same: N[kp.i32, 1], out: N[kp.i32, 1]):
    for i in where:
        bins[where[i]] += i + 1
        out[i] = same[i % 64]


def test_an_array_that_is_read_by_another_name_is_changed_at_once():
    where = np.arange(64, dtype=np.uint8)
    bins, out = kp.ndarray(kp.i32, 64, device="cuda"), kp.ndarray(kp.i32, 64, device="cuda")
    place = kp.ndarray(kp.u8, 64, device="cuda")
    place.from_numpy(where)
    counts_and_reads(bins, place, bins, out)
    assert np.array_equal(out.to_numpy(), np.arange(1, 65))
    assert np.array_equal(bins.to_numpy(), np.arange(1, 65))
    # Another array: nothing of the sort.
    many = kp.ndarray(kp.u8, 6400, device="cuda")
    many.from_numpy(np.tile(where, 100))
    results = kp.ndarray(kp.i32, 6400, device="cuda")
    counts_and_reads(bins, many, out, results)
    assert np.array_equal(results.to_numpy(), np.tile(np.arange(1, 65), 100))
    expected = np.arange(1, 65)
    np.add.at(expected, np.tile(where, 100), np.arange(1, 6401))
    assert np.array_equal(bins.to_numpy(), expected)


@kp.kernel
def keeps_the_old(bins: N[kp.i32, 1], data: N[kp.i32, 1], first: N[kp.i32, 1]):
    for i in data:
        first[i] = kp.atomic_add(bins[data[i]], 1)


def test_who_wants_what_was_there_gets_it():
    data = np.zeros(5000, np.int32)
    bins, first = np.zeros(3, np.int32), np.zeros(5000, np.int32)
    keeps_the_old(bins, data, first)
    assert sorted(first) == list(range(5000)) and bins.tolist() == [5000, 0, 0]


@kp.kernel
def checked(bins: N[kp.i32, 1], data: N[kp.i32, 1]):
    for i in data:
        assert data[i] != 3, "three"
        bins[data[i]] += 1


def test_a_check_that_fails_in_the_middle():
    kp.init(arch=kp.cuda, debug=True)
    data = np.arange(5000, dtype=np.int32) % 3
    bins = np.zeros(4, np.int32)
    checked(bins, data)
    assert bins.tolist() == [1667, 1667, 1666, 0]
    data[4321] = 3
    with pytest.raises(kp.KernelAssertionError, match="three"):
        checked(bins, data)
        kp.sync()


field = None


def test_fields_have_bins():
    global field
    kp.init(arch=kp.cuda)
    field = kp.field(kp.u32, (2, 8))

    @kp.kernel
    def fill(data: N[kp.i64, 1]):
        for i in data:
            field[0, data[i]] += 1
            field[1, data[i]] += 2

    data = np.random.default_rng(0).integers(0, 8, 3000)
    fill(data)
    assert np.array_equal(field.to_numpy(), np.stack([np.bincount(data, minlength=8)] * 2) * [[1], [2]])
