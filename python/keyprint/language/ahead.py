"""Compiling ahead: for a device that this machine need not have, with arrays that are described rather than allocated."""

from __future__ import annotations

import re

from .._native import Jit, NdArray, fingerprint
from ..dispatch.parameters import defaults_of
from ..dispatch.signatures.signature import make_signature
from ..dispatch.specialization import Target, ValuesNeeded
from ..lazy import BUSY
from .settings import TARGET, current, store
from .types.annotations import ArrayAnnotation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..dispatch.dispatcher import Dispatcher
    from ..dispatch.signatures.argument import Argument
    from ..store.keys import Key

__all__ = ["compile"]


def compile(kernel: Any, /, *arguments: Any, target: str | None = None, **named: Any) -> Key:
    """Compile a kernel for arguments such as these, and keep it in the store; nothing is launched.

    ``target`` is ``"cuda:sm_90"`` for devices of compute capability 9.0, which need not be there, and neither need a
    driver; ``"cpu"`` for this machine; without it, wherever the kernel would run. An array is described by its type
    (``kp.types.NDArray[kp.f32, 1]``), and is then one of ours, or of another library, that is laid out the usual way.
    What is returned is the key that it is kept under. Another machine gets it by ``keyprint export`` and
    ``keyprint import``, and compiles nothing if its NVRTC has the same version, or if it has none.
    """
    dispatcher: Dispatcher = kernel._dispatcher
    by_name = _bound(dispatcher, arguments, named)
    if dispatcher.options.store is None:
        raise TypeError("there is no store that could keep it\nhint: leave out `offline_cache=False`")
    context = dispatcher.refresh(())
    aimed = context
    if target is not None:
        chosen = _target(target, context.target)
        aimed = context.aimed_at(chosen, None if TARGET.show is None else TARGET.show(chosen))
    is_for_device = isinstance(aimed.target, Target)
    dispatcher._needed.recall(context)
    while True:
        with BUSY:
            signature = make_signature(
                {name: _stand_in(value) for name, value in by_name.items()},
                context.resolution,
                dispatcher.options.rules,
                dispatcher.options.arguments,
                dispatcher._memo,
            )
            for name, argument in signature.arguments.items():
                _place(argument, is_for_device)
                signature.components[f"argument {name}"] = fingerprint(argument.identity())
                signature.texts[f"argument {name}"] = str(argument)
            key = dispatcher._key(aimed, signature)
        try:
            # What is loaded by launches is not what is kept here.
            dispatcher.compilation.keep(aimed, signature, key, Jit(1))
            return key
        except ValuesNeeded as needed:
            if not dispatcher._needed.add(context, needed):
                raise


def _target(text: str, usual: Any) -> Any:
    if text == "cpu":
        from .compile.toolchain import target

        return target(current, store())
    architecture = re.fullmatch(r"cuda:(sm_[1-9][0-9]{1,2}[af]?)", text)
    if architecture is None:
        raise ValueError(
            f'a target is a compute capability, found {text!r}\nhint: write `target="cuda:sm_90"`, or `target="cpu"`'
        )
    from .compile.cuda import identity

    said = usual.identity if isinstance(usual, Target) else usual
    return Target(identity(said, store(), architecture[1]))


def _bound(dispatcher: Dispatcher, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by the names of their parameters, as a call would have them."""
    names = dispatcher.options.names
    defaults = dict(zip(names, defaults_of(dispatcher.function), strict=True))
    by_name = {**dict(zip(names, arguments, strict=False)), **named}
    missing = [name for name in names if name not in by_name and not defaults[name]]
    if missing or len(arguments) > len(names) or any(name not in names for name in named):
        dispatcher.mismatch(arguments, named)
        raise TypeError(f"`{dispatcher.name}` misses {', '.join(f'`{name}`' for name in missing)}")
    return {name: by_name[name] if name in by_name else defaults[name][0] for name in names}


def _stand_in(value: Any) -> Any:
    """Return an array for one that is described: it has one element, and nobody looks at it."""
    if not isinstance(value, ArrayAnnotation):
        return value
    if value.dtype is None or value.ndim is None:
        raise TypeError(f"an array is described by its type and dimensions, found `{value!r}`")
    from .types.arrays import element_of

    scalar, element, kind = element_of(value.dtype)
    return NdArray(scalar.name, (1,) * value.ndim, element, kind, False)


def _place(argument: Argument, is_for_device: bool) -> None:
    """Say where arrays are: where they are when the kernel is launched."""
    if argument.kind == "array":
        argument.device = 2 if is_for_device else None
        argument.device_id = 0 if is_for_device else None
    for member in (argument.members or {}).values():
        _place(member, is_for_device)
