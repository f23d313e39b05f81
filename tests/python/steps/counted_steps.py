"""Steps that take note of their calls."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
import types
from typing import Any

import keyprint as kp

calls: list[Any] = []


def double(value: Any) -> Any:
    calls.append(value)
    return value * 2


@dataclasses.dataclass(frozen=True)
class Translate:
    factor: int = 2
    runtime: Any = dataclasses.field(default=None, metadata=kp.no_fingerprint())

    def __call__(self, value: int) -> int:
        calls.append(value)
        return value * self.factor


@dataclasses.dataclass
class Secretive:
    name: str
    password: str

    def __fingerprint__(self) -> Any:
        return kp.rule.leaf(self.name)


def module_of(source: str, name: str = "edited_module") -> types.ModuleType:
    """A module as it is after an edit: the same name, other source."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(textwrap.dedent(source), f"{name}.py", "exec"), module.__dict__)
    return module


def digest(source: str, name: str = "step") -> kp.Fingerprint:
    step = getattr(module_of(source), name)
    return kp.CachedStep(
        step() if isinstance(step, type) else step, input_key=kp.fingerprint
    ).step_fingerprint


def scaled(value: int, *rest: int, factor: int = 2, verbose: bool = False) -> int:
    calls.append(value)
    return (value + sum(rest)) * factor
