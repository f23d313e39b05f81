"""Kernels that return how often they were compiled, and objects to give them."""

from __future__ import annotations

from typing import Any

import keyprint as kp


def counting(function: Any, **options: Any) -> Any:
    compiled = []

    def compile(specialization: kp.Specialization) -> Any:
        compiled.append(specialization)
        number = len(compiled)
        return lambda *arguments, **keywords: number

    options.setdefault("on_drift", "rekey")
    return kp.jit(function, compile=compile, **options)


class Bag:
    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


def reads_config(s: Any) -> Any:
    return s.cfg
