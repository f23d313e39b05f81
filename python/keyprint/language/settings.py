"""How kernels are compiled and run: what :func:`init` says, and otherwise what is usual."""

from __future__ import annotations

import os

from .._native import _seed, _set_threads, sync
from ..dispatch.specialization import LiveTarget, Target
from .types.devices import number_of, places
from .types.dtypes import defaults, scalar_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..dispatch.signatures.argument import Argument
    from ..store.stores import Store

__all__ = ["TARGET", "Settings", "cpu", "cuda", "current", "gpu", "init", "reset", "store", "sync"]


class Settings:
    """What was said to :func:`init`."""

    __slots__ = ("cache", "cache_path", "contract", "debug", "fast_math", "march")

    def __init__(self) -> None:
        self.debug = False
        self.fast_math = False
        #: Whether products and sums may be rounded once.
        self.contract = False
        self.march = "native"
        self.cache = True
        self.cache_path: str | None = None


current = Settings()

#: Options of Quadrants that change nothing that a program can see.
_LEFT_ALONE = frozenset(
    {
        *(
            "advanced_optimization",
            "cfg_optimization",
            "device_memory_GB",
            "device_memory_fraction",
            "enable_fallback",
        ),
        *("kernel_profiler", "log_level", "num_compile_threads", "offline_cache_cleaning_policy"),
        *(
            "offline_cache_max_size_of_files",
            "print_ir",
            "print_kernel_asm",
            "print_kernel_llvm_ir",
            "verbose",
        ),
    }
)

_stores: dict[str | None, Store] = {}


def _target() -> Any:
    from .compile.toolchain import target

    on_cpu = target(current, store())
    return on_cpu if places.default is None else _on_device(on_cpu, places.default)


def _on_device(target: Any, device: int) -> Any:
    from .compile.cuda import device_target

    return device_target(target, store(), device)


def _choose(target: Any, arguments: Mapping[str, Argument]) -> Any:
    """Return what to compile for: a launch runs where its arrays are, and follows `init` if they are on the host."""
    from .compile.placement import device_of

    device = device_of(arguments)
    if device is None or (isinstance(target, Target) and target.device == device):
        return target
    identity = target.identity if isinstance(target, Target) else target
    known = _targets.get((identity, device))
    if known is None:
        known = _targets[identity, device] = _on_device(identity, device)
    return known


#: Targets of devices that launches were sent to by their arguments, by what was said of the usual one.
_targets: dict[tuple[Any, int], Any] = {}


def _shown(target: Any) -> dict[str, Any]:
    identity = target.identity if isinstance(target, Target) else target
    arch, processor, compiler, flags, (default_int, default_float, debug) = identity
    return {
        "arch": arch,
        "processor": processor,
        "compiler": " ".join(str(part) for part in compiler if part),
        "march": next((flag[7:] for flag in flags if flag.startswith("-march=")), ""),
        "fast_math": "-ffast-math" in flags or "--use_fast_math" in flags,
        "contract": "-ffp-contract=fast" in flags or "--fmad=true" in flags,
        "default_int": default_int,
        "default_float": default_float,
        "debug": debug,
    }


#: What kernels are compiled for: settings, processor and compiler.
TARGET = LiveTarget(_target, _shown, _choose)


def store() -> Store | None:
    """Return where compiled kernels are kept."""
    if not current.cache:
        return None
    from ..store.stores import Store

    kept_in = _stores.get(current.cache_path)
    if kept_in is None:
        kept_in = _stores[current.cache_path] = (
            Store() if current.cache_path is None else Store(current.cache_path)
        )
    return kept_in


def init(
    arch: Any = None,
    *,
    default_ip: Any = None,
    default_fp: Any = None,
    debug: bool | None = None,
    fast_math: bool | None = None,
    contract: bool | None = None,
    march: str | None = None,
    cpu_max_num_threads: int | None = None,
    random_seed: int | None = None,
    offline_cache: bool | None = None,
    offline_cache_file_path: str | None = None,
    src_ll_cache: bool | None = None,
    **others: Any,
) -> None:
    """Say how kernels are compiled and run, from the next launch on. Calling it is optional.

    ``arch`` is ``kp.cpu`` or ``kp.cuda`` (``"cuda:1"`` for another device than the first): where arrays and fields are
    made, and where kernels run whose arrays are on the host. A kernel whose arrays are on a device runs there anyway.
    ``default_ip`` and ``default_fp`` are the types of numbers that say nothing else (``i32``, ``f32``).
    ``debug`` checks indices, assertions, divisions, shifts and conversions. ``fast_math`` lets the compiler treat
    floats as if they were real numbers, ``contract`` lets it round a product and a sum once. ``march`` is the
    processor to compile for. ``cpu_max_num_threads`` says how many threads work on a loop, ``random_seed`` where
    random numbers begin. ``offline_cache=False`` keeps compiled kernels in memory only, and
    ``offline_cache_file_path`` says where they are kept otherwise. Options of Quadrants that mean nothing here are
    taken and left alone.
    """
    for name in others:
        if name not in _LEFT_ALONE:
            raise TypeError(f"`init` has no option `{name}`")
    device = None if arch is None else number_of(arch)
    for name, given in (("default_ip", default_ip), ("default_fp", default_fp)):
        if given is not None and scalar_of(given) is None:
            raise TypeError(f"`{name}` is a type such as `kp.i64`, found {given!r}")
    reset()
    if default_ip is not None:
        defaults.int = scalar_of(default_ip)  # type: ignore[assignment]
    if default_fp is not None:
        defaults.float = scalar_of(default_fp)  # type: ignore[assignment]
    if defaults.int.name not in ("i32", "i64"):
        raise TypeError(f"`default_ip` is `i32` or `i64`, found `{defaults.int}`")
    if defaults.float.name not in ("f32", "f64"):
        raise TypeError(f"`default_fp` is `f32` or `f64`, found `{defaults.float}`")
    for name, value in (("debug", debug), ("fast_math", fast_math), ("contract", contract), ("march", march)):
        if value is not None:
            setattr(current, name, value)
    places.default = device
    if cpu_max_num_threads is not None:
        _set_threads(cpu_max_num_threads)
    if random_seed is not None:
        _seed(random_seed % 2**64)
    current.cache = offline_cache is not False and src_ll_cache is not False
    current.cache_path = offline_cache_file_path
    # Another thread may have looked at settings that were half said.
    TARGET.reset()


#: Where kernels run.
cpu = "cpu"
cuda = gpu = "cuda"


def reset() -> None:
    """Forget what was said to :func:`init`; compiled kernels stay."""
    fresh = Settings()
    for name in Settings.__slots__:
        setattr(current, name, getattr(fresh, name))
    defaults.reset()
    places.default = None
    _targets.clear()
    _set_threads(_threads())
    _seed(0)
    TARGET.reset()


def _threads() -> int:
    given = os.environ.get("KEYPRINT_THREADS", "")
    return int(given) if given.isdigit() else 0


_set_threads(_threads())
