"""What each way to launch graphs costs on a device: measured once for each device and driver, and kept in the store."""

from __future__ import annotations

from ..._native import _cuda_devices, _graph_conditions, _graph_probe, _measure_graphs, _set_graph_costs
from ...dispatch.log import log
from ...errors import KeyprintError
from ...store.keys import Key
from .cuda import compile_cuda

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...store.stores import Store

__all__ = ["settle_costs"]

#: Raised when costs mean something else.
_TOOL: Final = ("keyprint-graph-costs", "1")

#: Devices of this process whose costs are known, or cannot be.
_settled: set[int] = set()


def settle_costs(device: int, nvrtc: tuple[Any, ...], flags: tuple[str, ...], kept_in: Store | None) -> None:
    """Have the ways to launch graphs known by what they cost on a device: from the store, or measured now.

    Without either, which takes an NVRTC, they are known by what they cost elsewhere.
    """
    if device in _settled:
        return
    _settled.add(device)
    driver, devices = _cuda_devices()
    _, name, capability, _ = devices[device]
    probe = (_graph_probe(), _graph_conditions())
    key = Key(
        ".costs of graphs",
        {"device": (name, *capability), "driver": driver, "probe": probe},
        tool=_TOOL,
    )
    entry = None if kept_in is None else kept_in.get(key)
    if entry is not None:
        costs = [tuple(cost) for cost in entry.metadata["costs"]]
    else:
        try:
            code, conditions = (compile_cuda(text, nvrtc, flags)[0] for text in probe)
            costs = list(_measure_graphs(device, code, conditions))
        except KeyprintError as error:
            why = str(error).partition("\n")[0]
            log("info", f"ways to launch graphs on `cuda:{device}` are not measured: {why}")
            return
        log("info", f"measured ways to launch graphs on `cuda:{device}`: {costs}")
        if kept_in is not None:
            kept_in.put(key, b"", {"costs": [list(cost) for cost in costs]})
    _set_graph_costs(device, costs)
