"""A store of 200,000 entries beside one of 100: what a hit, a miss and the command line cost. Run by ``make bench``.

``STORE_ENTRIES`` says how many instead of 200,000.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measured import medians, record

import keyprint as kp

MANY = int(os.environ.get("STORE_ENTRIES", "200000"))
FEW = 100
#: Kernels have names, and many specialisations each.
NAMES = 1000


def key(number: int) -> kp.Key:
    return kp.Key(f"program.kernel_{number % NAMES}", {"specialisation": number})


def fill(path: Path, entries: int) -> kp.Store:
    store = kp.Store(path, size="100 GiB", memory=0, sync=False)
    start = time.perf_counter()
    for number in range(entries):
        store.put(key(number), b"code" * 50)
    took = time.perf_counter() - start
    print(f"{entries:>9,} entries published, {took / entries * 1e6:.0f} us each", flush=True)
    return store


def line(title: str, times: dict[str, float], bar: str = "") -> None:
    few, many = times["few"], times["many"]
    record("growth", title, {f"{FEW} entries": few, f"{MANY:,} entries": many})
    print(f"{title:<38}{few * 1e3:10.3f} ms{many * 1e3:12.3f} ms   {many / few:6.2f}x   {bar}", flush=True)


def command(path: Path, *arguments: str) -> tuple[float, int]:
    """Return the seconds of a command and the most memory that it had, in bytes."""
    program = Path(sysconfig.get_path("scripts")) / "keyprint"
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, program, "--dir", path, *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, arguments
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main() -> None:
    print(f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}\n")
    with tempfile.TemporaryDirectory() as directory:
        stores = {
            "few": fill(Path(directory) / "few", FEW),
            "many": fill(Path(directory) / "many", MANY),
        }
        print(f"\n{'':<38}{FEW:>10,}   {MANY:>12,}      ratio")

        def hit(store: kp.Store) -> Callable[[int], object]:
            known = [key(number) for number in range(FEW)]
            return lambda i: store.get(known[i % FEW]).data

        def absent(store: kp.Store) -> Callable[[int], object]:
            return lambda i: store.get(key(10_000_000 + i))

        def floor(store: kp.Store) -> Callable[[int], object]:
            """What the file system takes to say that there is no such file."""
            entries = f"{store.path}/v1/entries"

            def look(i: int) -> None:
                name = f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}"
                with contextlib.suppress(FileNotFoundError):
                    os.open(f"{entries}/{name[:2]}/{name[2:]:0>62}.kpe", os.O_RDONLY)

            return look

        def build(store: kp.Store) -> Callable[[int], object]:
            return lambda i: store.get_or_build(key(20_000_000 + i), lambda: b"code" * 50)

        def why(store: kp.Store) -> Callable[[int], object]:
            return lambda i: store.why(key(30_000_000 + i))

        for title, make, rounds, repeat, bar in (
            ("hit, from disk", hit, 31, 500, "bar 1.1x"),
            ("lookup that misses", absent, 31, 500, "bar 1.1x"),
            ("  `open` of a file that is not there", floor, 31, 500, "the floor of that"),
            ("miss: build and publish", build, 31, 20, "bar 1.1x"),
            ("reasons of a miss, when asked for", why, 5, 1, ""),
            ("number of entries (`len`)", lambda store: lambda _: len(store), 3, 1, ""),
        ):
            operations = {name: make(store) for name, store in stores.items()}
            line(title, medians(operations, rounds=rounds, repeat=repeat), bar)
        commands = {
            "ls --limit 5": ("ls", "--limit", "5"),
            "ls --limit 5 --sort used": ("ls", "--limit", "5", "--sort", "used"),
            "why --last": ("why", "--last"),
            "stats": ("stats",),
            "gc": ("gc",),
            "gc --older-than 1000d --dry-run": ("gc", "--older-than", "1000d", "--dry-run"),
        }
        for title, arguments in commands.items():
            measured = {
                name: [command(Path(directory) / name, *arguments) for _ in range(3)] for name in stores
            }
            bar = "bar 200 ms" if title == "ls --limit 5" else ""
            line(f"keyprint {title}", {name: min(runs)[0] for name, runs in measured.items()}, bar)
            most = max(memory for _, memory in measured["many"])
            print(f"{'':<38}{'':>10}   {most / 2**20:9.0f} MiB", flush=True)
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"\nthis process had at most {own:.0f} MiB")


if __name__ == "__main__":
    main()
