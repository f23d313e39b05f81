"""The spelling that Quadrants users know, and what is kept for people to read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import keyprint as kp
import keyprint.quadrants as qd


@qd.data_oriented(stable_members=True)
class Solver:
    def __init__(self, n):
        self.n = n
        self.x = qd.ndarray(qd.f32, shape=(n,))
        self.pos = qd.Vector.field(2, dtype=qd.f32, shape=n)

    @qd.func
    def kernel_function(self, r: qd.f32) -> qd.f32:
        return qd.max(1.0 - r, 0.0)

    @qd.kernel(fastcache=True)
    def run(self, scale: qd.f32):
        for i in range(self.n):
            self.x[i] = scale * self.kernel_function(i * 0.25)
        for i in self.pos:
            self.pos[i] = qd.Vector([i, self.x[i]])


@qd.kernel
def fill(t: qd.template(), value: qd.i32):
    for I in qd.grouped(t):
        t[I] = qd.cast(value, qd.f32)


@qd.kernel
def count(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.i32:
    total = 0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            qd.atomic_add(total, 1)
    return total


@dataclasses.dataclass
class State:
    x: qd.types.NDArray[qd.f32, 1]
    dt: qd.f32 = dataclasses.field(default=0.5, metadata={qd.FIELD_METADATA_CACHE_VALUE: True})


@qd.kernel
def advance(state: State):
    for i in state.x:
        state.x[i] += state.dt


def test_programs():
    qd.init(arch=qd.cpu, offline_cache=True, src_ll_cache=True)
    solver = Solver(6)
    solver.run(2.0)
    assert solver.x.to_numpy().tolist() == [2, 1.5, 1, 0.5, 0, 0]
    assert solver.pos.to_numpy()[:, 1].tolist() == [2, 1.5, 1, 0.5, 0, 0]
    solver.x = qd.ndarray(qd.f32, shape=(6,))
    fill(solver.x, 3)
    assert solver.x.to_numpy().tolist() == [3] * 6
    assert count(solver.x) == 6
    state = State(solver.x)
    advance(state)
    state.dt = 1.0
    advance(state)
    assert solver.x[0] == 4.5
    qd.sync()


@pytest.mark.cpu
def test_names():
    for name in (
        "i8",
        "u64",
        "f16",
        "template",
        "Template",
        "static",
        "ndrange",
        "grouped",
        "sqrt",
        "Matrix",
        "types",
    ):
        assert getattr(qd, name) is getattr(kp, name)
    assert qd.QuadrantsSyntaxError is kp.KernelSyntaxError
    assert issubclass(qd.QuadrantsSyntaxError, qd.QuadrantsCompilationError)
    assert "kernel" in dir(qd)
    with pytest.raises(AttributeError, match="nope"):
        qd.nope  # noqa: B018
    with pytest.raises(ValueError, match="kernels run on the CPU"):
        qd.init(arch="vulkan")
    qd.init(arch=qd.cpu, log_level="warn", print_ir=False)
    with pytest.raises(TypeError, match="no option `fastmath`"):
        qd.init(fastmath=True)
    for call in (lambda: qd.kernel(graf=True), lambda: qd.field(qd.f32, 3, offset=1)):
        with pytest.raises(TypeError):
            call()


def test_observations():
    kernel = qd.kernel(_observed)
    kernel(np.zeros(3, np.float32))
    seen = kernel._primal.src_ll_cache_observations
    assert seen.cache_key_generated and (seen.cache_stored or seen.cache_loaded)


def _observed(x: qd.types.NDArray[qd.f32, 1]):
    for i in x:
        x[i] = 3


@kp.kernel
def dumped(heights: kp.types.NDArray[kp.f32, 1], gravity: kp.f32):
    for place in heights:
        fallen = gravity * 0.5
        heights[place] -= fallen


@pytest.mark.cpu
def test_every_stage_is_kept_for_people(monkeypatch, tmp_path):
    monkeypatch.setenv("KEYPRINT_DUMP", str(tmp_path / "dump"))
    kp.init(offline_cache=False)
    dumped(np.zeros(2, np.float32), 9.81)
    files = {
        path.suffixes[-1] if ".optimised" not in path.name else "optimised": path
        for path in (tmp_path / "dump").iterdir()
    }
    assert set(files) == {".c", ".ir", "optimised"}
    text = files[".c"].read_text()
    first = dumped.__wrapped__.__code__.co_firstlineno
    for piece in (
        "heights",
        "gravity",
        "place",
        "fallen",
        f"/* line {first + 3} */",
        f"/* line {first + 4} */",
    ):
        assert piece in text
    assert files[".ir"].read_text().startswith('(kernel "dumped"')
    assert "atomic add" in files[".ir"].read_text() and "atomic" not in files["optimised"].read_text()
