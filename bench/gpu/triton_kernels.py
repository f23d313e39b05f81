"""Kernels of Triton: one that does next to nothing, and those that others are measured beside."""

from __future__ import annotations

import triton
import triton.language as tl

SUM_BLOCK = 4096
HISTOGRAM_BLOCK = 4096
TILE = 64


@triton.jit
def add_one(x):
    at = tl.arange(0, 1)
    tl.store(x + at, tl.load(x + at) + 1.0)


@triton.jit
def total(x, out, n, block: tl.constexpr = SUM_BLOCK):
    at = tl.program_id(0) * block + tl.arange(0, block)
    values = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(out, tl.sum(values, axis=0))


@triton.jit
def histogram(x, out, n, block: tl.constexpr = HISTOGRAM_BLOCK):
    at = tl.program_id(0) * block + tl.arange(0, block)
    values = tl.load(x + at, mask=at < n, other=0)
    counts = tl.histogram(values, 256)
    # What is beyond the end counts as zeros.
    beyond = block - tl.minimum(n - tl.program_id(0) * block, block)
    counts = tl.where(tl.arange(0, 256) == 0, counts - beyond, counts)
    tl.atomic_add(out + tl.arange(0, 256), counts)


@triton.jit
def matmul(a, b, c, n, tile: tl.constexpr = TILE, depth: tl.constexpr = 32):
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    sums = tl.zeros((tile, tile), dtype=tl.float32)
    for k in range(0, n, depth):
        inner = k + tl.arange(0, depth)
        left = tl.load(a + rows[:, None] * n + inner[None, :])
        right = tl.load(b + inner[:, None] * n + columns[None, :])
        sums += tl.dot(left, right, input_precision="ieee")
    tl.store(c + rows[:, None] * n + columns[None, :], sums)
