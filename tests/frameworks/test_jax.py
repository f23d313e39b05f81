"""Arrays of JAX."""

from __future__ import annotations

import pytest

import keyprint as kp

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
fp = kp.fingerprint


def test_content_counts() -> None:
    assert fp(jnp.arange(3.0)) == fp(jnp.arange(3.0)) != fp(jnp.ones(3))


def test_weak_types_count() -> None:
    weak, strong = jnp.asarray(1.0), jnp.asarray(1.0, dtype=jnp.float32)
    assert weak.weak_type and not strong.weak_type
    assert fp(weak) != fp(strong)
    spec = kp.Fingerprinter(arrays="spec")
    assert spec(weak) != spec(strong)
    kernel = kp.jit(lambda x: x, compile=lambda spec: lambda x: spec.key.hex())
    assert kernel(weak) == kernel(jnp.asarray(2.0)) != kernel(strong)


def test_kernels_do_not_write_what_cannot_be_written() -> None:
    @kp.kernel
    def fill(a: kp.types.NDArray[kp.f32, 1]):
        for i in a:
            a[i] = 3.0

    array = jnp.zeros(4)
    with pytest.raises(TypeError):
        fill(array)
    assert array.tolist() == [0] * 4
