"""What values count by: fingerprints, with the functions and classes in them followed."""

from __future__ import annotations

import os
import sys
import types

from .._native import Fingerprint, Fingerprinter, NdArray, fingerprint
from ..errors import FingerprintError, FunctionKeyError
from ..fingerprints import rule
from ..fingerprints.kinds import is_a
from . import observable
from .access_paths import WRAPPER_TYPES, function_of, lookup
from .captured import can_change, in_order, table_behind, weakly
from .dynamic_access import asks_of, check_function, check_name, check_value
from .entry import module_of
from .registered import COUNTED_BY, PROCESS_LOCAL
from .texts import phrase_of_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native import Fingerprint
    from .entry import Where
    from .resolution import Resolver

__all__ = ["Values"]


class Values:
    """Counts values that a function reaches."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._fingerprinter: Fingerprinter | None = None
        #: Arrays that can be written, met in the value that is looked at.
        self.arrays: list[Any] = []

    def digest_of(self, label: str, value: Any, where: Where) -> Fingerprint:
        """Return the digest of a value, following the functions and classes in it."""
        self._resolver.at = where
        check_value(value, where)
        reference = self._reference(value, where)
        if reference is not None:
            return fingerprint(reference)
        if type(value) is str:
            self._resolver.asks |= check_name(value, where)
        watched = self._resolver.guards.value(value)
        self.arrays.clear()
        try:
            digest, classes, met = self._values()._with_classes(value)
        except FingerprintError as error:
            raise self.unidentified(label, error, where) from error
        if self.arrays:
            raise self.writable(label, where)
        self._resolver.captured.setdefault(label, (value, met))
        for cls in in_order(classes):
            self._resolver.classes.count(cls)
        if not watched:
            self.recheck(value, digest, self._values())
        return digest

    def _reference(self, value: Any, where: Where) -> tuple[object, ...] | None:
        """Return what stands for something that is followed, or goes by its name and a version."""
        if is_a(value, types.ModuleType):
            return self._module(value, where)
        if lookup(type(value), "__keyprint_process_local__"):
            self._resolver.is_process_local = True
            kind = value.__keyprint_type__() if lookup(type(value), "__keyprint_type__") else None
            inner = None if kind is None else bytes(self.digest_of("type of a field", kind, where))
            return "process-local", value.__keyprint_process_local__(), inner
        if is_a(value, type):
            return "class", self._resolver.classes.count(value)
        function = function_of(value)
        if function is not None:
            version = self._resolver.version_of(function)
            if version is not None and function is value:
                check_function(function.__module__, function.__qualname__, where)
                self._resolver.asks |= asks_of(function.__module__, function.__qualname__)
                return "outside", module_of(function), function.__qualname__, self._content(function, where)
            options = getattr(type(value), "__keyprint_options__", None)
            extra = None if options is None else bytes(fingerprint(options(value)))
            if function is not value and options is None:
                # What another compiler makes of it: the compiler's version, and what it was told.
                self._resolver.version_of(type(value))
                told = getattr(value, "targetoptions", None)
                extra = None if told is None else bytes(fingerprint(repr(sorted(told.items()))))
            return "function", self._resolver.entry(function).name, type(value).__qualname__, extra
        if is_a(value, types.BuiltinFunctionType) and isinstance(
            value.__self__, (types.ModuleType, type(None))
        ):
            check_function(value.__module__, value.__name__, where)
            if value is id or value.__name__ in ("is_", "is_not"):
                self._resolver.asks.add("identity")
            elif value is vars or value is dir:
                self._resolver.asks.add("order")
            if self._resolver.version_of(value) is None:
                self.count_native_module(value.__module__)
            return "builtin", value.__module__, value.__qualname__
        return self._named(value)

    def _named(self, value: Any) -> tuple[object, ...] | None:
        """Return what stands for something callable that an installed package has under its name."""
        if not callable(value):
            return None
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if is_a(value, (types.BuiltinFunctionType, types.MethodType)):
            # Bound to what a module keeps for itself: `random.random`.
            module, name = type(value.__self__).__module__, value.__name__
        name = name or getattr(value, "__name__", None)
        if not isinstance(module, str) or not isinstance(name, str) or hasattr(value, "__wrapped__"):
            return None
        if getattr(sys.modules.get(module), name, None) is not value:
            return None
        version = self._resolver.rules.packages.version_of(module)
        if version is not None:
            self._resolver.put_version(version)
        elif not self.count_native_module(module):
            return None
        return "outside", module, name

    def _content(self, function: types.FunctionType, where: Where) -> list[bytes] | None:
        """Return what the program put into a function of an installed package: what it wraps, and its cells.

        A decorator of the standard library, say, returns a function of its own, around one of the program.
        """
        registry = vars(function).get("registry")
        if registry is not None and module_of(function) == "functools":
            # What `singledispatch` makes also holds caches.
            table = table_behind(function)
            if table is None or not self._resolver.guards.value(table):
                known = dict(registry)
                self._resolver.access_paths.rechecks.append(lambda: dict(registry) == known)
            return [bytes(self.digest_of(f"registry {function.__qualname__}", dict(registry), where))]
        if function.__closure__ is None and "__wrapped__" not in vars(function):
            return None
        self._resolver.guards.function(function)
        digests = []
        for at, name in enumerate(function.__code__.co_freevars):
            content = self._resolver.guards.cell(function, at)
            label = f"closure {module_of(function)}.{function.__qualname__}:{name}"
            if content and label.partition(" ")[2] not in self._resolver.rules.ignore:
                digests.append(bytes(self.digest_of(label, content[0], where)))
        for what in (function.__defaults__, function.__kwdefaults__, vars(function).get("__wrapped__")):
            if what is not None:
                digests.append(bytes(self.digest_of(f"content of {function.__qualname__}", what, where)))
        return digests

    def _module(self, module: types.ModuleType, where: Where) -> tuple[object, ...]:
        name = module.__name__
        version = self._resolver.rules.packages.version_of(name)
        if version is None:
            function, file, line = where
            raise FunctionKeyError(
                f"`{function}` uses the module `{name}` as a value (`{file}`, line {line}): anything in it "
                "may be read",
                code="module-value",
                hint="read what is needed by name (`module.name`), or pass it as an argument",
            )
        self._resolver.put_version(version)
        return "module", name

    def count_native_module(self, name: str | None) -> bool:
        """Count a module of the program by its file, if it is a compiled one."""
        file = getattr(sys.modules.get(name or ""), "__file__", None)
        if not isinstance(file, str) or file.endswith((".py", ".pyc")):
            return False
        with open(file, "rb") as content:
            self._resolver.put(
                f"native module {name}", fingerprint(content.read()), str(name), self._resolver.at
            )
        return True

    def _values(self) -> Fingerprinter:
        if self._fingerprinter is None:
            self._fingerprinter = self.make_fingerprinter(self.overrides())
        return self._fingerprinter

    def make_fingerprinter(self, overrides: dict[type, Any]) -> Fingerprinter:
        return Fingerprinter(
            mode=self._resolver.rules.mode,
            overrides=overrides,
            metadata_keys=self._resolver.rules.metadata_keys,
            _observable=True,
        )

    def overrides(self) -> dict[type, Any]:
        overrides: dict[type, Any] = {
            **observable.rules(),
            types.FunctionType: self._rule_function,
            types.BuiltinFunctionType: self._rule_builtin,
            types.ModuleType: self._rule_module,
            type: self._rule_class,
        }
        enum = sys.modules.get("enum")
        if enum is not None:
            overrides[enum.EnumMeta] = self._rule_class
        overrides[type(os.environ)] = self._rule_dynamic
        getter = getattr(sys.modules.get("operator"), "attrgetter", None)
        if isinstance(getter, type):
            overrides[getter] = self._rule_getter
        numpy = sys.modules.get("numpy")
        if hasattr(numpy, "ndarray"):
            overrides[numpy.ndarray] = self._rule_array  # type: ignore[union-attr]
        torch = sys.modules.get("torch")
        if hasattr(torch, "Tensor"):
            overrides[torch.Tensor] = self._rule_array  # type: ignore[union-attr]
        overrides[NdArray] = self._rule_array
        for module, name in WRAPPER_TYPES:
            wrapper = getattr(sys.modules.get(module), name, None)
            if isinstance(wrapper, type):
                overrides[wrapper] = self._rule_function
        overrides.update(COUNTED_BY)
        overrides.update(dict.fromkeys(PROCESS_LOCAL, self._rule_process_local))
        return overrides

    def _rule_function(self, function: Any) -> Any:
        reference = self._reference(function, self._resolver.at)
        if reference is None:
            return NotImplemented
        return rule.leaf(repr(reference), tag="keyprint function")

    def _rule_builtin(self, function: types.BuiltinFunctionType) -> Any:
        self._reference(function, self._resolver.at)
        return NotImplemented

    def _rule_module(self, module: types.ModuleType) -> Any:
        return rule.leaf(repr(self._module(module, self._resolver.at)), tag="keyprint module")

    def _rule_getter(self, getter: Any) -> Any:
        for name in getter.__reduce__()[1]:
            self._resolver.asks |= check_name(name, self._resolver.at)
        return NotImplemented

    def _rule_dynamic(self, value: Any) -> Any:
        check_value(value, self._resolver.at)
        return NotImplemented

    def _rule_class(self, cls: type) -> Any:
        self._resolver.classes.count(cls)
        return NotImplemented

    def _rule_process_local(self, value: Any) -> Any:
        self._resolver.is_process_local = True
        token = PROCESS_LOCAL.get(type(value), type(value).__keyprint_process_local__)
        return rule.leaf(token(value), tag="keyprint process-local")

    def _rule_array(self, array: Any) -> Any:
        if self._resolver.rules.writable_arrays:
            return NotImplemented
        if type(array) is NdArray or can_change(array) or getattr(array.dtype, "hasobject", False):
            self.arrays.append(array)
            # What it holds does not matter any more.
            return rule.leaf(None)
        return NotImplemented

    def recheck(self, value: Any, digest: Fingerprint, fingerprinter: Fingerprinter) -> None:
        """Look at a value again at each call: nothing else tells whether it changed."""
        get = weakly(value)

        def recheck() -> bool:
            current = get()
            try:
                return current is not None and fingerprinter._with_classes(current)[0] == digest
            except FingerprintError:
                return False

        self._resolver.access_paths.rechecks.append(recheck)

    def unidentified(self, label: str, error: FingerprintError, where: Where) -> FunctionKeyError:
        cause = error.__cause__
        if isinstance(cause, FunctionKeyError):
            # Refused by what is known here, somewhere inside of the value.
            return cause
        if isinstance(cause, FingerprintError):
            error = FingerprintError(str(cause.args[0]), code=cause.code, path=error.path, hint=cause.hint)
        function, file, line = where
        place = "" if error.path == "$" else f" at `{error.path}`"
        return FunctionKeyError(
            f"`{function}` reads {phrase_of_label(label)} (`{file}`, line {line}), which cannot be identified"
            f"{place}: {error.args[0]}",
            code="unidentified",
            hint="pass it as an argument, give its class a `__fingerprint__`, or name it in `ignore` if "
            "nothing that is compiled depends on it",
        )

    def writable(self, label: str, where: Where) -> FunctionKeyError:
        function, file, line = where
        return FunctionKeyError(
            f"`{function}` reads {phrase_of_label(label)} (`{file}`, line {line}), an array whose elements can "
            "change without notice",
            code="writable-array",
            hint="pass it as an argument, or make it read-only: `array.flags.writeable = False`",
        )
