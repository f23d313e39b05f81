"""Kernels in forked children, and what is left of them when nothing refers to them."""

from __future__ import annotations

import pytest
from programs import start

FORKS = """
import os, threading
import numpy as np
import keyprint as kp

TERMS = 200
begun = threading.Event()

@kp.kernel
def slow_to_compile(x: kp.types.NDArray[kp.f64, 1], n: kp.template()):
    for i in x:
        for k in kp.static(range(n)):
            x[i] += kp.sin(x[i] * k) + kp.cos(x[i] + k)

def compile_it(n):
    begun.set()
    slow_to_compile(np.zeros(3), n)

status = []
for n in (8, 16, 24):
    begun.clear()
    thread = threading.Thread(target=compile_it, args=(n,))
    thread.start()
    begun.wait()
    # The child has none of the threads, and must not wait for one.
    for wait in (0, 0.02, 0.1):
        thread.join(wait)
        child = os.fork()
        if child == 0:
            x = np.zeros(3)
            slow_to_compile(x, n)
            os._exit(0 if x[0] != 0 else 3)
        status.append(os.waitpid(child, 0)[1])
    thread.join()
print(status)
"""


@pytest.mark.parametrize("cache", ["True", "False"])
def test_a_child_that_is_forked_while_a_thread_compiles(tmp_path, cache):
    program = FORKS.replace("TERMS = 200", f"kp.init(offline_cache={cache})")
    done = start(tmp_path, program)
    assert (done.returncode, done.stdout) == (0, f"{[0] * 9}\n"), done.stderr


DEFINED_AGAIN = """
import gc, os, resource, weakref
import numpy as np
import keyprint as kp

kp.init(offline_cache=CACHE)
N = kp.types.NDArray

def make(n):
    @kp.kernel
    def k(x: N[kp.f64, 1]):
        for i in x:
            x[i] += n
    return k

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def mapped():
    with open("/proc/self/maps") as file:
        return len({line.split()[4] for line in file if "memfd:keyprint" in line})

make(0)(np.zeros(1))
before = descriptors()
resource.setrlimit(resource.RLIMIT_NOFILE, (before + 24, before + 24))
found = []
for n in range(120):
    k = make(n)
    x = np.zeros(2)
    k(x)
    assert x[0] == n
    found.append(weakref.ref(k))
many = descriptors()
del k
gc.collect()
alive = sum(one() is not None for one in found)
print(many - before, alive, mapped() <= 2)
"""


@pytest.mark.parametrize("cache", ["True", "False"])
def test_kernels_that_nothing_can_run_leave_nothing(tmp_path, cache):
    done = start(tmp_path, DEFINED_AGAIN.replace("CACHE", cache))
    assert (done.returncode, done.stdout) == (0, "0 0 True\n"), done.stderr


STILL_RUNS = """
import gc, threading, time
import numpy as np
import keyprint as kp

kp.init(offline_cache=False)

def make():
    @kp.kernel
    def k(x: kp.types.NDArray[kp.f64, 1]):
        for i in x:
            while x[i] < 20_000_000:
                x[i] += 1
    return k

# The kernel goes while its code runs, on this thread and on others.
x = np.zeros(4)
kernels = [make()]
kernels[0](np.full(4, 1e9))
thread = threading.Thread(target=lambda: kernels.pop()(x))
thread.start()
while kernels:
    time.sleep(0.001)
gc.collect()
make()(np.full(4, 1e9))
thread.join()
print(x.tolist())
"""


def test_code_that_runs_stays(tmp_path):
    done = start(tmp_path, STILL_RUNS)
    assert (done.returncode, done.stdout) == (0, f"{[20_000_000.0] * 4}\n"), done.stderr


ASSERTIONS = """
import numpy as np
import pytest
import keyprint as kp

def helper(x):
    assert x >= 0, f"negative: {x}"
    return x + 1

@kp.kernel
def k(x: kp.types.NDArray[kp.f32, 1], n: kp.i32):
    for i in x:
        assert n > 0, "nothing"
        x[i] += helper(n)

def test_it():
    x = np.zeros(4, np.float32)
    k(x, 2)
    assert x.tolist() == [3] * 4

def test_debug():
    kp.init(debug=True)
    with pytest.raises(kp.KernelAssertionError, match="nothing"):
        k(np.zeros(2, np.float32), 0)
    kp.reset()

def step(x):
    assert x
    return helper(x)

def test_a_step():
    assert kp.cached(step)(1) == 2
    key = kp.FunctionKey(step).fingerprint.hex()
    import pathlib, subprocess, sys
    code = "import test_assertions, keyprint as kp; print(kp.FunctionKey(test_assertions.step).fingerprint.hex())"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The same function, rewritten or not.
    assert plain.stdout.strip() == key
"""


@pytest.mark.parametrize("options", [[], ["-o", "enable_assertion_pass_hook=true"], ["--assert=plain"]])
def test_kernels_under_pytests_rewriting(tmp_path, options):
    (tmp_path / "test_assertions.py").write_text(ASSERTIONS)
    program = "import pytest, sys\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]]))\n"
    done = start(tmp_path, program, *options)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
