"""A ray marcher: spheres above a plane, with shadows and reflections, found by walking along rays.

python examples/ray_marcher.py [width]
"""

from __future__ import annotations

import sys

import numpy as np
import picture
import place  # noqa: F401 (it takes `--cuda`)

import keyprint as kp

vec3 = kp.math.vec3
LIGHT = kp.Vector([0.6, 0.7, -0.5]).normalized()
FAR = 30.0


@kp.func
def scene(p):
    """Return how far the nearest surface is, and which it is."""
    distance = p.y + 1.0
    which = 0
    for k in kp.static(range(4)):
        centre = vec3(1.4 * k - 2.1, -0.45 + 0.35 * (k % 2), 0.7 * (k % 3))
        to_sphere = (p - centre).norm() - (0.55 + 0.05 * k)
        if to_sphere < distance:
            distance = to_sphere
            which = k + 1
    return distance, which


@kp.func
def march(origin, direction):
    """Return how far a ray goes, and what it hits; 0 is the plane, -1 nothing."""
    far = 0.02
    hit = -1
    for _ in range(120):
        distance, which = scene(origin + far * direction)
        if distance < 1e-3:
            hit = which
            break
        far += distance
        if far > FAR:
            break
    return far, hit


@kp.func
def normal(p):
    e = 1e-3
    here, _ = scene(p)
    x, _ = scene(p + vec3(e, 0.0, 0.0))
    y, _ = scene(p + vec3(0.0, e, 0.0))
    z, _ = scene(p + vec3(0.0, 0.0, e))
    return vec3(x - here, y - here, z - here).normalized()


@kp.func
def sky(direction):
    return kp.math.mix(vec3(0.9, 0.95, 1.0), vec3(0.25, 0.45, 0.8), kp.max(direction.y, 0.0))


@kp.func
def surface(p, n, which):
    """Return the colour of a surface in its light."""
    colour = vec3(0.8, 0.35, 0.3)
    if which == 0:
        dark = (kp.floor(p.x) + kp.floor(p.z)) % 2.0 == 0.0
        colour = vec3(0.25) if dark else vec3(0.85)
    elif which % 2 == 0:
        colour = vec3(0.3, 0.55, 0.85)
    shade = kp.max(n.dot(LIGHT), 0.0)
    _, blocker = march(p + n * 5e-3, LIGHT)
    if blocker >= 0:
        shade *= 0.15
    return colour * (0.2 + 0.8 * shade)


@kp.kernel
def render(image: kp.types.NDArray[vec3, 2]):
    height, width = image.shape
    for i, j in image:
        origin = vec3(0.0, 0.4, -4.2)
        direction = vec3((j - width / 2) / height, (height / 2 - i) / height, 1.1).normalized()
        colour = vec3(0.0)
        strength = 1.0
        for bounce in range(3):
            far, which = march(origin, direction)
            if which < 0:
                colour += strength * sky(direction)
                break
            p = origin + far * direction
            n = normal(p)
            mirror = 0.12 if which == 0 else 0.35
            colour += strength * (1.0 - mirror) * surface(p, n, which)
            strength *= mirror
            direction = kp.math.reflect(direction, n)
            origin = p + n * 5e-3
        image[i, j] = colour


def run(width: int) -> np.ndarray:
    """Return a picture, 3 floats for each point."""
    image = kp.ndarray(vec3, (width * 9 // 16, width))
    render(image)
    return image.to_numpy()


if __name__ == "__main__":
    width = int([*sys.argv[1:], "960"][0])
    image = run(width)
    picture.write("ray_marcher.png", (np.clip(image, 0, 1) ** 0.45 * 255).astype(np.uint8))
    print(f"{image.shape[1]}x{image.shape[0]} rays: mean brightness {image.mean():.3f}; see ray_marcher.png")
