"""Argument flows, followed: what functions read of their parameters is read of what is handed to them."""

from __future__ import annotations

import types

from ..fingerprints.kinds import is_a, module_of_class
from .access_paths import Reached
from .argument_flow import ArgumentFlow
from .entry import LONGEST_PATH
from .reads import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .entry import FunctionEntry, Where
    from .resolution import Resolver

__all__ = ["Flows"]


class Flows:
    """Hands on what functions read of their parameters."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        #: Values that are handed to parameters of functions: entry, parameter, label, value.
        self._bound: dict[tuple[int, int, int], tuple[FunctionEntry, int, str, Any]] = {}

    def bind(
        self, target: tuple[FunctionEntry, int] | None, slot: int, label: str, value: Any, where: Where
    ) -> None:
        """Take note that a parameter of a function receives a value that is known."""
        if target is not None and slot < len(target[0].uses):
            self._bound.setdefault((id(target[0]), slot, id(value)), (target[0], slot, label, value))

    def pass_on(self) -> bool:
        """Hand on what functions read of their parameters to whoever fills them; return whether that is news."""
        changed = False
        # Those that were reached last first: what they read goes all the way up the calls at once.
        for entry in reversed(list(self._resolver.entries.values())):
            for flow in list(entry.argument_flows):
                root, path, where = flow.root, flow.path, entry.where(flow.line)
                if flow.is_to_parameter:
                    # Which function that is depends on the argument.
                    if not flow.is_of_parameter:
                        changed |= self._pass(entry, root, path, "whole", where)
                    continue
                reached = self._resolver.access_paths.reach(entry, flow.callee, flow.callee_path, where)
                if reached.value is isinstance and flow.slot == 0 and self._only_types(entry, flow):
                    changed |= self._pass(entry, root, path, "class", where)
                    continue
                target = self._resolver.target(reached)
                parameter = None if target is None else target[0].slot(flow.slot, target[1])
                if target is None or parameter is None:
                    changed |= self._pass(entry, root, path, "whole", where)
                    continue
                for (more, how), _ in list(target[0].uses[parameter].items()):
                    changed |= self._pass(entry, root, path + more, how, where)
                changed |= self._pass_through(entry, flow, target, parameter)
        for target_entry, parameter, label, value in list(self._bound.values()):
            for (path, how), where in effective(target_entry, parameter).items():
                key = (label, id(value), path, how)
                if key not in self._resolver.followed:
                    self._resolver.followed.add(key)
                    changed = True
                    start = Reached("value", label, value)
                    if how in ("super", "super whole"):
                        self._behind(start, path, how, where)
                    else:
                        self._resolver.add(self._resolver.access_paths.walk(start, path, where), how, where)
        return changed

    def _only_types(self, entry: FunctionEntry, flow: ArgumentFlow) -> bool:
        """Whether a call of `isinstance` asks for nothing but the type of an object."""
        given = [other for other in entry.argument_flows if other.call == flow.call and other.slot == 1]
        if not given:
            return False
        for other in given:
            if other.is_of_parameter:
                return False
            where = entry.where(other.line)
            classes = self._resolver.access_paths.reach(entry, other.root, other.path, where).value
            for cls in classes if isinstance(classes, tuple) else (classes,):
                if not isinstance(cls, type) or getattr(cls, "_is_protocol", False):
                    return False
                check = type(cls).__instancecheck__
                if check is not type.__instancecheck__ and type(cls).__module__ != "abc":
                    return False
        return True

    def _pass(
        self, entry: FunctionEntry, root: tuple[str, Any], path: tuple[str, ...], how: str, where: Where
    ) -> bool:
        if root[0] == "parameter":
            return root[1] < len(entry.uses) and entry.read(root[1], path, how, where)
        return self._follow(entry, root, path, how, where)

    def _pass_through(
        self, entry: FunctionEntry, flow: ArgumentFlow, target: tuple[FunctionEntry, int], parameter: int
    ) -> bool:
        """Hand on what a function gives to another that it received as an argument, or found on one."""
        root, where = flow.root, entry.where(flow.line)
        changed = False
        for inner in list(target[0].argument_flows):
            if inner.root != ("parameter", parameter) or not inner.is_to_parameter:
                continue
            path = flow.path + inner.path
            # What the caller gave for the function that is called.
            given = [
                other
                for other in entry.argument_flows
                if other.call == flow.call
                and (other.callee, other.callee_path) == (flow.callee, flow.callee_path)
                and target[0].slot(other.slot, target[1]) == inner.callee[1]
            ]
            if not given:
                changed |= self._pass(entry, root, path, "whole", where)
            for other in given:
                function = (other.root, other.path + inner.callee_path)
                if other.is_of_parameter:
                    derived = ArgumentFlow(root, path, *function, inner.slot, flow.line, flow.call)
                    if flow.is_of_parameter and len(path) <= LONGEST_PATH:
                        if derived not in entry.argument_flows:
                            entry.argument_flows.append(derived)
                            changed = True
                    else:
                        changed |= self._pass(entry, root, path, "whole", where)
                    continue
                reached = self._resolver.target(self._resolver.access_paths.reach(entry, *function, where))
                place = None if reached is None else reached[0].slot(inner.slot, reached[1])
                if reached is None or place is None:
                    changed |= self._pass(entry, root, path, "whole", where)
                    continue
                for (more, how), _ in list(reached[0].uses[place].items()):
                    changed |= self._pass(entry, root, path + more, how, where)
        return changed

    def _behind(self, start: Reached, path: tuple[str, ...], how: str, where: Where) -> None:
        """Follow what `super()` may find: every definition of a method in the hierarchy of an object."""
        names = path[-1:] if how == "super" else None
        owner = self._resolver.access_paths.walk(start, path[:-1] if names else path, where)
        if owner.state != "value" or is_a(owner.value, types.ModuleType):
            self._resolver.add(owner, "whole", where)
            return
        value = owner.value
        cls = value if is_a(value, type) else type(value)
        if not self._resolver.guards.type(cls):
            self._resolver.access_paths.rechecks.append(lambda: False)
        for base in cls.__mro__:
            for name, attribute in vars(base).items():
                if names is not None and name not in names:
                    continue
                inner = getattr(attribute, "__func__", attribute)
                label = f"{owner.label}.{name} of {module_of_class(base)}.{base.__qualname__}"
                if is_a(inner, types.FunctionType):
                    is_static = is_a(attribute, staticmethod)
                    bound = None if is_static else value
                    self._resolver.add(Reached("value", label, inner, bound, owner.label), "called", where)
                elif is_a(attribute, property):
                    for accessor in (attribute.fget, attribute.fset, attribute.fdel):
                        if isinstance(accessor, types.FunctionType):
                            reached = Reached("value", label, accessor, value, owner.label)
                            self._resolver.add(reached, "called", where)
                elif names is not None:
                    self._resolver.add(Reached("value", label, attribute), "whole", where)

    def _follow(
        self, entry: FunctionEntry, root: tuple[str, Any], path: tuple[str, ...], how: str, where: Where
    ) -> bool:
        if len(path) > LONGEST_PATH:
            path, how = path[:LONGEST_PATH], "whole"
        key = (id(entry), root, path, how)
        if key in self._resolver.followed:
            return False
        self._resolver.followed.add(key)
        self._resolver.add(self._resolver.access_paths.reach(entry, root, path, where), how, where)
        return True

    def forget(self) -> None:
        """Forget the values that were handed on: they must not be kept alive."""
        self._bound.clear()
