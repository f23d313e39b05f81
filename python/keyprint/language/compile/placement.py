"""Where a launch runs: where its arrays are."""

from __future__ import annotations

from ..errors import KernelTypeError
from ..types.devices import name_of_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ...dispatch.signatures.argument import Argument

__all__ = ["device_of"]


def device_of(arguments: Mapping[str, Argument]) -> int | None:
    """Return the CUDA device that the arrays among the arguments are on; nothing if none is on one."""
    first: tuple[str, int | None] | None = None
    is_anywhere = False
    for path, device in _arrays(arguments, ""):
        if device == _ANYWHERE:
            is_anywhere = True
        elif first is None:
            first = (path, device)
        elif first[1] != device:
            raise KernelTypeError(
                f"`{first[0]}` is on {name_of_device(first[1])}, and `{path}` on {name_of_device(device)}: a launch runs "
                "where its arrays are",
                code="devices",
                hint="copy one of them: `kp.asarray(x, device=...)`, `tensor.to(...)`",
            )
    if first is None:
        return 0 if is_anywhere else None
    return first[1]


#: Where arrays are that have no elements: on any device.
_ANYWHERE = -1


def _arrays(arguments: Mapping[Any, Argument], before: str) -> Iterator[tuple[str, int | None]]:
    """Yield the arrays among arguments, and the devices that they are on."""
    for name, argument in arguments.items():
        path = f"{before}[{name}]" if isinstance(name, int) else f"{before}.{name}" if before else str(name)
        if argument.kind == "array":
            is_on_device = argument.device in (2, "cuda")
            on_device = _ANYWHERE if argument.device_id is None else argument.device_id
            yield path, on_device if is_on_device else None
        elif argument.kind == "process-local":
            for array in _arrays_of_field(argument.value):
                yield path, array.device_id
        yield from _arrays(argument.members or {}, path)


def _arrays_of_field(field: Any) -> Iterator[Any]:
    members = getattr(field, "_members", None)
    if members is None:
        array = getattr(field, "_array", None)
        if array is not None:
            yield array
        return
    for member in members.values():
        yield from _arrays_of_field(member)
