"""Tensors of torch: by fingerprints and by kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import keyprint as kp

torch = pytest.importorskip("torch")
fp = kp.fingerprint


def test_signs_and_conjugates_that_are_yet_to_be_taken() -> None:
    values = torch.tensor([1 + 2j, 3 - 4j])
    negative = values.conj().imag
    assert negative.is_neg()
    assert fp(negative) == fp(torch.tensor([-2.0, 4.0])) != fp(torch.tensor([2.0, -4.0]))
    assert fp(values.conj()) == fp(torch.tensor([1 - 2j, 3 + 4j]))


def test_requires_grad_counts() -> None:
    plain, tracked = torch.ones(2), torch.ones(2, requires_grad=True)
    assert fp(plain) != fp(tracked)
    assert fp(tracked) == fp(torch.ones(2, requires_grad=True))
    spec = kp.Fingerprinter(arrays="spec")
    assert spec(plain) != spec(tracked)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.ones(2, device="meta"), "meta"),
        (lambda: torch.eye(2).to_sparse(), "sparse_coo"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantised"),
    ],
)
def test_tensors_without_elements_are_refused_in_our_words(make: Any, words: str) -> None:
    with pytest.raises(kp.FingerprintError, match=words) as caught:
        fp({"t": make()})
    assert caught.value.code == "array-format"
    assert "hint" in str(caught.value)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "bool", "complex64", "float8_e4m3fn"])
def test_element_types(dtype: str) -> None:
    tensor, other = (torch.tensor([1, number]).to(getattr(torch, dtype)) for number in (1, 0))
    assert fp(tensor) == fp(tensor.clone()) != fp(other)
    assert fp(tensor) != fp(tensor.to(torch.float64))


def test_modules_are_values() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    other.load_state_dict(module.state_dict())
    assert fp(module) == fp(other)
    with torch.no_grad():
        other[0].bias[0] += 1
    assert fp(module) != fp(other)


@kp.kernel
def fill(a: kp.types.NDArray[kp.f32, 1]):
    for i in a:
        a[i] = 3.0


@kp.kernel
def copy(a: kp.types.NDArray[kp.f32, 1], b: kp.types.NDArray[kp.f32, 1]):
    for i in a:
        b[i] = a[i]


@kp.kernel
def doubled(a: kp.types.NDArray[kp.bf16, 1]):
    for i in a:
        a[i] = a[i] * 2 + 1


def test_upper_halves_are_those_of_torch() -> None:
    tensor = torch.tensor([0.1, 2, -300.5]).bfloat16()
    expected = tensor * 2 + 1
    doubled(tensor)
    assert torch.equal(tensor, expected)
    own = kp.ndarray(kp.bf16, 3)
    own.from_numpy(tensor)
    assert torch.equal(torch.from_dlpack(own), tensor)
    doubled(own)
    assert torch.equal(torch.from_dlpack(own), tensor * 2 + 1)
    field = kp.field(kp.bf16, 3)
    field.from_torch(tensor)
    assert torch.equal(field.to_torch(), tensor)
    with pytest.raises(TypeError, match="pass the array itself"):
        kp.asarray(tensor)
    with pytest.raises(kp.KernelTypeError, match="found an array of `f16`"):
        doubled(tensor.half())


def test_upper_halves_in_numpy() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([0.1, 2, -300.5]).astype(ml_dtypes.bfloat16)
    expected = array * 2 + 1
    doubled(array)
    assert np.array_equal(array, expected)
    shared = kp.asarray(array)
    doubled(shared)
    assert np.array_equal(array, expected * 2 + 1) and shared.dtype == kp.bf16
    assert all(kp.types.NDArray[dtype, 1].dtype == kp.bf16 for dtype in (ml_dtypes.bfloat16, torch.bfloat16))
    # Others of as many bytes are other types.
    with pytest.raises(kp.KernelTypeError, match="kernels know nothing"):
        doubled(array.view(np.dtype("V2")))


def test_kernels_do_not_write_what_autograd_tracks() -> None:
    tracked = torch.zeros(4, requires_grad=True)
    for tensor in (tracked, tracked * 2):
        with pytest.raises(TypeError, match="tracked by autograd") as caught:
            fill(tensor)
        assert "tensor.detach()" in str(caught.value)
    assert tracked.tolist() == [0] * 4
    fill(tracked.detach())
    assert tracked.tolist() == [3] * 4
    out = torch.zeros(4)
    copy(tracked, out)
    assert out.tolist() == [3] * 4, "reading is fine"


def test_kernels_refuse_signs_that_are_yet_to_be_taken() -> None:
    values = torch.tensor([1 + 2j, 3 - 4j])
    out = torch.zeros(2)
    plain = values.imag.contiguous()
    copy(plain, out)
    negative = values.conj().imag
    with pytest.raises(TypeError, match="negative bit"):
        copy(negative, out)
    copy(negative.resolve_neg().contiguous(), out)
    assert out.tolist() == [-2, 4]


def test_layouts_count_in_jit() -> None:
    compiled = []
    kernel = kp.jit(lambda x: x, compile=lambda spec: compiled.append(spec) or (lambda x: len(compiled)))
    tensor = torch.zeros(2, 3)
    for argument in (tensor, tensor.T, tensor[:, ::2], torch.ones(4, 5)):
        kernel(argument)
    assert [spec.arguments["x"].layout for spec in compiled] == ["C", "F", "S"]
    assert np.asarray(tensor).shape == (2, 3)


@kp.kernel
def increase(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] += 1


def test_tensors_that_mean_something_else_are_refused_whatever_came_before(monkeypatch, tmp_path):
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", str(tmp_path))
    plain = torch.zeros(4)
    increase(plain)
    assert plain.tolist() == [1] * 4
    for meant in (torch._neg_view(plain), torch.conj(torch.ones(4, dtype=torch.complex64)).imag):
        with pytest.raises(TypeError, match="negative bit"):
            increase(meant)
    increase(plain[1:3])
    assert plain.tolist() == [1, 2, 2, 1]
    increase(plain.detach())
    plain.requires_grad_()
    with pytest.raises(kp.KernelTypeError, match="autograd"):
        increase(plain)
    plain.requires_grad_(False)
    increase(plain)
    assert plain.tolist() == [3, 4, 4, 3]
    with torch.inference_mode():
        made = torch.zeros(2)
        increase(made)
        assert made.tolist() == [1, 1]
    with pytest.raises(TypeError, match="no memory"):
        increase(torch._efficientzerotensor((4,)))
