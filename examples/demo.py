"""The main job: a simulation, three times in fresh processes. Cold, warm, and after an edit.

Water falls (``splash.py``). The first process compiles its kernels, the second finds them, and the third, whose program
was edited, compiles the one kernel that the edit changes, and says why. The last two pictures are written side by side.

If there is a CUDA device, it runs there. Run by ``make demo``; ``python examples/demo.py [particles] [steps]``.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: What the third process finds instead: the gravity of Mars.
EDIT = ("v.y -= self.dt * 9.8", "v.y -= self.dt * 3.7")


# -- In a process of its own -----------------------------------------------------------------------


class Progress:
    """Says what goes on: a line that changes on a terminal, and lines elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self.is_terminal:
            print(f"\r\033[K    {text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def waiting(self, text: str, work):
        """Run something that may take a while, and return its result and the seconds it took."""
        done = threading.Event()

        def turn() -> None:
            begin = time.perf_counter()
            while not done.wait(0.05):
                self.show(f"{text}, {time.perf_counter() - begin:.1f} s")

        watcher = threading.Thread(target=turn, daemon=True)
        watcher.start()
        begin = time.perf_counter()
        try:
            result = work()
        finally:
            took = time.perf_counter() - begin
            done.set()
            watcher.join()
            self.clear()
        return result, took


def simulate(directory: str, particles: int, steps: int) -> None:
    """Run the program that lies in a directory, and print what happened as JSON."""
    import numpy as np

    import keyprint as kp

    sys.path.insert(0, directory)
    splash = importlib.import_module("splash")
    progress = Progress()
    water = splash.Water(particles)
    kernels = {}
    for name in ("start", "step"):
        kernel = getattr(splash.Water, name)
        _, took = progress.waiting(f"the first call of `{name}`", getattr(water, name))
        seen = kernel.observations
        how = "compiled" if seen.compiled else "loaded"
        kernels[name] = {"how": how, "seconds": took, "why": kernel.why()}
    begin = time.perf_counter()
    for at in range(1, steps):
        water.step()
        if at % 50 == 0:
            progress.show(f"step {at} of {steps}")
    progress.clear()
    kp.sync()
    seconds = time.perf_counter() - begin
    at = water.x.to_numpy()
    np.save(os.path.join(directory, "at.npy"), at)
    print(json.dumps({"kernels": kernels, "seconds": seconds, "centre": at.mean(0).tolist()}))


# -- The three of them -----------------------------------------------------------------------------


def run(directory: Path, particles: int, steps: int) -> dict:
    environment = {**os.environ, "KEYPRINT_CACHE_DIR": str(directory / "store")}
    command = [sys.executable, __file__, "--simulate", str(directory), str(particles), str(steps)]
    command += ["--cuda"] if has_device() else []
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(done.stdout.splitlines()[-1])
    report["process"] = time.perf_counter() - begin
    return report


def has_device() -> bool:
    """Return whether there is a CUDA device."""
    import keyprint as kp

    try:
        kp.init(arch=kp.cuda)
    except kp.DeviceError:
        return False
    return True


def tell(title: str, report: dict, steps: int) -> None:
    print(f"\n{title}")
    for name, kernel in report["kernels"].items():
        print(
            f"  {name:<6} {kernel['how']:<9} in {kernel['seconds'] * 1e3:8.1f} ms    {first_line(kernel['why'])}"
        )
    print(f"  {steps} steps in {report['seconds']:.2f} s, the whole process in {report['process']:.2f} s")


def first_line(text: str, most: int = 100) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= most else line[: most - 1] + "…"


def main() -> None:
    if sys.argv[1:2] == ["--simulate"]:
        simulate(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    sys.path.insert(0, str(HERE))
    import numpy as np
    import picture

    particles, steps = (int(argument) for argument in [*sys.argv[1:], "60000", "1000"][:2])
    where = "a CUDA device" if has_device() else "the CPU"
    print(f"Water, {particles:,} particles, {steps} steps on {where}, each time in a fresh process:")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        for name in ("splash.py", "picture.py", "place.py"):
            shutil.copy(HERE / name, directory)
        cold = run(directory, particles, steps)
        tell("1. cold: nothing was compiled before", cold, steps)
        warm = run(directory, particles, steps)
        tell("2. warm: the same program", warm, steps)
        same = np.load(directory / "at.npy")
        text = (directory / "splash.py").read_text()
        assert text.count(EDIT[0]) == 1
        (directory / "splash.py").write_text(text.replace(*EDIT))
        edited = run(directory, particles, steps)
        tell("3. edited: with the gravity of Mars", edited, steps)
        why = edited["kernels"]["step"]["why"]
        other = np.load(directory / "at.npy")
    seconds = [sum(kernel["seconds"] for kernel in report["kernels"].values()) for report in (cold, warm)]
    print(f"\nto the first results: {seconds[0] * 1e3:.0f} ms cold, {seconds[1] * 1e3:.1f} ms warm: ", end="")
    print(f"{seconds[0] / seconds[1]:.0f} times as long")
    print(f"why the third compiled: {why}")
    pictures = [picture.points(at, 384) for at in (same, other)]
    picture.write("demo.png", np.concatenate(pictures, axis=1))
    print("the water on earth and on Mars: demo.png")


if __name__ == "__main__":
    main()
