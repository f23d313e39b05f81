"""What passes between a dispatcher and the compiler behind it."""

from __future__ import annotations

from .._native import NativeCall, Output, Slot, _set_target_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .._native import Entry
    from ..store.keys import Key
    from .signatures.argument import Argument

    _Pair = tuple[Any, Any]
else:
    _Pair = tuple

__all__ = ["Artifact", "LiveTarget", "NativeCode", "Specialization", "Target", "ValuesNeeded"]


class Specialization:
    """What to compile: a function, for arguments of one signature, in one environment.

    It holds everything that the key holds and nothing else: whatever a compiler takes from here is part
    of the key. ``function`` is the Python function; ``source`` its text, as the key has seen it;
    ``arguments`` what is known of each argument (:class:`~keyprint.Argument`), never the arguments
    themselves; ``env`` the environment variables; ``target`` what to compile for.
    """

    __slots__ = ("_text", "arguments", "env", "function", "key", "name", "target")

    def __init__(
        self,
        function: types.FunctionType,
        name: str,
        key: Key,
        arguments: Mapping[str, Argument],
        env: Mapping[str, str | None],
        target: Any,
        text: Callable[[], str | None],
    ) -> None:
        self.function = function
        self.name = name
        self.key = key
        self.arguments = arguments
        self.env = env
        self.target = target
        self._text = text

    @property
    def source(self) -> str | None:
        """The text of the function; nothing if it has none, or if the file was edited since it was loaded."""
        return self._text()

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {argument}" for name, argument in self.arguments.items())
        return f"<Specialization {self.name}({inside})>"


class Artifact:
    """What a compiler makes, and a loader gets: named parts of bytes, and plain metadata.

    >>> artifact = Artifact(b"code", {"entry": "f"})
    >>> artifact.data, artifact.metadata
    (b'code', {'entry': 'f'})
    """

    __slots__ = ("_entry", "_parts", "keep", "metadata", "specialization")

    def __init__(
        self,
        data: bytes | Mapping[str, bytes],
        metadata: Any = None,
        *,
        _entry: Entry | None = None,
        _specialization: Specialization | None = None,
    ) -> None:
        parts = {"data": data} if isinstance(data, (bytes, bytearray, memoryview)) else data
        if _entry is None and not isinstance(parts, dict):
            raise TypeError(f"an artifact is bytes, or a dict of them by name, found `{type(data).__name__}`")
        self._parts = parts
        self._entry = _entry
        self.metadata = metadata
        #: What must live as long as what is loaded from it; only what is not stored can have something here.
        self.keep: Any = None
        #: What it was made for; only a loader sees it.
        self.specialization = _specialization

    @property
    def parts(self) -> Mapping[str, bytes]:
        """All parts, by name."""
        return self._parts if self._entry is None else self._entry.parts

    @property
    def data(self) -> bytes:
        """The part called ``data``, which an artifact of one part has."""
        return self["data"]

    def __getitem__(self, part: str) -> bytes:
        return bytes(self._parts[part]) if self._entry is None else self._entry[part]

    def path(self, part: str = "data") -> str:
        """Return a path to load a shared object from: its bytes are verified, and nobody can change them."""
        if self._entry is None:
            raise ValueError(
                "an artifact that no store keeps has no path\nhint: give the kernel a `store`, or write "
                "the bytes to a file"
            )
        return self._entry.load(part)


class Target(_Pair):
    """What to compile for, and where to run it.

    ``identity`` is everything that compiled code depends on: architecture, features, toolchain. ``device``
    selects among loaded executables in this process, and is no part of a key: code that was compiled for
    one of several equal devices is good for all of them.
    """

    __slots__ = ()

    def __new__(cls, identity: Any, device: Any = None) -> Target:
        hash(device)
        return super().__new__(cls, (identity, device))

    @property
    def identity(self) -> Any:
        """Everything that compiled code depends on."""
        return self[0]

    @property
    def device(self) -> Any:
        """Where it runs."""
        return self[1]

    def __repr__(self) -> str:
        return f"Target({self.identity!r}, device={self.device!r})"


_set_target_type(Target)


class LiveTarget:
    """A target that changes now and then: looked at in each launch, and made when there is none.

    ``make()`` returns it; :meth:`reset` has it made anew. What launches look at is a dict: that costs a nanosecond,
    where a function would cost a call. ``show(target)`` returns it for people, with names: that is what ``why`` compares.
    ``choose(target, arguments)`` returns what to compile for if the arguments of a call decide that: the target itself,
    or another one. What it looks at is part of what recognises the arguments.
    """

    __slots__ = ("_make", "choose", "show", "state")

    def __init__(
        self,
        make: Callable[[], Any],
        show: Callable[[Any], Any] | None = None,
        choose: Callable[[Any, Mapping[str, Argument]], Any] | None = None,
    ) -> None:
        self._make = make
        self.show = show
        self.choose = choose
        #: The target, by the name `value`: launches look at the version of this dict.
        self.state: dict[str, Any] = {"value": None}

    def fill(self) -> None:
        """Make the target, if there is none."""
        if self.state["value"] is None:
            self.state["value"] = self._make()

    def reset(self) -> None:
        """Have it made anew at the next launch."""
        self.state["value"] = None


class ValuesNeeded(Exception):
    """Raised by a compiler that cannot do without the values of some numbers among the arguments.

    ``paths`` says which: ``"sim.grid.n"``. They count by value from then on, and the compiler is called again.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(paths)
        super().__init__(f"values needed: {', '.join(self.paths)}")


class NativeCode:
    """A native entry point, called with argument slots and without Python.

    At ``address`` is a C function ``int32_t f(uint64_t *slots)``. ``slots`` says what it is given, in order:
    ``"x"`` is the address of an array's first element, or a number (``int64_t`` or ``double``; ``"x:f32"`` is
    a ``float``); ``"x.shape[0]"`` and ``"x.strides[0]"`` are sizes, and strides in bytes; ``"sim.grid.dx"`` is a member.
    Without ``slots`` it is given all arrays and numbers that the specialization has, in order. The function
    returns 0, or a status that is raised; ``errors(status)`` may return what to raise. With ``result="i64"``,
    ``"u64"``, ``"f64"`` or ``"bool"`` it leaves a result behind the slots; with ``([...], build)`` several,
    and ``build`` makes what is returned of a tuple of them. ``unlocks`` says that the code may let other
    threads run Python: arrays are owned meanwhile. ``keep`` is whatever keeps the code in memory.

    With ``outcomes``, the slot behind the others says which of these is returned. Such code can begin somewhere else:
    the slot holds 0, or what ``starts(where)`` says for ``kernel.resume(..., from_checkpoint=where)``. ``about`` is
    whatever else the loader knows. Code for a device has a ``program`` in place of an address.
    """

    __slots__ = (
        *("about", "address", "errors", "keep", "outcomes", "program", "result", "slots", "starts"),
        "unlocks",
    )

    def __init__(
        self,
        address: int,
        slots: Iterable[str] | None = None,
        *,
        result: str | tuple[list[str], Callable[[tuple[Any, ...]], Any]] | None = None,
        keep: Any = None,
        errors: Callable[[int], BaseException | None] | None = None,
        unlocks: bool = False,
        outcomes: Iterable[Any] | None = None,
        starts: Callable[[Any], int] | None = None,
        about: Any = None,
        program: Any = None,
        words: Iterable[str] | None = None,
    ) -> None:
        if words is not None:
            slots = _older_name("words", words, "slots", slots)
        is_address = isinstance(address, int) and not isinstance(address, bool) and address > 0
        if not is_address and program is None:
            raise TypeError(f"`address` is the address of a function, found {address!r}")
        if isinstance(slots, str):
            raise TypeError("`slots` is a list of slots, found one string")
        kinds = result[0] if isinstance(result, tuple) else [result]
        for kind in kinds:
            if kind not in (None, *_RESULTS):
                raise ValueError(f"`result` is one of {', '.join(map(repr, _RESULTS))}, found {kind!r}")
        self.address = address
        self.program = program
        self.slots = None if slots is None else tuple(slots)
        for slot in self.slots or ():
            if not isinstance(slot, str):
                raise TypeError(f"`slots` is a list of slots, found {slot!r} in it")
        self.result = result
        self.keep = keep
        self.errors = errors
        self.unlocks = unlocks
        self.outcomes = None if outcomes is None else list(outcomes)
        if self.outcomes is not None and result is not None:
            raise TypeError("`result` and `outcomes` use the same slot: give one of them")
        self.starts = starts
        self.about = about

    def start_of(self, where: Any) -> int:
        """Return where to begin; called by the dispatcher."""
        if self.starts is None:
            raise TypeError("the kernel can only begin at its beginning")
        return self.starts(where)

    def error_of(self, status: int) -> BaseException | None:
        """Return what a status means; called by the dispatcher."""
        return None if self.errors is None else self.errors(status)

    def as_call(self, arguments: Mapping[str, Argument]) -> NativeCall:
        """Return what the dispatcher calls, for a signature."""
        if self.slots is None:
            slots = [slot for argument in arguments.values() for slot in _all_slots(argument)]
        else:
            slots = [_slot(text, arguments) for text in self.slots]
        # What is used by its address in the code is owned as well, while the lock is let go of.
        held = _process_local_guards(arguments) if self.unlocks else None
        return NativeCall(self.address, slots, self._output(), keep=self, held=held, program=self.program)

    def _output(self) -> Output:
        if self.outcomes is not None:
            return Output.choice(self.outcomes)
        if self.result is None:
            return Output.nothing()
        if isinstance(self.result, str):
            return Output.one(self.result)
        kinds, build = self.result
        return Output.many(kinds, build)


def _older_name(older: str, given: Any, name: str, known: Any) -> Any:
    """Return what was given by an older name of a parameter."""
    if known is not None:
        raise TypeError(f"`{older}` is an older name of `{name}`: give one of them")
    import warnings

    warnings.warn(f"`{older}` is an older name of `{name}`", DeprecationWarning, stacklevel=3)
    return given


def _process_local_guards(arguments: Mapping[str, Argument]) -> list[int]:
    guards, pending = [], list(arguments.values())
    while pending:
        argument = pending.pop()
        guards += [argument.guard] if argument.kind == "process-local" else []
        pending += (argument.members or {}).values()
    return guards


def _all_slots(argument: Argument) -> list[Slot]:
    if argument.kind == "array":
        return [Slot.address(argument.guard)]
    if argument.kind == "scalar" and argument.type in _NUMBERS:
        return [Slot.number(argument.guard, _NUMBERS[argument.type])]
    if argument.kind == "scalar":
        raise TypeError(
            f"native code cannot be given a `{argument.type}` by default\nhint: say what it is given with `slots`"
        )
    members = argument.members or {}
    return [slot for member in members.values() for slot in _all_slots(member)]


_NUMBERS = {"int": "i64", "bool": "i64", "float": "f64"}

_RESULTS = ("i64", "u64", "f64", "bool")

#: Types of numbers that slots can have.
_SCALARS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")


def _slot(text: str, arguments: Mapping[str, Argument]) -> Slot:
    """Return what a text such as ``x.shape[0]`` stands for."""
    path, _, kind = text.partition(":")
    if kind and kind not in _SCALARS:
        raise ValueError(f"the slot `{text}` ends in `{kind}`, expected one of {', '.join(_SCALARS)}")
    dimension = None
    for suffix, of_array in ((".shape[", Slot.size), (".strides[", Slot.stride)):
        head, separator, number = path.partition(suffix)
        if separator and number[:-1].isdigit() and number.endswith("]"):
            path, kind, dimension = head, "", int(number[:-1])
            make = of_array
    # `pair[0].x` is an item of a tuple, and a member of that.
    names = path.replace("[", ".[").split(".")
    argument = arguments.get(names[0])
    for name in names[1:]:
        place: Any = int(name[1:-1]) if name.startswith("[") and name[1:-1].isdigit() else name
        argument = None if argument is None else (argument.members or {}).get(place)
    if argument is None or argument.guard is None:
        raise ValueError(
            f"the slot `{text}` names nothing that the kernel reads\nhint: it reads "
            f"{', '.join(f'`{name}`' for name in _paths(arguments)) or 'nothing'}"
        )
    if argument.kind == "array" and dimension is not None:
        if dimension >= (argument.ndim or 0) + len(argument.element or ()):
            raise ValueError(f"the slot `{text}` names a dimension that an array of {argument.ndim} has not")
        return make(argument.guard, dimension)
    if argument.kind == "array" and not kind:
        return Slot.address(argument.guard)
    is_number = argument.kind in ("scalar", "value") and (argument.type or "") in (*_NUMBERS, *_SCALARS)
    is_numpy = argument.kind == "scalar" and str(argument.type).startswith("numpy.")
    if kind and (is_number or is_numpy):
        return Slot.number(argument.guard, kind)
    if kind or dimension is not None or not is_number:
        raise ValueError(f"the slot `{text}` is a `{argument.type}`, expected an array or a number")
    return Slot.number(argument.guard, _NUMBERS[argument.type or ""])


def _paths(arguments: Mapping[Any, Argument], before: str = "") -> list[str]:
    paths = []
    for name, argument in arguments.items():
        here = f"{before}[{name}]" if isinstance(name, int) else f"{before}.{name}" if before else str(name)
        paths.append(here)
        paths += _paths(argument.members or {}, here)
    return paths
