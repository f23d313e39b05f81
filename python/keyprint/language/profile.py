"""How long kernels take on devices."""

from __future__ import annotations

import sys

from .._native import _begin_profile, _end_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

__all__ = ["profile"]


class profile:
    """Time the launches on devices in a ``with`` statement, and print a table when it ends.

    ``with kp.profile() as times:`` keeps them in ``times.launches`` afterwards: pairs of the name of a kernel and
    milliseconds, by CUDA events. ``show=False`` prints nothing. One at a time: another one inside begins anew.
    """

    def __init__(self, *, show: bool = True) -> None:
        self._show = show
        self.launches: list[tuple[str, float]] = []

    def __enter__(self) -> profile:
        _begin_profile()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.launches = _end_profile()
        if self._show and error is None:
            sys.stdout.write(str(self) + "\n")

    def __str__(self) -> str:
        by_name: dict[str, list[float]] = {}
        for name, milliseconds in self.launches:
            by_name.setdefault(name, []).append(milliseconds)
        rows: list[tuple[Any, ...]] = [("kernel", "launches", "total ms", "mean us", "least us", "most us")]
        for name, times in sorted(by_name.items(), key=lambda item: -sum(item[1])):
            in_us = [time * 1e3 for time in times]
            rows.append(
                (
                    name,
                    str(len(times)),
                    f"{sum(times):.3f}",
                    *(f"{time:.1f}" for time in (sum(in_us) / len(in_us), min(in_us), max(in_us))),
                )
            )
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        return "\n".join(
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
                ]
            )
            for row in rows
        )
