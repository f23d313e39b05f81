"""The kernels that the benchmarks on a GPU run."""

from __future__ import annotations

import keyprint as kp

NAMES = [f"a{at}" for at in range(30)]


@kp.kernel
def tiny(x: kp.types.NDArray[kp.f32, 1]):
    for _ in range(1):
        x[0] += 1.0


@kp.kernel
def tiny_four(
    a: kp.types.NDArray[kp.f32, 1],
    b: kp.types.NDArray[kp.f32, 1],
    c: kp.types.NDArray[kp.f32, 1],
    d: kp.types.NDArray[kp.f32, 1],
):
    for _ in range(1):
        a[0] = b[0] + c[0] + d[0]


@kp.data_oriented
class Thirty:
    """An object of thirty arrays, all of which its kernel reads."""

    def __init__(self) -> None:
        for name in NAMES:
            setattr(self, name, kp.ndarray(kp.f32, 4, device="cuda"))

    @kp.kernel
    def run(self):
        for _ in range(1):
            self.a0[0] = (
                self.a1[0] + self.a2[0] + self.a3[0] + self.a4[0] + self.a5[0] + self.a6[0] + self.a7[0]
                + self.a8[0] + self.a9[0] + self.a10[0] + self.a11[0] + self.a12[0] + self.a13[0] + self.a14[0]
                + self.a15[0] + self.a16[0] + self.a17[0] + self.a18[0] + self.a19[0] + self.a20[0] + self.a21[0]
                + self.a22[0] + self.a23[0] + self.a24[0] + self.a25[0] + self.a26[0] + self.a27[0] + self.a28[0]
                + self.a29[0]
            )  # fmt: skip


@kp.kernel
def saxpy(a: kp.f32, x: kp.types.NDArray[kp.f32, 1], y: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        y[i] = a * x[i] + y[i]


@kp.kernel
def stencil(a: kp.types.NDArray[kp.f32, 2], b: kp.types.NDArray[kp.f32, 2]):
    for i, j in kp.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
        b[i, j] = 0.5 * a[i, j] + 0.125 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@kp.kernel
def mandelbrot(out: kp.types.NDArray[kp.i32, 2], most: kp.i32):
    for i, j in out:
        n = kp.f32(out.shape[0])
        cx = -2.0 + 2.5 * kp.f32(j) / n
        cy = -1.25 + 2.5 * kp.f32(i) / n
        x = 0.0
        y = 0.0
        k = 0
        while k < most:
            xx = x * x
            yy = y * y
            if xx + yy > 4.0:
                break
            y = 2.0 * x * y + cy
            x = xx - yy + cx
            k += 1
        out[i, j] = k


@kp.kernel
def nbody(
    px: kp.types.NDArray[kp.f32, 1],
    py: kp.types.NDArray[kp.f32, 1],
    pz: kp.types.NDArray[kp.f32, 1],
    m: kp.types.NDArray[kp.f32, 1],
    ax: kp.types.NDArray[kp.f32, 1],
    ay: kp.types.NDArray[kp.f32, 1],
    az: kp.types.NDArray[kp.f32, 1],
):
    for i in px:
        sx = 0.0
        sy = 0.0
        sz = 0.0
        for j in range(px.shape[0]):
            dx = px[j] - px[i]
            dy = py[j] - py[i]
            dz = pz[j] - pz[i]
            inv = 1.0 / kp.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            w = m[j] * inv * inv * inv
            sx += w * dx
            sy += w * dy
            sz += w * dz
        ax[i] = sx
        ay[i] = sy
        az[i] = sz


@kp.kernel
def total(x: kp.types.NDArray[kp.f32, 1], out: kp.types.NDArray[kp.f32, 0]):
    for i in x:
        out[None] += x[i]


@kp.kernel
def histogram(x: kp.types.NDArray[kp.i32, 1], bins: kp.types.NDArray[kp.i32, 1]):
    for i in x:
        bins[x[i]] += 1


@kp.kernel
def matmul(a: kp.types.NDArray[kp.f32, 2], b: kp.types.NDArray[kp.f32, 2], c: kp.types.NDArray[kp.f32, 2]):
    for i, j in c:
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s
