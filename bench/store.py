"""The store beside a plain file, diskcache and SQLite, in one run.

Every line times the same work with each tool, in turns, and prints medians and ratios. Plain files
and SQLite verify nothing; diskcache neither. Run by ``make bench``.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measured import medians, record

import keyprint as kp

SIZES = {"1 KB": 1_000, "64 KB": 65_536, "5 MB": 5_000_000}
Operation = Callable[[int], object]


def key(value: object) -> kp.Key:
    return kp.Key("bench", {"value": value})


def never() -> bytes:
    raise AssertionError("built again")


class Keyprint:
    """Verified; with and without waiting for the disk."""

    def __init__(self, directory: Path, *, sync: bool, memory: int = 0) -> None:
        self.store = kp.Store(directory, memory=memory, sync=sync, size="100 GiB")

    def put(self, name: int, data: bytes) -> None:
        self.store.put(key(name), data)

    def reader(self, name: int) -> Operation:
        known = key(name)
        return lambda _: self.store.get_or_build(known, never).data

    def viewer(self, name: int) -> Operation:
        known = key(name)
        return lambda _: self.store.get_or_build(known, never).view("data")


class PlainFile:
    """A file per name, written aside and renamed."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        self.directory = directory
        self.sync = sync
        directory.mkdir()

    def put(self, name: int, data: bytes) -> None:
        aside = self.directory / "aside"
        with open(aside, "wb") as file:
            file.write(data)
            if self.sync:
                file.flush()
                os.fsync(file.fileno())
        os.rename(aside, self.directory / str(name))

    def reader(self, name: int) -> Operation:
        path = str(self.directory / str(name))

        def read(_: int) -> bytes:
            with open(path, "rb") as file:
                return file.read()

        return read


class Sqlite:
    """A table of blobs, with a write-ahead log."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        directory.mkdir()
        self.database = sqlite3.connect(directory / "db", isolation_level=None)
        self.database.execute("pragma journal_mode = wal")
        self.database.execute(f"pragma synchronous = {'full' if sync else 'off'}")
        self.database.execute("create table entries (name integer primary key, data blob)")

    def put(self, name: int, data: bytes) -> None:
        self.database.execute("insert or replace into entries values (?, ?)", (name, data))

    def reader(self, name: int) -> Operation:
        query = "select data from entries where name = ?"
        return lambda _: self.database.execute(query, (name,)).fetchone()[0]


class Diskcache:
    """The cache that most Python programs use."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        import diskcache

        self.cache = diskcache.Cache(str(directory), size_limit=10**11, sqlite_synchronous=1 if sync else 0)

    def put(self, name: int, data: bytes) -> None:
        self.cache[name] = data

    def reader(self, name: int) -> Operation:
        return lambda _: self.cache[name]


TOOLS: dict[str, Callable[..., Any]] = {
    "Keyprint": Keyprint,
    "plain file": PlainFile,
    "SQLite": Sqlite,
    "diskcache": Diskcache,
}


def line(title: str, times: dict[str, float]) -> None:
    record("store", title, times)
    ours = times["Keyprint"]
    cells = [f"{ours * 1e6:10.1f}"]
    for name in list(TOOLS)[1:]:
        cells.append(
            f"{times[name] * 1e6:9.1f} ({times[name] / ours:4.1f}x)" if name in times else f"{'-':>17}"
        )
    print(f"{title:<34}" + "  ".join(cells), flush=True)


def tools(directory: Path, *, sync: bool) -> dict[str, Any]:
    opened = {}
    for name, make in TOOLS.items():
        try:
            opened[name] = make(directory / f"{name}-{sync}", sync=sync)
        except ImportError:
            print(f"{name} is not installed; left out")
    return opened


def reads(directory: Path) -> None:
    opened = tools(directory, sync=False)
    for title, size in SIZES.items():
        data = os.urandom(size)
        for tool in opened.values():
            tool.put(size, data)
        operations = {name: tool.reader(size) for name, tool in opened.items()}
        assert all(read(0) == data for read in operations.values())
        line(f"hit, {title}, from disk", medians(operations, repeat=5 if size > 10**6 else 300))
        if size > 10**6:
            operations["Keyprint"] = opened["Keyprint"].viewer(size)
            line(f"hit, {title}, as a view", medians(operations, repeat=5))
    memory = Keyprint(directory / "memory", sync=False, memory=1 << 30)
    memory.put(1, os.urandom(65_536))
    known = key(1)
    times = medians({"Keyprint": lambda _: memory.store.get_or_build(known, never)}, repeat=5000)
    line("hit, 64 KB, from memory", times)
    times = medians({"Keyprint": lambda i: key(i)}, repeat=2000)
    line("making a key of one small value", times)


def writes(directory: Path) -> None:
    for sync in (False, True):
        opened = tools(directory / "writes", sync=sync)
        for title, size in SIZES.items():
            data = os.urandom(size)
            operations = {
                name: lambda i, tool=tool, data=data: tool.put(i, data) for name, tool in opened.items()
            }
            how = "synced" if sync else "not synced"
            line(f"publish, {title}, {how}", medians(operations, repeat=3 if size > 10**6 else 30, rounds=9))


def read_many(name: str, path: str, size: int, repeat: int, start: Any, out: Any) -> None:
    tool = TOOLS[name].__new__(TOOLS[name])
    if name == "Keyprint":
        tool.store = kp.Store(path, memory=0, sync=False)
    elif name == "plain file":
        tool.directory = Path(path)
    elif name == "SQLite":
        tool.database = sqlite3.connect(f"{path}/db", isolation_level=None)
    else:
        import diskcache

        tool.cache = diskcache.Cache(path)
    read = tool.reader(size)
    read(0)
    start.wait()
    begin = time.perf_counter()
    for i in range(repeat):
        read(i)
    out.put((time.perf_counter() - begin) / repeat)


def contention(directory: Path) -> None:
    size, repeat = 65_536, 2000
    opened = tools(directory / "contention", sync=False)
    for tool in opened.values():
        tool.put(size, os.urandom(size))
    context = multiprocessing.get_context("spawn")
    for processes in (1, 2, 8):
        times = {}
        for name in opened:
            path = str(directory / "contention" / f"{name}-False")
            start, out = context.Barrier(processes), context.Queue()
            workers = [
                context.Process(target=read_many, args=(name, path, size, repeat, start, out))
                for _ in range(processes)
            ]
            for worker in workers:
                worker.start()
            times[name] = statistics.median(out.get() for _ in workers)
            for worker in workers:
                worker.join()
        line(f"hit, 64 KB, {processes} processes", times)


def race(path: str, log: str, start: Any) -> None:
    def build() -> bytes:
        with open(log, "a") as file:
            file.write("built\n")
        time.sleep(0.5)
        return bytes(20_000)

    store = kp.Store(path)
    start.wait()
    assert len(store.get_or_build(key("race"), build).data) == 20_000


def one_compile(directory: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Barrier(65)
    log = directory / "log"
    workers = [
        context.Process(target=race, args=(str(directory / "race"), str(log), start)) for _ in range(64)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - begin
    builds = log.read_text().count("built")
    print(
        f"\n64 processes miss one key at once: {builds} build of 500 ms, all have it after {took * 1e3:.0f} ms"
    )


def many(directory: Path, entries: int = 100_000) -> None:
    path = directory / "many"
    store = kp.Store(path, memory=0, sync=False)
    begin = time.perf_counter()
    for value in range(entries):
        store.put(key(value), b"x" * 200)
    print(f"\n{entries} entries of 200 bytes: published in {time.perf_counter() - begin:.1f} s")
    store.flush()

    def walk(_: int) -> int:
        return sum(
            os.stat(entry).st_size for shard in os.scandir(path / "v1/entries") for entry in os.scandir(shard)
        )

    def command(*arguments: str) -> Operation:
        program = [sys.executable, "-m", "keyprint", "--dir", str(path), *arguments]
        return lambda _: subprocess.run(program, check=True, stdout=subprocess.DEVNULL)

    times = medians(
        {
            "Keyprint": command("ls", "--json"),
            "stats": command("stats"),
            "gc": command("gc"),
            "walk": walk,
        },
        repeat=1,
        rounds=5,
    )
    names = {"Keyprint": "`keyprint ls` (reads every manifest)", "stats": "`keyprint stats`"}
    names |= {"gc": "`keyprint gc`, nothing to remove", "walk": "os.scandir and os.stat from Python"}
    for name, seconds in times.items():
        print(f"  {names[name]:<40}{seconds * 1e3:8.0f} ms")
    total = walk(0)
    begin = time.perf_counter()
    removed = store.gc(size=total // 2)
    print(f"  {f'gc that removes {removed} of them':<40}{(time.perf_counter() - begin) * 1e3:8.0f} ms")


def main() -> None:
    print(
        f"CPython {platform.python_version()}, {os.cpu_count()} cores, microseconds (how many times Keyprint's)"
    )
    print(f"{'':<34}{'Keyprint':>10}  " + "  ".join(f"{name:>17}" for name in list(TOOLS)[1:]))
    directory = Path(tempfile.mkdtemp(prefix="keyprint-bench-"))
    try:
        (directory / "writes").mkdir()
        (directory / "contention").mkdir()
        reads(directory)
        writes(directory)
        contention(directory)
        one_compile(directory)
        many(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
