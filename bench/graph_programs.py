"""The graphs that are measured, as text for Keyprint and for Quadrants, and for the C compiler."""

from __future__ import annotations

#: What goes through the tasks.
SIZE = 16

_TASK = """        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + {k}.0
"""

_TASKS = "".join(_TASK.format(k=k) for k in range(10))


def program(module: str, decorator: str, loop: str) -> str:
    """Return the programs of a language: how it is imported, and how it spells graphs and their loops."""
    tasks = _TASKS.replace("        for", "    for").replace("            x[", "        x[")
    singles = "".join(
        f"\n@L.kernel\ndef task{k}(x: A):\n    for i in range(x.shape[0]):\n        x[i] = x[i] * 0.5 + {k}.0\n"
        for k in range(10)
    )
    return f"""
import {module} as L

A = L.types.NDArray[L.f32, 1]
I = L.types.NDArray[L.i32, 0]


@L.kernel({decorator})
def ten(x: A):
{tasks}
{singles}

@L.kernel({decorator})
def turns(x: A, c: I):
    while {loop}(c):
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + 1.0
        for i in range(x.shape[0]):
            x[i] = x[i] * 0.5 + 2.0
        for i in range(1):
            c[()] = c[()] - 1
"""


C = """
void ten(float *x, long n) {
"""
for _k in range(10):
    C += f'  for (long i = 0; i < n; ++i) x[i] = x[i] * 0.5f + {_k}.0f;\n  __asm__ volatile("" ::: "memory");\n'
C += """}

/* Called often enough for the clock: what is measured is the tasks, not the call from Python. */
void tens(float *x, long n, long times) { for (long k = 0; k < times; ++k) ten(x, n); }

void turns(float *x, int *c, long n) {
  do {
    for (long i = 0; i < n; ++i) x[i] = x[i] * 0.5f + 1.0f;
    __asm__ volatile("" ::: "memory");
    for (long i = 0; i < n; ++i) x[i] = x[i] * 0.5f + 2.0f;
    __asm__ volatile("" ::: "memory");
    *c = *c - 1;
    __asm__ volatile("" ::: "memory");
  } while (*c != 0);
}
"""
