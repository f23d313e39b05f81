"""What importing the package, and a warm start, load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

#: Modules that take longer to load than the package itself.
HEAVY = ("dataclasses", "inspect", "json", "numpy", "pathlib", "re", "typing")


def loaded_by(program: str, *arguments: str) -> set[str]:
    # Without `site`, which may load some of them itself; the package is found by its path.
    import keyprint

    path = str(Path(keyprint.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {path!r}); {program}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_loads_little() -> None:
    loaded = loaded_by("import keyprint")
    assert "keyprint._native" in loaded
    assert loaded & set(HEAVY) == set()


def test_a_warm_start_loads_little(tmp_path: Path) -> None:
    program = (
        "import keyprint as kp; store = kp.Store(sys.argv[1]); "
        "entry = store.get_or_build(kp.Key('k', {'a': 1}), lambda: b'x'); entry.load(); assert entry.how == sys.argv[2]"
    )
    loaded_by(program, str(tmp_path), "built")
    assert loaded_by(program, str(tmp_path), "disk") & set(HEAVY) == set()


def test_every_public_name_is_there() -> None:
    import keyprint

    assert all(hasattr(keyprint, name) for name in keyprint.__all__)
    assert set(keyprint.__all__) <= set(dir(keyprint))
    assert not hasattr(keyprint, "no_such_name")


def test_every_name_of_the_language_leads_somewhere() -> None:
    import keyprint
    from keyprint._native import _builtin_names
    from keyprint.language.builtin import BUILTINS
    from keyprint.language.names import NAMES

    assert all(getattr(keyprint, name) is not None for name in NAMES)
    # The compiler's list is the only one: what works outside of kernels is beside it.
    assert set(BUILTINS) <= set(_builtin_names())
    assert {name for name, (module, _) in NAMES.items() if module == "language.builtin"} >= set(BUILTINS)


KERNEL = """
import sys
import keyprint as kp


@kp.kernel
def scale(a: kp.f32, x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] *= a


x = kp.ndarray(kp.f32, 4)
scale(2.0, x)
print(scale.why(), *sys.modules, sep="\\n")
"""


def test_a_warm_kernel_loads_little(tmp_path: Path) -> None:
    import os

    import keyprint

    (tmp_path / "program.py").write_text(KERNEL)
    path = str(Path(keyprint.__file__).parent.parent)
    environment = {**os.environ, "KEYPRINT_CACHE_DIR": str(tmp_path / "store"), "PYTHONPATH": path}
    for how in ("miss: first compile", "hit: disk"):
        command = [sys.executable, "-S", str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        why, *loaded = done.stdout.splitlines()
        assert why == how
    assert set(loaded) & set(HEAVY) == set()
