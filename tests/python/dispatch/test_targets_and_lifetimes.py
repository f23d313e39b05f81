"""Ordinary programs on the dispatcher, targets that change, and what outlives what."""

from __future__ import annotations

import gc
import importlib
import sys
import textwrap
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_kernels import Bag, counting, reads_config

import keyprint as kp

# -- Ordinary programs -----------------------------------------------------------------------------

ORDINARY = {
    "numpy functions": "import numpy as np\ndef f(x): return np.sum(x) + np.clip(x, 0, 1) + np.linalg.norm(x) + np.sin(x)\n",
    "numpy constants": "import numpy as np\nDT = np.dtype('f4')\nclass C:\n    dt = DT\ndef f(x): return x.astype(DT), C.dt, np.float32, np.pi\n",
    "array annotations": "import numpy as np\nimport numpy.typing as npt\ndef f(x: npt.NDArray[np.float32], y: 'npt.ArrayLike') -> npt.NDArray[np.float32]: return x\n",
    "int enums": "import enum\nclass M(enum.IntEnum):\n    A = 0\nclass F(enum.IntFlag):\n    B = 1\ndef f(x, m=M.A): return M.A + M(0) + M['A'] + F.B\n",
    "attribute dicts": "class A(dict):\n    __getattr__ = dict.__getitem__\n    __hash__ = object.__hash__\nCFG = A(n=1)\ndef f(x): return CFG.n\n",
    "forward references": "from typing import Optional, Tuple, Union\nclass A: pass\ndef f(x: Optional['A'], y: Tuple[int, 'A'], z: Union[int, 'A']): return x\n",
    "literals": "from typing import Literal\nimport cfg\ndef f(x: Literal['cfg', 'b']): return x\n",
    "optional modules": "try: import cfg\nexcept ImportError: cfg = None\ndef f(x):\n    if cfg is not None: return cfg.X\n",
    "locks": "import threading\nLOCK = threading.Lock()\ndef f(x):\n    with LOCK: return x\n",
    "the interpreter": "import sys\ndef f(x):\n    print(x, file=sys.stderr)\n    return sys.version_info, sys.float_info.eps\n",
    "loggers": "import logging\nlog = logging.getLogger(__name__)\ndef f(x):\n    log.debug('x')\n    return x\n",
    "random numbers": "import numpy as np\ndef f(x): return np.random.rand(3)\n",
    "context variables and type variables": "import typing\nT = typing.TypeVar('T')\nclass C(typing.Generic[T]):\n    def g(self, x: T) -> T: return x\ndef f(x: T) -> T: return C().g(x)\n",
    "protocols": "from typing import Protocol, NamedTuple\nclass P(Protocol):\n    def g(self) -> int: ...\nclass N(NamedTuple):\n    a: int = 1\ndef f(x: P, n: N = N()): return N(2)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_programs_have_keys(load: Any, name: str) -> None:
    m = load(ORDINARY[name], cfg="X = 1\n")
    assert kp.FunctionKey(m.f) == kp.FunctionKey(m.f)


def test_questions_about_members(load: Any) -> None:
    m = load(
        """
        def f(s):
            if s.grid is None: return 0
            s.out = 3
            return hasattr(s, 'zz'), getattr(s, 'ww', 3), s.n
        """
    )
    kernel = counting(m.f)
    assert kernel(Bag(grid=Bag(), n=1)) == 1
    assert kernel(Bag(grid=Bag(x=object()), n=1)) == 1
    assert kernel(Bag(grid=None, n=1)) == 2
    assert kernel(Bag(grid=Bag(), n=1, zz=2)) == 3
    assert kernel(Bag(grid=Bag(), n=1, ww=2)) == 4
    assert kernel(Bag(grid=Bag(), n=1, ww=4)) == 5
    assert kernel(Bag(grid=Bag(), n=1, zz=7)) == 3, "only whether it is there is asked"
    bag = Bag(grid=Bag(), n=1)
    assert kernel(bag) == 1
    bag.out = 3
    assert kernel(bag) == 6
    del bag.out
    assert kernel(bag) == 1


def test_members_behind_a_default(load: Any) -> None:
    m = load("def f(s):\n    c = getattr(s, 'cfg', None)\n    return c.n\n")
    kernel = counting(m.f)
    assert kernel(Bag()) == 1
    # Nothing tells what is read of it: all of it counts.
    assert kernel(Bag(cfg=Bag(n=1))) == 2
    assert kernel(Bag(cfg=Bag(n=1))) == 2
    assert kernel(Bag(cfg=Bag(n=2))) == 3
    assert kernel(Bag(cfg=1)) == 4
    assert kernel(Bag(cfg=2)) == 5


def test_memoised_properties_of_a_config(load: Any) -> None:
    m = load(
        """
        import functools
        class C:
            def __init__(self): self.n = 3
            @functools.cached_property
            def area(self): return self.n ** 2
        CFG = C()
        def f(x): return CFG.area
        """
    )
    kernel = kp.jit(m.f, compile=lambda s: lambda x: 1)
    kernel(1)
    assert m.CFG.area == 9
    assert kernel(1) == 1
    m.CFG.n = 4
    with pytest.raises(kp.DriftError):
        kernel(1)


def test_executables_are_not_kept_for_ever(load: Any) -> None:
    m = load("def f(s): return s.n\n")
    kernel = counting(m.f)
    for at in range(1100):
        kernel(Bag(n=at))
    assert len(kernel._dispatcher.compilation) == 1024


def test_compilers_that_launch_each_other() -> None:
    barrier = threading.Barrier(2)

    def compile(specialization: kp.Specialization) -> Any:
        if not getattr(local, "inside", False):
            local.inside = True
            barrier.wait(10)
            other = second if specialization.target == "first" else first
            assert other(1) == 1
        return lambda x: x

    local = threading.local()
    first = kp.jit(_reads_config_of, compile=compile, target="first")
    second = kp.jit(_reads_config_of, compile=compile, target="second")
    values: list[Any] = []
    threads = [threading.Thread(target=lambda k=k: values.append(k(1)), daemon=True) for k in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert values == [1, 1]


def _reads_config_of(x: Any) -> Any:
    return x


# -- Targets ---------------------------------------------------------------------------------------


def test_targets_of_all_kinds() -> None:
    for make in (
        lambda: kp.Target("a", device=0),
        lambda: {"arch": "a"},
        lambda: ["a"],
        lambda: ("a", frozenset(["avx"])),
        lambda: None,
        lambda: kp.Target({"arch": ["a"]}),
    ):
        kernel = counting(lambda x: x, target=make)
        assert [kernel(1), kernel(1)] == [1, 1]


def test_targets_that_change_in_place() -> None:
    target = {"arch": "a"}
    inside = ["a"]
    for given in (target, lambda: target):
        kernel = counting(lambda x: x, target=given)
        assert kernel(1) == 1
        target["arch"] = "b"
        assert kernel(1) == 2
        target["arch"] = "a"
        assert kernel(1) == 1
    for given in (kp.Target(inside), lambda: kp.Target(inside)):
        kernel = counting(lambda x: x, target=given)
        assert kernel(1) == 1
        inside.append("b")
        assert kernel(1) == 2
        inside.pop()
        assert kernel(1) == 1


def test_worlds_that_are_forgotten_while_something_is_compiled() -> None:
    target = [0]

    def compile(specialization: kp.Specialization) -> Any:
        if specialization.target == 0:
            for other in range(1, 30):
                target[0] = other
                kernel(1)
            target[0] = 0
            kernel.forget()
        return lambda x, own=specialization.target: own

    kernel = kp.jit(lambda x: x, compile=compile, target=lambda: target[0])
    assert kernel(1) == 0


# -- Lifetimes and threads -------------------------------------------------------------------------


def test_functions_that_come_as_arguments_are_not_kept() -> None:
    def make(at: int) -> Any:
        held = Bag(at=at)

        def g(x: Any) -> Any:
            return held

        return g, weakref.ref(held)

    kernel = counting(lambda fn: fn)
    dead = []
    for at in range(20):
        function, reference = make(at)
        assert kernel(function) == at + 1
        dead += [weakref.ref(function), reference]
    del function
    gc.collect()
    assert [ref() for ref in dead].count(None) == len(dead)


def test_bound_methods_that_come_as_arguments_are_not_kept() -> None:
    kernel = counting(lambda fn: fn)
    dead = []
    for _ in range(20):
        owner = Owner()
        kernel(owner.method)
        dead.append(weakref.ref(owner))
    del owner
    gc.collect()
    assert [ref() for ref in dead].count(None) == len(dead)


class Owner:
    def method(self) -> int:
        return 1


def test_imports_inside_functions_do_not_deadlock(load: Any, tmp_path: Path) -> None:
    (tmp_path / "lazily.py").write_text("import time, corner\ntime.sleep(0.2)\nN = 1\ncorner.KERNEL(1)\n")
    m = load("def f(x):\n    import lazily\n    return lazily.N\n")
    m.KERNEL = counting(m.f)
    threads = [
        threading.Thread(target=lambda: m.KERNEL(1), daemon=True),
        threading.Thread(target=lambda: importlib.import_module("lazily"), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    sys.modules.pop("lazily", None)


def test_kernels_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError, match="cannot create"):
        kp.Kernel()


def test_signatures_that_pull_the_rug(load: Any) -> None:
    """A signature replaces what other steps have looked at: nothing of it is used any more."""
    m = load("def f(s): return (s.grid.a, s.grid.x)\n")

    class Meddler:
        def __cache_signature__(self) -> Any:
            state.grid = Bag(a=self, x=np.zeros(3))
            return 1

    state = Bag(grid=None)
    state.grid = Bag(a=Meddler(), x=np.zeros(3))
    kernel = counting(m.f)
    assert [kernel(state) for _ in range(10)] == [1] * 10


def test_annotations_of_files_that_were_edited(load: Any, tmp_path: Path) -> None:
    m = load("def f(x: int):\n    y: int = x\n    return y\n")
    first = kp.FunctionKey(m.f)
    (tmp_path / "corner.py").write_text("def f(x: float):\n    y: int = x\n    return y\n")
    edited = kp.FunctionKey(m.f)
    reloaded = kp.FunctionKey(importlib.reload(m).f)
    assert len({first, edited, reloaded}) == 3
    kernel = counting(m.f)
    assert kernel(1) == 1
    m.f.__annotations__["x"] = complex
    assert kernel(1) == 2
    m.f.__annotations__ = {"x": float}
    assert kernel(1) == 1
    (tmp_path / "corner.py").write_text("def f(x: float):\n    y: complex = x\n    return y\n")
    assert kp.FunctionKey(importlib.reload(m).f) != reloaded


def test_annotations_of_locals_in_a_reloaded_module(load: Any, tmp_path: Path) -> None:
    """Byte code does not tell them apart, nor does a table that was read before."""
    m = load("import cfg\ndef f(x): return cfg.g(x)\n", cfg="def g(x):\n    y: int = x\n    return y\n")
    kernel = counting(m.f)
    assert kernel(1) == 1
    (tmp_path / "cfg.py").write_text("def g(x):\n    y: float = x\n    return y\n")
    importlib.reload(sys.modules["cfg"])
    assert kernel(1) == 2


def test_modules_imported_inside_are_watched(load: Any) -> None:
    m = load("def f(s):\n    import cfg\n    return cfg.X\n", cfg="X = 1\n")
    kernel = counting(m.f)
    assert kernel(1) == 1
    other = types.ModuleType("cfg")
    other.X = 2  # type: ignore[attr-defined]
    sys.modules["cfg"] = other
    assert kernel(1) == 2


def test_two_compilers_do_not_share(tmp_path: Path) -> None:
    store = kp.Store(tmp_path)
    outputs = []
    for compile in (lambda s: b"one", lambda s: b"two"):
        outputs.append(
            kp.jit(reads_config, compile=compile, load=lambda a: lambda s: a.data, store=store)(Bag(cfg=1))
        )
    assert outputs == [b"one", b"two"]


def test_the_order_of_hashes_does_not_show(load: Any, tmp_path: Path) -> None:
    import os
    import subprocess

    script = tmp_path / "ordered.py"
    script.write_text(
        textwrap.dedent(
            """
            import keyprint as kp
            class A:
                def aa(self): return self.p
                def bb(self): return self.q
            class B(A):
                def go(self):
                    s = super()
                    return s.aa() + s.bb()
            def f(s): return s.go()
            made = B()
            made.p, made.q = 1, 2
            kp.jit(f, compile=lambda s: print(s.key.hex()) or (lambda s: 1))(made)
            """
        )
    )
    keys = {
        subprocess.run(
            [sys.executable, str(script)], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in "1234"
    }  # fmt: skip
    assert len(keys) == 1
