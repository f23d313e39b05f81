"""One fingerprinter, many threads."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import sys
from typing import Any

import keyprint as kp
import sample_types as st


def test_threads_agree() -> None:
    fingerprinter = kp.Fingerprinter(
        mode="lenient", overrides={st.Node: lambda node: kp.rule.ordered(node.value)}
    )
    value = [st.Point(i, {"k": st.Node([i]), "s": {i, str(i)}}) for i in range(200)]
    expected = fingerprinter(value)

    def work(seed: int) -> bool:
        @dataclasses.dataclass
        class Local:
            x: Any

        locals_agree = fingerprinter([Local(seed)]) == fingerprinter([Local(seed)])
        return locals_agree and all(fingerprinter(value) == expected for _ in range(10))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(40)))
    finally:
        sys.setswitchinterval(interval)


def test_a_list_that_another_thread_changes() -> None:
    import threading

    stop = threading.Event()
    value: list[Any] = [st.Reduced(i) for i in range(50)]

    def churn() -> None:
        while not stop.is_set():
            value.append(st.Reduced(0))
            del value[0]
            value[0] = [st.Point(3)]
            value.insert(0, st.Point(1))
            value.pop()

    thread = threading.Thread(target=churn)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            try:
                kp.fingerprint(value)
            except kp.FingerprintError as error:
                assert error.code == "changed"
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
