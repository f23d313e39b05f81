"""Kernels on arrays of torch, CuPy, JAX and Numba on a CUDA device: shared, in order, and there until the device is done."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import keyprint as kp

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

V = kp.types.NDArray[kp.f32, 1]
N = 1 << 20


@kp.kernel
def add(x: V, y: V):
    for i in x:
        y[i] += x[i]


@kp.kernel
def double(x: V):
    for i in x:
        x[i] *= 2


@kp.kernel
def total(x: V) -> kp.f64:
    s = kp.f64(0)
    for i in x:
        s += x[i]
    return s


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", str(tmp_path_factory.mktemp("store")))
    kp.init()


def test_a_tensor_is_shared():
    x, y = torch.arange(N, device="cuda", dtype=torch.float32), torch.ones(N, device="cuda")
    add(x, y)
    assert torch.equal(y, torch.arange(N, device="cuda", dtype=torch.float32) + 1)
    assert total(y) == N * (N - 1) / 2 + N


def slow(x):
    """Put work on the current stream that takes some milliseconds."""
    for _ in range(20):
        x = x @ x
    return x


def test_a_launch_is_between_two_operations():
    matrix = torch.zeros(4096, 4096, device="cuda")
    for _ in range(5):
        x = torch.ones(N, device="cuda")
        slow(matrix)
        x.add_(1)
        double(x)
        x.add_(1)
        assert x.sum().item() == 5 * N


def test_a_launch_goes_to_the_current_stream():
    """Work that is put on another stream is late there; a launch that did not follow it would read what was before."""
    matrix, side = torch.zeros(4096, 4096, device="cuda"), torch.cuda.Stream()
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        slow(matrix)
        x.fill_(3)
        double(x)
        x.add_(1)
    side.synchronize()
    assert x.sum().item() == 7 * N


def test_arrays_of_our_own_follow_a_side_stream():
    matrix, side = torch.zeros(4096, 4096, device="cuda"), torch.cuda.Stream()
    own = kp.ndarray(kp.f32, N, device="cuda")
    own.fill(1)
    with torch.cuda.stream(side):
        slow(matrix)
        x = torch.full((N,), 2.0, device="cuda")
        add(x, own)
    double(own)
    assert own.to_numpy().tolist()[:3] == [6, 6, 6]
    assert total(own) == 6 * N


def test_tensors_that_are_dropped_while_they_are_used():
    for _ in range(30):
        x, y = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
        for _ in range(10):
            add(x, y)
        del x
        torch.full((N,), float("nan"), device="cuda")
        assert y.sum().item() == 10 * N


def test_own_arrays_that_are_dropped_while_they_are_used():
    y = kp.ndarray(kp.f32, N, device="cuda")
    for _ in range(30):
        x = kp.ndarray(kp.f32, N, device="cuda")
        x.fill(1)
        add(x, y)
        del x
        gc.collect()
        kp.ndarray(kp.f32, N, device="cuda").fill(float("nan"))
    assert total(y) == 30 * N


def test_torch_takes_ours():
    own = kp.ndarray(kp.f32, 8, device="cuda")
    own.fill(2)
    tensor = torch.from_dlpack(own)
    assert tensor.device.type == "cuda"
    tensor += 1
    assert own.to_numpy().tolist() == [3] * 8
    own.fill(5)
    torch.cuda.synchronize()
    assert tensor.tolist() == [5] * 8


def test_what_torch_means_otherwise_is_refused():
    z = torch.ones(4, device="cuda", dtype=torch.complex64)
    with pytest.raises(TypeError, match="negative bit"):
        double(torch.conj(z).imag)
    tracked = torch.ones(4, device="cuda", requires_grad=True)
    with pytest.raises(kp.KernelError, match="autograd"):
        double(tracked)
    assert total(tracked) == 4


def test_strided_tensors():
    x = torch.arange(20, device="cuda", dtype=torch.float32).reshape(4, 5)
    double(x[:, 2])
    assert x[:, 2].tolist() == [4, 14, 24, 34]
    assert x[:, 1].tolist() == [1, 6, 11, 16]
    assert total(x.t()[1]) == 34


def test_mixing_says_where_they_are():
    x, y = torch.ones(4, device="cuda"), torch.ones(4)
    with pytest.raises(kp.KernelTypeError, match="`x` is on `cuda:0`, and `y` on the CPU"):
        add(x, y)
    double(y)
    assert y.tolist() == [2] * 4


def test_a_capture():
    x = torch.zeros(N, device="cuda")
    double(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        double(x)
    x.zero_()
    for _ in range(3):
        graph.replay()
    assert x.sum().item() == 14 * N


C = kp.types.NDArray[kp.i32, 0]


@kp.kernel(graph=True)
def count(x: V, c: C):
    while kp.graph.do_while(c):
        for i in x:
            x[i] += 1
        for i in x:
            x[i] *= 1
        c[None] -= 1


def counter(turns):
    return torch.full((), turns, device="cuda", dtype=torch.int32)


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_graph_on_streams_of_torch(size):
    x = torch.zeros(size, device="cuda")
    count(x, counter(3))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        slow(torch.zeros(2048, 2048, device="cuda"))
        x.add_(1)
        for _ in range(5):
            count(x, counter(4))
        x.mul_(2)
    torch.cuda.current_stream().wait_stream(side)
    assert x.unique().tolist() == [48]


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_capture_of_a_graph(size):
    x = torch.zeros(size, device="cuda")
    count(x, counter(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = counter(5000)
        count(x, c)
    x.zero_()
    for _ in range(3):
        graph.replay()
    assert x.unique().tolist() == [15000] and c.item() == 0


def test_a_capture_is_not_called_off():
    """What is interrupted was launched before; what others launch later, and maybe often, is theirs."""
    x = torch.zeros(600, device="cuda")
    count(x, counter(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = counter(1 << 18)
        count(x, c)
    endless = kp.ndarray(kp.i32, (), device="cuda")
    endless.fill(-1)
    own = kp.ndarray(kp.f32, 600, device="cuda")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        count(own, endless)
        kp.sync()
        time.sleep(10)
    x.zero_()
    graph.replay()
    assert x.unique().tolist() == [1 << 18] and c.item() == 0


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(N, dtype=cupy.float32), cupy.ones(N, dtype=cupy.float32)
    add(x, y)
    assert bool((y == cupy.arange(N) + 1).all())
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        z = cupy.ones(N, dtype=cupy.float32)
        for _ in range(50):
            z = z * 1
        double(z)
        assert float(z.sum()) == 2 * N
    own = kp.ndarray(kp.f32, 4, device="cuda")
    cupy.asarray(own)[:] = 7
    cupy.cuda.runtime.deviceSynchronize()
    assert own.to_numpy().tolist() == [7] * 4


def test_jax():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    x = jax.numpy.arange(1000, dtype=jax.numpy.float32) * 2
    assert total(x) == 999_000
    with pytest.raises(kp.KernelError, match="read-only"):
        double(x)
    y = kp.ndarray(kp.f32, 1000, device="cuda")
    add(x, y)
    del x
    assert y[999] == 1998
    assert float(jax.dlpack.from_dlpack(y)[3]) == 6


def test_numba():
    pytest.importorskip("numba")
    from numba import cuda

    x = cuda.to_device(np.arange(1000, dtype=np.float32))
    double(x)
    assert total(x) == 999_000
    assert x.copy_to_host()[999] == 1998


def test_one_compile_for_all_libraries():
    cupy = pytest.importorskip("cupy")

    @kp.kernel
    def once(x: V):
        for i in x:
            x[i] = 1

    for array in (
        torch.zeros(4, device="cuda"),
        cupy.zeros(4, cupy.float32),
        kp.ndarray(kp.f32, 4, device="cuda"),
    ):
        once(array)
    assert once.observations.compiled == 1
    assert "torch" in sys.modules
