"""Kernels: a function that is compiled for the arguments it is called with, when it must be.

:func:`jit` makes a kernel of a function, a compiler and a loader. Calling the kernel finds the executable
for the arguments at hand: in memory, in a store, or by compiling. What counts is not up to the compiler:
the function's source and helpers, globals, closures, the environment, the target and the arguments it
really reads are all part of the key, and are looked at in every call.
"""

from __future__ import annotations

import types
from _weakref import ref

from .._native import _forget_contexts, _kernel_stats, _kernel_type, _make_kernel, _resume
from ..errors import FunctionKeyError
from ..fingerprints import rule
from ..functions.key import FunctionKey, unwrap
from ..functions.registered import count_by
from .dispatcher import Dispatcher
from .options import KernelOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ..functions.packages import Packages
    from ..store.keys import Tool
    from ..store.stores import Store
    from .specialization import Artifact, Specialization

__all__ = ["Kernel", "Observations", "jit"]


class Observations:
    """What a kernel did so far, counted.

    ``launches``: calls. ``key_made``: keys that were made, one for each new signature. ``validated``: artifacts
    that were found in the store, and verified. ``compiled``: calls of the compiler. ``stored``: artifacts that
    were published. ``loaded``: executables that were loaded. ``refreshed``: looks at everything that the
    function depends on. ``files_parsed``: source files that no table was kept of.
    """

    __slots__ = (
        *("compiled", "files_parsed", "key_made", "launches", "loaded", "refreshed", "stored", "validated"),
    )

    def __init__(self, **counts: int) -> None:
        for name in self.__slots__:
            setattr(self, name, counts.get(name, 0))

    def __repr__(self) -> str:
        return f"Observations({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


class _KernelMethods:
    """What kernels can do besides being called."""

    __slots__ = ()

    def why(self) -> str:
        """Say why the last call had to compile, or where it found its executable."""
        last = self._dispatcher.compilation.last
        if last is None:
            return "never called"
        _, hits, _ = _kernel_stats(self)
        return "hit: in memory" if hits else last

    @property
    def observations(self) -> Observations:
        """What the kernel did so far."""
        dispatcher = self._dispatcher
        launches, _, _ = _kernel_stats(self)
        parsed = dispatcher.options.rules.sources.parsed
        return Observations(launches=launches, files_parsed=parsed, **dispatcher.counts)

    @property
    def function_key(self) -> FunctionKey:
        """The key of the function as it is now."""
        return self._dispatcher.function_key()

    def forget(self) -> None:
        """Forget what was loaded, and what the function depended on: the next call looks at everything anew."""
        self._dispatcher.forget()
        _forget_contexts(self)

    def resume(self, /, *arguments: Any, from_checkpoint: Any, **named: Any) -> Any:
        """Call the kernel, beginning at a checkpoint: what is before it is not run."""
        return _resume(self, from_checkpoint, arguments, named)

    @property
    def _dispatcher(self) -> Dispatcher:
        return self.__dict__["_dispatcher"]  # type: ignore[no-any-return]

    def __keyprint_function__(self) -> Any:
        return self._dispatcher.function

    def __keyprint_options__(self) -> object:
        return self._dispatcher.options.identity()

    def __reduce__(self) -> str:
        # By reference: as functions are.
        return str(self.__dict__["__qualname__"])

    def __repr__(self) -> str:
        return f"<Kernel {self.__dict__['__module__']}.{self.__dict__['__qualname__']}>"


# What people see if they forget an argument.
_KernelMethods.resume.__qualname__ = "Kernel.resume"

#: The type of kernels.
Kernel: Any = _kernel_type(_KernelMethods)

# Where another function reaches a kernel.
count_by(
    Kernel,
    lambda kernel: rule.ordered(
        kernel.__wrapped__, type(kernel).__keyprint_options__(kernel), tag="keyprint kernel"
    ),
)


def jit(
    function: Any = None,
    *,
    compile: Callable[[Specialization], Any],
    load: Callable[[Artifact], Any] | None = None,
    store: Store | Callable[[], Store | None] | None = None,
    env: Iterable[str] = (),
    target: Any = None,
    static: Iterable[str] = (),
    align: Mapping[str, int] | None = None,
    divisible: Mapping[str, int] | None = None,
    members: str = "value",
    on_drift: str = "raise",
    tool: Tool | None = None,
    packages: Packages | None = None,
    ignore: Iterable[str] = (),
    compiled_by: Iterable[object] = (),
    scalars: Mapping[str, str] | None = None,
    open_members: Iterable[str] = (),
    templates: Iterable[str] = (),
    on_opaque: Callable[[str, Any], None] | None = None,
    absent_members: bool = False,
    variant: object = None,
) -> Any:
    """Make a kernel of a function; without one, return a decorator.

    ``compile(specialization)`` is called on a true miss, and returns an artifact: bytes, a dict of bytes by
    name, or an :class:`~keyprint.Artifact` with metadata. ``load(artifact)`` makes it executable: it returns
    something to be called with the arguments, or :class:`~keyprint.NativeCode`. Without ``load``, what
    ``compile`` returns is executable itself, and stays in memory. ``store`` keeps artifacts: a store, or a
    function that returns one.

    ``env`` names environment variables that count. ``target`` is what to compile for: a value, or a function
    without parameters, which is called at *each* launch and should be quick. ``static`` names parameters that
    count by value. ``align`` (``{"x": 16}``) specialises on whether the first element of an array lies at a
    multiple, ``divisible`` on whether an int is 1, a multiple, or neither. ``members="type"`` has numbers in
    objects count by type, for compilers that pass them at run time; ``open_members`` names parameters of which
    that holds. ``templates`` names parameters that count by value if they are plain values, and as usual if they
    are arrays or objects. ``scalars`` (``{"n": "f32"}``) names parameters that are numbers of a type, whatever Python number
    is given. A compiler that needs to know the value of a member, or of a parameter, raises
    :class:`~keyprint.ValuesNeeded`: from then on it counts by value, in this process and in others.
    ``on_opaque(path, value)`` is told of arguments that have no cache signature, which are refused without it:
    the compiler says what it reads of them (``value`` of such an argument is the object and a
    recorder), and what it makes stays in memory. Members that are read and not there are refused; with
    ``absent_members`` the compiler is told of them instead, and refuses them itself. ``variant`` is whatever else
    tells what the compiler makes of the function: a plain value, which is part of the key.

    When a global or anything else that the function reads changes after it was compiled, the next call raises
    :class:`~keyprint.DriftError`; with ``on_drift="rekey"`` it compiles again, or finds what it had before.

    The rest is as for :class:`~keyprint.Key` (``tool``) and :class:`~keyprint.FunctionKey`.
    """
    options: dict[str, Any] = {name: value for name, value in locals().items() if name != "function"}

    def make(function: Any) -> Any:
        return _make(function, options)

    return make if function is None else make(function)


def _make(function: Any, options: dict[str, Any]) -> Any:
    wrap = type(function) if isinstance(function, (staticmethod, classmethod)) else None
    if isinstance(function, Kernel):
        raise FunctionKeyError(
            f"{function!r} is a kernel already", code="no-function", hint="pass the function itself"
        )
    if isinstance(function, types.MethodType):
        raise FunctionKeyError(
            f"`{function.__qualname__}` is bound to an object, which would not be an argument any more",
            code="no-function",
            hint="decorate the method in its class, or pass the function and give it the object",
        )
    dispatcher = Dispatcher(KernelOptions(unwrap(function), options, jit))
    inner, target = dispatcher.function, dispatcher.options.target
    kernel = _make_kernel(
        dispatcher,
        dispatcher.options.names,
        inner.__code__.co_posonlyargcount,
        inner.__code__.co_argcount,
        target if callable(target) else None,
    )
    dispatcher.kernel = ref(kernel)
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        kernel.__dict__[name] = getattr(inner, name)
    kernel.__dict__["__wrapped__"] = inner
    kernel.__dict__["_dispatcher"] = dispatcher
    return kernel if wrap is None else wrap(kernel)
