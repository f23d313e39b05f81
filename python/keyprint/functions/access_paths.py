"""Access paths (`sim.grid.dx`): what they lead to, read through guards.

`config.sizes.TILE` is looked up as Python would, without running any code: in the globals of a function, in
modules, classes and instances. Where only code could tell, the path ends early, and all of what it has
reached counts.
"""

from __future__ import annotations

import sys
import types

from .._native import fingerprint
from ..errors import FingerprintError
from ..fingerprints.kinds import is_a
from .dynamic_access import dynamic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from .._native import Guards
    from .entry import FunctionEntry, Where

__all__ = [
    "HEAP_TYPE",
    "WRAPPER_TYPES",
    "AccessPaths",
    "Reached",
    "function_of",
    "is_slot",
    "keeps_members",
    "lookup",
    "sets_members",
]

#: `Py_TPFLAGS_HEAPTYPE`: the class was made by Python code, so its instances keep attributes as usual.
HEAP_TYPE: Final = 1 << 9

_ABSENT: Final = ("absent",)

#: Where compilers of other packages keep the function that they compile. What they make of it, their pickles
#: included, may hold random numbers.
_WRAPPERS: Final = {"numba": "py_func", "triton": "fn", "jax": "__wrapped__", "jaxlib": "__wrapped__"}

#: The types of what they make.
WRAPPER_TYPES: Final = (
    ("numba.core.dispatcher", "Dispatcher"),
    ("triton.runtime.jit", "JITFunction"),
    ("jaxlib._jax", "PjitFunction"),
)


class Reached:
    """What an access path leads to.

    ``state`` is ``value``; ``absent`` if a name is not there; ``whole`` if the last members could not be
    told without running code, so that all of what is before them counts.
    """

    __slots__ = ("holder", "is_early", "label", "name", "owner", "owner_label", "state", "value")

    def __init__(
        self, state: str, label: str, value: Any = None, owner: Any = None, owner_label: str = ""
    ) -> None:
        self.state = state
        self.label = label
        self.value = value
        #: What a method was found on: its first argument.
        self.owner = owner
        self.owner_label = owner_label
        #: What the last member is a member of, and what that member is called.
        self.holder: Any = None
        self.name = ""
        #: Whether members were left that could not be followed.
        self.is_early = False


class AccessPaths:
    """Follows access paths, and sees to it that every change of what they lead to is noticed."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        #: What only Python code can tell, asked at each call.
        self.rechecks: list[Callable[[], bool]] = []
        self._reached: dict[tuple[Any, ...], Reached] = {}
        #: What modules are called here, by their names: several may go by one.
        self._modules: dict[int, tuple[dict[str, Any], str]] = {}

    def reach(
        self, entry: FunctionEntry, root: tuple[str, Any], path: tuple[str, ...], where: Where
    ) -> Reached:
        """Return what an access path leads to, reading every part of it through guards."""
        key = (id(entry), root, path)
        known = self._reached.get(key)
        if known is None:
            known = self._reached[key] = self.walk(self._root(entry, root, where), path, where)
        return known

    def _root(self, entry: FunctionEntry, root: tuple[str, Any], where: Where) -> Reached:
        kind, name = root
        function = entry.function
        if kind == "global":
            label = f"global {self.module_label(function.__globals__)}.{name}"
            binding = self.guards.name(function.__globals__, name)
            if not binding:
                binding = self.guards.name(_builtins_of(function), name)
                label = f"builtin {name}" if binding else label
            return Reached("value", label, binding[0]) if binding else Reached("absent", label)
        if kind == "free":
            label = f"closure {entry.name}:{name}"
            names = function.__code__.co_freevars
            if name not in names or function.__closure__ is None:
                return Reached("absent", label)
            binding = self.guards.cell(function, names.index(name))
            return Reached("value", label, binding[0]) if binding else Reached("absent", label)
        module, level, member = name
        return self._import(function, module, level, member, where)

    def _import(
        self, function: types.FunctionType, module: str, level: int, member: str | None, where: Where
    ) -> Reached:
        """Return what an import statement inside a function would bind."""
        package = function.__globals__.get("__package__") or ""
        full = module
        if level:
            base = package.rsplit(".", level - 1)[0] if level > 1 else package
            full = f"{base}.{module}" if module else base
        label = f"global {full}" if member is None else f"global {full}.{member}"
        imported = self._imported(full)
        if imported is None:
            return Reached("absent", label)
        if member is None:
            return Reached("value", f"module {full}", imported)
        reached = self.walk(Reached("value", f"module {full}", imported), (member,), where)
        if reached.state == "absent":
            submodule = self._imported(f"{full}.{member}")
            if submodule is not None:
                return Reached("value", f"module {full}.{member}", submodule)
        return reached

    def _imported(self, name: str) -> Any:
        """Return a module that a function imports, as the function would get it."""
        binding = self.guards.name(sys.modules, name)
        if binding:
            return binding[0]
        from importlib import import_module

        try:
            import_module(name)
        except Exception:
            # Whatever it raises, the function gets nothing.
            return None
        return (*self.guards.name(sys.modules, name), None)[0]

    def forget(self) -> None:
        """Let go of everything that was found."""
        self._reached.clear()

    def module_label(self, names: dict[str, Any]) -> str:
        """Return what a module is called: its name, with a number if there are others of that name."""
        known = self._modules.get(id(names))
        if known is None:
            name = names.get("__name__")
            name = name if isinstance(name, str) else "?"
            number = 1 + sum(label.partition(" #")[0] == name for _, label in self._modules.values())
            known = self._modules[id(names)] = names, name if number == 1 else f"{name} #{number}"
        return known[1]

    def walk(self, reached: Reached, path: tuple[str, ...], where: Where) -> Reached:
        for name in path:
            if reached.state != "value":
                if reached.state == "whole":
                    reached = Reached("whole", reached.label, reached.value)
                    reached.is_early = True
                return reached
            value = reached.value
            if reached.owner is not None:
                # A member of a method that is bound: anything of what it is bound to may be meant.
                reached = Reached("whole", reached.owner_label, reached.owner)
                reached.is_early = True
                return reached
            if is_a(value, types.ModuleType):
                reached = self._module_member(value, name, where)
            elif is_a(value, type):
                reached = self._class_member(value, name, reached)
            else:
                reached = self._instance_member(value, name, reached, where)
            reached.holder, reached.name = value, name
        return reached

    def _module_member(self, module: types.ModuleType, name: str, where: Where) -> Reached:
        if name == "__dict__":
            raise dynamic(f"`{module.__name__}.__dict__`", where)
        names = vars(module)
        label = f"global {self.module_label(names)}.{name}"
        binding = self.guards.name(names, name)
        on_class = lookup(type(module), name) if type(module) is not types.ModuleType else ()
        if binding and not (on_class and hasattr(type(on_class[0]), "__set__")):
            return Reached("value", label, binding[0])
        if lookup(types.ModuleType, name):
            # What every module has: ways to read anything of it.
            raise dynamic(f"`{module.__name__}.{name}`", where)
        if "__getattr__" not in names and type(module) is types.ModuleType:
            return Reached("absent", label)
        # What a module makes up when asked has to be asked for again each time.
        try:
            value = getattr(module, name)
        except Exception:
            self.rechecks.append(lambda: _made_up(module, name) is _ABSENT)
            return Reached("absent", label)
        # Most put it among their names then.
        binding = self.guards.name(names, name)
        if not binding or binding[0] is not value:
            self.rechecks.append(_is_made_up_again(module, name, value))
        return Reached("value", label, value)

    def _class_member(self, cls: type, name: str, before: Reached) -> Reached:
        label = f"{before.label}.{name}"
        attribute = self._class_attribute(cls, name)
        computed = lookup(type(cls), name) if type(cls) is not type else ()
        if not attribute or computed:
            # A metaclass may have it, or make it up.
            return Reached("whole", before.label, cls)
        value = attribute[0]
        if is_a(value, staticmethod):
            value = value.__func__
        elif is_a(value, classmethod):
            return Reached("value", label, value.__func__, cls, before.label)
        elif hasattr(type(value), "__get__") and function_of(value) is None:
            # A descriptor reads whatever it wants.
            return Reached("whole", before.label, cls)
        return Reached("value", label, value)

    def _class_attribute(self, cls: type, name: str) -> tuple[()] | tuple[Any]:
        """Return what a class or one of its bases defines."""
        if not self.guards.type(cls):
            # Without a version the definition has to be looked up each time.
            self.rechecks.append(_is_still(cls, name, lookup(cls, name)))
        return lookup(cls, name)

    def _instance_member(self, value: Any, name: str, before: Reached, where: Where) -> Reached:
        cls = type(value)
        label = f"{before.label}.{name}"
        whole = Reached("whole", before.label, value)
        if is_a(value, types.FunctionType):
            if name in ("__closure__", "__dict__"):
                raise dynamic(f"`{value.__qualname__}.{name}`", where)
            if name in ("__doc__", "__name__", "__qualname__", "__module__"):
                known = getattr(value, name)
                self.rechecks.append(lambda: getattr(value, name) == known)
                return Reached("value", label, known)
        if not keeps_members(cls):
            return whole
        on_class = self._class_attribute(cls, name)
        if on_class:
            kind = type(on_class[0])
            if kind.__name__ == "cached_property":
                # Whether it was computed already must not show.
                return whole
            if not is_slot(on_class[0]) and (hasattr(kind, "__set__") or hasattr(kind, "__delete__")):
                # A property reads whatever it wants, and so does a member of a class written in C.
                return whole
        member = self.guards.member(value, name)
        if member is None:
            return whole
        if member:
            return Reached("value", label, member[0])
        if not on_class or type(on_class[0]) is types.MemberDescriptorType:
            return Reached("absent", label)
        attribute = on_class[0]
        if is_a(attribute, types.FunctionType):
            return Reached("value", label, attribute, value, before.label)
        if is_a(attribute, staticmethod):
            return Reached("value", label, attribute.__func__)
        if is_a(attribute, classmethod):
            return Reached("value", label, attribute.__func__, cls, before.label)
        return whole if hasattr(type(attribute), "__get__") else Reached("value", label, attribute)


def _made_up(module: types.ModuleType, name: str) -> Any:
    """Return what a module makes up for a name."""
    try:
        return getattr(module, name)
    except Exception:
        return _ABSENT


def _is_made_up_again(module: types.ModuleType, name: str, value: Any) -> Callable[[], bool]:
    """Return something that asks a module for a name again, and tells whether the answer is the same."""

    def check() -> bool:
        answer = _made_up(module, name)
        if answer is value:
            return True
        try:
            return answer is not _ABSENT and fingerprint(answer) == fingerprint(value)
        except FingerprintError:
            return False

    return check


def function_of(value: Any) -> types.FunctionType | None:
    """Return the function that something stands for: itself, or what a kernel or another compiler wraps."""
    if is_a(value, types.FunctionType):
        return value  # type: ignore[no-any-return]
    if type(value).__flags__ & HEAP_TYPE and not is_a(value, type):
        inner = getattr(type(value), "__keyprint_function__", None)
        if inner is not None:
            function = inner(value)
            return function if isinstance(function, types.FunctionType) else None
    module = getattr(type(value), "__module__", None)
    wrapped = _WRAPPERS.get(module.partition(".")[0]) if isinstance(module, str) else None
    function = None if wrapped is None or is_a(value, type) else getattr(value, wrapped, None)
    return function if isinstance(function, types.FunctionType) else None


def keeps_members(cls: type) -> bool:
    """Whether instances of a class just keep their members: no code decides what a name means."""
    is_usual = lookup(cls, "__getattribute__") == (object.__getattribute__,)
    is_usual = is_usual and lookup(cls, "__class__") == lookup(object, "__class__")
    return is_usual and not lookup(cls, "__getattr__") and bool(cls.__flags__ & HEAP_TYPE)


def is_slot(attribute: Any) -> bool:
    """Whether an attribute of a class is a slot of a class written in Python: native ones have members of their own."""
    if type(attribute) is not types.MemberDescriptorType:
        return False
    return "__slots__" in vars(attribute.__objclass__)


def sets_members(value: Any) -> bool:
    """Whether setting a member of something runs no code of its class."""
    kinds = (object, type, types.ModuleType)
    return all(
        lookup(type(value), name) in [(getattr(kind, name),) for kind in kinds]
        for name in ("__setattr__", "__delattr__")
    )


def lookup(cls: type, name: str) -> tuple[()] | tuple[Any]:
    for base in cls.__mro__:
        if name in vars(base):
            return (vars(base)[name],)
    return ()


def _is_still(cls: type, name: str, known: tuple[()] | tuple[Any]) -> Callable[[], bool]:
    def check() -> bool:
        attribute = lookup(cls, name)
        return len(attribute) == len(known) and all(
            value is other for value, other in zip(attribute, known, strict=True)
        )

    return check


def _builtins_of(function: types.FunctionType) -> dict[str, Any]:
    namespace = getattr(function, "__builtins__", None)
    if isinstance(namespace, dict):
        return namespace
    namespace = function.__globals__.get("__builtins__", __builtins__)
    return vars(namespace) if isinstance(namespace, types.ModuleType) else namespace
