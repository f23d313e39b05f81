"""What the C compiler is told, by what it makes of it."""

from __future__ import annotations

import pytest

import keyprint as kp
from keyprint.language.compile.toolchain import compile_c
from keyprint.language.settings import TARGET

pytestmark = pytest.mark.cpu

ROOT = '__attribute__((visibility("default"))) float f(float x) { return __builtin_sqrtf(x); }\n'


@pytest.mark.parametrize("settings", [{}, {"fast_math": True}, {"contract": True}, {"debug": True}])
def test_square_roots_are_instructions(settings):
    kp.init(**settings)
    TARGET.fill()
    _, _, compiler, flags, _ = TARGET.state["value"]
    # A call would be there for the sake of `errno`, and keep loops from being done several at a time.
    assert b"sqrtf" not in compile_c(ROOT, compiler, flags)
