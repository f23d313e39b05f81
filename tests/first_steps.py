"""What somebody tries first who has just installed Keyprint, and nothing else: no NumPy, no Rust."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import shutil
import sys

import keyprint as kp

assert "site-packages" in kp.__file__, kp.__file__
assert kp.__version__ == importlib.metadata.version("keyprint")
assert importlib.resources.files("keyprint").joinpath("py.typed").is_file()
assert kp.fingerprint({"a": [1, 2.0], "b": {"x"}}).hex() == kp.fingerprint({"b": {"x"}, "a": [1, 2.0]}).hex()

store = kp.Store()
key = kp.Key("first", {"n": 1})
assert store.get_or_build(key, lambda: (b"bytes", {"how": "built"})).metadata == {"how": "built"}
assert store.get(key).data == b"bytes"


@kp.kernel
def double(x: kp.types.NDArray[kp.f32, 1]):
    for i in x:
        x[i] *= 2


if shutil.which("cc"):
    x = kp.ndarray(kp.f32, 3)
    x.fill(4)
    double(x)
    assert [x[at] for at in range(3)] == [8, 8, 8], double.why()
assert "numpy" not in sys.modules
print(f"keyprint {kp.__version__} on Python {sys.version.split()[0]}: works")
