"""Vectors and matrices, in kernels and outside."""

from __future__ import annotations

import numpy as np
import pytest

import keyprint as kp

vec2, vec3, vec4 = (kp.types.vector(n, kp.f64) for n in (2, 3, 4))
mat2, mat3, mat4 = (kp.types.matrix(n, n, kp.f64) for n in (2, 3, 4))
Vectors = kp.types.NDArray[vec3, 1]
Numbers = kp.types.NDArray[kp.f64, 2]

rng = np.random.default_rng(7)


@kp.kernel
def vectors(a: Vectors, b: Vectors, out: Numbers, more: Vectors):
    for i in a:
        x, y = a[i], b[i]
        more[0] = x + y
        out[i, 0] = x.dot(y)
        out[i, 1] = x.norm()
        out[i, 2] = x.norm_sqr()
        out[i, 3] = x.sum()
        out[i, 4] = x.min()
        out[i, 5] = x.max()
        out[i, 6] = (x - y).x
        out[i, 7] = (x * y)[1]
        out[i, 8] = (2.0 * x / y).z
        out[i, 9] = x.cross(y).dot(x)
        out[i, 10] = x.zyx.dot(y)
        out[i, 11] = x.xy.norm()
        out[i, 12] = (-x).x
        out[i, 13] = x.normalized().norm()
        out[i, 14] = kp.max(x, y).sum()
        out[i, 15] = kp.sin(x).y
        out[i, 16] = (x > 0).any()
        out[i, 17] = (x > 0).all()
        out[i, 18] = kp.dot(x, y) + kp.cross(x, y).z
        out[i, 19] = len(x)
        more[i] = x.cross(y)


def test_vectors():
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    out, more = np.zeros((6, 20)), np.zeros((6, 3))
    vectors(a, b, out, more)
    cross = np.cross(a, b)
    expected = [
        *((a * b).sum(1), np.linalg.norm(a, axis=1), (a * a).sum(1), a.sum(1), a.min(1), a.max(1)),
        *((a - b)[:, 0], (a * b)[:, 1], (2 * a / b)[:, 2], (cross * a).sum(1), (a[:, ::-1] * b).sum(1)),
        *(np.linalg.norm(a[:, :2], axis=1), -a[:, 0], np.ones(6), np.maximum(a, b).sum(1), np.sin(a)[:, 1]),
        *((a > 0).any(1), (a > 0).all(1), (a * b).sum(1) + cross[:, 2], np.full(6, 3)),
    ]
    for column, wanted in enumerate(expected):
        np.testing.assert_allclose(out[:, column], wanted, rtol=1e-12, atol=1e-12, err_msg=str(column))
    np.testing.assert_allclose(more[1:], cross[1:])


@kp.kernel
def matrices(m: kp.types.NDArray[mat3, 1], v: Vectors, products: kp.types.NDArray[mat3, 1], out: Numbers):
    for i in m:
        a = m[i]
        products[i] = a @ a.transpose() + kp.Matrix.identity(kp.f64, 3) * 2
        w = a @ v[i]
        out[i, 0] = w.sum()
        out[i, 1] = a.determinant()
        out[i, 2] = a.trace()
        inverse = a.inverse()
        out[i, 3] = (inverse @ a - kp.Matrix.identity(kp.f64, 3)).norm()
        out[i, 4] = a[1, 2]
        out[i, 5] = a[2, :1] if kp.static(False) else a[2][1]
        out[i, 6] = v[i].outer_product(v[i])[0, 1]
        out[i, 7] = (v[i] @ a).z
        b = a
        b[0, 0] = 100.0
        b[1, 1] += 1.0
        out[i, 8] = b.trace() - a.trace()


def test_matrices():
    m, v = rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 3))
    products, out = np.zeros_like(m), np.zeros((5, 9))
    matrices(m, v, products, out)
    np.testing.assert_allclose(products, m @ m.transpose(0, 2, 1) + 2 * np.eye(3), rtol=1e-12)
    expected = [
        *(
            (m @ v[:, :, None]).sum((1, 2)),
            np.linalg.det(m),
            np.trace(m, axis1=1, axis2=2),
            np.zeros(5),
            m[:, 1, 2],
        ),
        *(m[:, 2, 1], v[:, 0] * v[:, 1], (v[:, None, :] @ m)[:, 0, 2], 100 - m[:, 0, 0] + 1),
    ]
    for column, wanted in enumerate(expected):
        np.testing.assert_allclose(out[:, column], wanted, rtol=1e-9, atol=1e-9, err_msg=str(column))


@kp.kernel
def inverses(
    a: kp.types.NDArray[mat2, 1],
    b: kp.types.NDArray[mat4, 1],
    c: kp.types.NDArray[mat2, 1],
    d: kp.types.NDArray[mat4, 1],
):
    for i in a:
        c[i] = a[i].inverse()
        d[i] = b[i].inverse()


def test_inverses_of_other_sizes():
    a, b = rng.normal(size=(4, 2, 2)), rng.normal(size=(4, 4, 4))
    c, d = np.zeros_like(a), np.zeros_like(b)
    inverses(a, b, c, d)
    np.testing.assert_allclose(c, np.linalg.inv(a), rtol=1e-9)
    np.testing.assert_allclose(d, np.linalg.inv(b), rtol=1e-8)


@kp.kernel
def indexing(out: kp.types.NDArray[kp.i32, 1], n: kp.i32):
    for i in range(1):
        v = kp.Vector([10, 20, 30, 40])
        for k in range(4):
            out[k] = v[k]
        v[n] = 5
        v.x += 1
        v[3] *= 2
        out[4] = v.sum()
        m = kp.Matrix([[1, 2], [3, 4]])
        m[n - 1, 0] = 9
        out[5] = m[0, 0] * 1000 + m[0, 1] * 100 + m[1, 0] * 10 + m[1, 1]
        out[6] = (v + v)[n]
        out[7] = v[-1]
        w = kp.Vector([v.y, v.x])
        w = kp.Vector([w.y, w.x])
        out[8] = w.x * 100 + w.y
        w.fill(3)
        out[9] = w.sum()
        a, b = w
        out[10] = a + b
        out[11] = kp.Vector([1, 2]).dot(kp.Vector([3, 4]))


def test_indexing_of_variables():
    out = np.zeros(12, np.int32)
    indexing(out, 2)
    assert out.tolist() == [10, 20, 30, 40, 11 + 20 + 5 + 80, 1294, 10, 80, 1100 + 20 + 1000 * 0, 6, 6, 11]


@kp.kernel
def builders(out: Numbers):
    for i in range(1):
        out[0, 0] = kp.Vector.zero(kp.f64, 3).sum() + kp.Vector.one(kp.f64, 3).sum()
        out[0, 1] = kp.Vector.unit(3, 1).y
        out[0, 2] = vec3(2.0).sum()
        out[0, 3] = vec3(1.0, 2.0, 3.0).z
        out[0, 4] = vec3(vec2(1.0, 2.0), 3.0).y
        out[0, 5] = mat2(1.0, 2.0, 3.0, 4.0)[1, 0]
        out[0, 6] = kp.Matrix.zero(kp.f64, 2, 2).sum()
        out[0, 7] = kp.Matrix([[1.0, 2.0], [3.0, 4.0]]).transpose()[0, 1]
        out[0, 8] = kp.Vector([1.0, 2.0], dt=kp.f64).y
        out[0, 9] = vec3([4.0, 5.0, 6.0]).x


def test_builders():
    out = np.zeros((1, 10))
    builders(out)
    assert out[0].tolist() == [3, 1, 6, 3, 2, 3, 0, 3, 2, 4]


@kp.kernel
def elements(x: kp.types.NDArray[vec3, 2], out: kp.types.NDArray[kp.f64, 1], k: kp.i32):
    for i, j in x:
        x[i, j] = kp.Vector([i, j, i + j])
        x[i, j][1] += 10.0
        x[i, j].z *= 2.0
    for i in range(1):
        out[0] = x[1, 2][k]
        x[0, 0] = 1.5
        x[0, 1].xy = kp.Vector([7.0, 8.0])
        out[1] = x[0, 1].x + x[0, 1].y


@pytest.mark.parametrize("own", [pytest.param(True, marks=pytest.mark.cpu), False])
def test_elements_of_arrays(own):
    x = kp.ndarray(vec3, (2, 3)) if own else np.zeros((2, 3, 3))
    out = np.zeros(2)
    elements(x, out, 1)
    wanted = np.array([[[i, j + 10, (i + j) * 2] for j in range(3)] for i in range(2)], float)
    assert out.tolist() == [12.0, 15.0]
    wanted[0, 0] = 1.5
    wanted[0, 1, :2] = 7, 8
    actual = x.to_numpy() if own else x
    assert np.array_equal(actual, wanted)


@kp.kernel
def takes(v: kp.types.vector(3, kp.f32), m: kp.types.matrix(2, 2, kp.f32)) -> kp.f32:
    return v.x + 10 * v.y + 100 * v.z + 1000 * m[1, 0]


def test_vectors_as_arguments():
    assert takes(kp.Vector([1.0, 2.0, 3.0]), kp.Matrix([[1.0, 2.0], [3.0, 4.0]])) == 3321.0
    assert takes((1, 2, 3), ((1, 2), (4, 5))) == 4321.0
    assert takes(kp.Vector([1.0, 2.0, 4.0]), kp.Matrix([[1.0, 2.0], [3.0, 4.0]])) == 3421.0
    assert takes.observations.compiled <= 2
    with pytest.raises(kp.KernelTypeError, match="has 3 numbers, found 2"):
        takes((1, 2), ((1, 2), (4, 5)))


def test_outside_of_kernels():
    v = kp.Vector([1.0, 2.0, 3.0])
    assert (v + 1).to_list() == [2, 3, 4]
    assert (2 * v - v).to_list() == [1, 2, 3]
    assert v.dot(v) == 14 and v.norm() == pytest.approx(14**0.5)
    assert v.cross(kp.Vector([0.0, 1.0, 0.0])).to_list() == [-3, 0, 1]
    assert v.xz.to_list() == [1, 3] and v.y == 2
    v.x = 5
    v[2] = 7
    assert v.to_list() == [5, 2, 7] and v == kp.Vector([5.0, 2.0, 7.0]) and v != kp.Vector([5.0, 2.0, 8.0])
    m = kp.Matrix([[1.0, 2.0], [3.0, 4.0]])
    assert (m @ m).to_list() == [[7, 10], [15, 22]]
    assert m.determinant() == -2 and m.trace() == 5 and m.transpose()[0, 1] == 3
    np.testing.assert_allclose((m.inverse() @ m).to_numpy(), np.eye(2), atol=1e-6)
    assert np.array_equal(np.array(m), [[1, 2], [3, 4]])
    with pytest.raises(IndexError):
        v[3]
    with pytest.raises(ValueError):
        v + kp.Vector([1.0])
