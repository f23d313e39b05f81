"""Places that arrays are at, and kernels run at: the CPU, and CUDA devices by number."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["device_number", "name_of_device", "number_of", "places"]


class Places:
    """Where arrays are made unless a program says otherwise: what :func:`keyprint.init` said."""

    __slots__ = ("default",)

    def __init__(self) -> None:
        #: The number of a CUDA device; nothing for the CPU.
        self.default: int | None = None


places = Places()


def number_of(place: Any) -> int | None:
    """Return the number of the CUDA device that a program names, which must be there; nothing for the CPU."""
    kind, _, number = str(place).partition(":")
    if kind in ("cpu", "x64", "arm64") and not number:
        return None
    if kind not in ("cuda", "gpu") or not (number or "0").isdigit():
        raise ValueError(
            f"kernels run on the CPU and on CUDA devices, found {place!r}\n"
            'hint: write `kp.cpu`, `kp.cuda`, or `"cuda:1"`'
        )
    # Only whoever asks for a device needs it.
    from ..._native import _cuda_capability

    _cuda_capability(int(number or "0"))
    return int(number or "0")


def device_number(place: Any) -> int | None:
    """Return the same; where arrays are usually made, if a program names nothing."""
    return places.default if place is None else number_of(place)


def name_of_device(device: int | None) -> str:
    """Return what people call a device."""
    return "the CPU" if device is None else f"`cuda:{device}`"
