"""A compiler that counts."""

from __future__ import annotations

from typing import Any

import keyprint as kp


class Recorder:
    """Compiles by counting, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.made: list[kp.Specialization] = []

    def __call__(self, specialization: kp.Specialization) -> Any:
        self.made.append(specialization)
        number = len(self.made)
        return lambda *arguments, **keywords: number
