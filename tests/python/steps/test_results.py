"""Cached steps: what becomes of results, threads that ask for the same, and the decorator."""

from __future__ import annotations

import functools
import os
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from counted_steps import Secretive, Translate, calls, double, module_of, scaled

import keyprint as kp


@pytest.mark.parametrize(
    "value", [None, b"bytes", "text", 1.5, (1, [2]), {"a": {1: (2,)}, "b": b""}, float("inf"), {1, 2}, True]
)
def test_plain_results_come_back_as_they_were(store: kp.Store, value: Any) -> None:
    def make(store: kp.Store) -> kp.CachedStep[Any, Any]:
        return kp.CachedStep(double_of, input_key=kp.fingerprint, store=store)

    module = module_of("def identity(x): return x")
    double_of = module.identity
    cold, warm = make(store)(value), make(store)(value)
    assert cold == warm == value and type(warm) is type(value)
    assert store.stats()["builds"] == 1


def test_results_that_would_change_are_refused(store: kp.Store) -> None:
    step = kp.CachedStep(Translate, input_key=kp.fingerprint, store=store)
    with pytest.raises(kp.StoreError, match='choose serializer="pickle"') as caught:
        step(3)
    assert caught.value.code == "not-plain"
    pickled = kp.CachedStep(Translate, input_key=kp.fingerprint, store=store, serializer="pickle")
    assert pickled(3) == pickled(3) == Translate(3)
    with pytest.raises(kp.StoreError, match="no serializer `json`") as caught:
        kp.CachedStep(double, input_key=kp.fingerprint, serializer="json")
    assert caught.value.code == "no-such-serializer"


def test_serializers_do_not_share(store: kp.Store) -> None:
    upper = kp.Serializer("upper", lambda text: text.upper().encode(), bytes.decode, runs_code=False)
    plain = kp.CachedStep(str, input_key=kp.fingerprint, store=store)
    other = kp.CachedStep(str, input_key=kp.fingerprint, store=store, serializer=upper)
    assert (plain(None), other(None), plain(None), other(None)) == ("None", "None", "None", "NONE")


def test_nothing_is_unpickled_from_a_store_that_others_can_write(tmp_path: Path) -> None:
    path = tmp_path / "store"
    kp.CachedStep(Translate, input_key=str, store=kp.Store(path), serializer="pickle")(3)
    path.chmod(0o777)
    careful = kp.CachedStep(Translate, input_key=str, store=kp.Store(path), serializer="pickle")
    with pytest.raises(kp.StoreError, match=r"mode 0777.*\nhint: chmod go-w") as caught:
        careful(3)
    assert caught.value.code == "untrusted"


def test_what_can_no_longer_be_read_is_made_again(store: kp.Store) -> None:
    broken = [True]

    def loads(data: bytes) -> Any:
        if broken:
            raise ImportError("the class has moved")
        return data.decode()

    odd = kp.Serializer("odd", lambda text: str(text).encode(), loads, runs_code=False)
    steps = [kp.CachedStep(double, input_key=kp.fingerprint, store=store, serializer=odd)]
    # Where the entry cannot be replaced, the result is made all the same.
    steps.append(
        kp.CachedStep(
            double, input_key=kp.fingerprint, store=kp.Store(store.path, readonly=True), serializer=odd
        )
    )
    steps.append(
        kp.CachedStep(
            double,
            input_key=kp.fingerprint,
            store=kp.Store("/proc/nowhere", shared=[str(store.path)]),
            serializer=odd,
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kp.StoreWarning)
        assert [step("x") for step in (*steps, steps[0])] == ["xx"] * 4
    assert calls == ["x"] * 4
    broken.clear()
    assert steps[0]("x") == "xx" and len(calls) == 4


def test_threads_run_a_step_once_in_memory_too() -> None:
    def slow(value: int) -> int:
        calls.append(value)
        time.sleep(0.1)
        return value

    step = kp.CachedStep(slow, input_key=kp.fingerprint)
    threads = [threading.Thread(target=step, args=(1,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def test_failures_are_not_kept_and_each_caller_has_their_own() -> None:
    def fail(value: int) -> int:
        calls.append(value)
        time.sleep(0.05)
        raise ValueError(value)

    step = kp.CachedStep(fail, input_key=kp.fingerprint)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            step(1)
        except ValueError as error:
            caught.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == len(calls) == 4


def test_a_step_that_calls_itself() -> None:
    step: kp.CachedStep[int, int]

    def factorial(n: int) -> int:
        return 1 if n == 0 else n * step(n - 1)

    step = kp.CachedStep(factorial, input_key=kp.fingerprint)
    assert step(20) == 2432902008176640000


def test_the_decorator(store: kp.Store) -> None:
    cached = kp.cached(store=store, ignore=("verbose",))(scaled)
    assert cached(3) == cached(value=3) == cached(3, factor=2) == cached(3, verbose=True) == 6
    assert cached(3, factor=3) == 9 and cached(3, 4) == 14
    assert calls == [3, 3, 3]
    assert cached.__name__ == "scaled"
    with pytest.raises(TypeError, match="missing a required argument"):
        cached()  # type: ignore[call-arg]
    assert store.why_last(1)[0][2] == ["`input['rest'][0]`: new, 4"]


def test_the_decorator_without_arguments() -> None:
    @kp.cached
    def local(value: int) -> int:
        calls.append(value)
        return value

    assert local(1) == local(1) == 1 and calls == [1]


def test_methods_count_with_their_class(store: kp.Store) -> None:
    def run(edit: int) -> Any:
        module = module_of(
            f"""
            import keyprint as kp
            class Lower:
                def helper(self, v): return v * {edit}
                def go(self, v): return self.helper(v)
            """
        )
        go = kp.cached(store=store)(module.Lower.go)
        return go(module.Lower(), 10)

    assert [run(2), run(3), run(2)] == [20, 30, 20]
    assert store.stats()["builds"] == 2


def test_methods_of_local_classes_are_kept_in_memory() -> None:
    class Local:
        @kp.cached(ignore=("self",))
        def double(self, value: int) -> int:
            calls.append(value)
            return 2 * value

    assert [Local().double(2), Local().double(2)] == [4, 4] and calls == [2]


def test_what_is_ignored_is_not_written_down(store: kp.Store) -> None:
    cached = kp.cached(scaled, store=store, ignore=("verbose",))
    cached(1, verbose="hunter1")  # type: ignore[arg-type]
    hidden = kp.CachedStep(Translate(2, runtime="hunter2"), input_key=kp.fingerprint, store=store)
    hidden(1)
    chosen = kp.CachedStep(len, input_key=lambda pair: pair[0], store=store)
    chosen(("counts", "hunter3"))
    chosen(("counts too", "hunter4"))
    assert store.why_last(1)[0][2] == ["`input`: 'counts' -> 'counts too'"]
    own = kp.cached(scaled, store=store, input_key=lambda arguments: arguments["value"])
    own(1, verbose="hunter5")  # type: ignore[arg-type]
    store.get_or_build(kp.Key("k", {"secretive": Secretive("name", "hunter6")}), lambda: b"")
    assert store.path is not None
    written = b"".join(path.read_bytes() for path in store.path.rglob("*") if path.is_file())
    assert b"hunter" not in written


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_wait_for_its_parents_threads() -> None:
    barrier = threading.Barrier(2)

    def slow(value: int) -> int:
        if threading.current_thread() is not threading.main_thread():
            barrier.wait()
            time.sleep(0.2)
        return value

    step = kp.CachedStep(slow, input_key=kp.fingerprint)
    thread = threading.Thread(target=step, args=(1,))
    thread.start()
    barrier.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if step(1) == 1 else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_interrupt_leaves_no_flight_open() -> None:
    def interrupted(value: int) -> int:
        calls.append(value)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return value

    step = kp.CachedStep(interrupted, input_key=kp.fingerprint)
    with pytest.raises(KeyboardInterrupt):
        step(1)
    assert step(1) == 1
    assert len(step._flights) == 0


def test_the_decorators_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match=r"hint: write it as \(\"verbose\",\)"):
        kp.cached(ignore="verbose")(scaled)
    with pytest.raises(TypeError, match="names `quiet`, which"):
        kp.cached(ignore=("quiet",))(scaled)
    with pytest.raises(TypeError, match="bogus"):
        kp.cached(scaled, bogus=1)  # type: ignore[call-overload]


def test_methods_can_be_steps(store: kp.Store) -> None:
    first = kp.CachedStep(Translate(2).__call__, input_key=kp.fingerprint, store=store)
    second = kp.CachedStep(Translate(3).__call__, input_key=kp.fingerprint, store=store)
    assert (first(1), second(1), first(1)) == (2, 3, 2)
    part = kp.CachedStep(functools.partial(scaled, factor=5), input_key=kp.fingerprint, store=store)
    assert part(1) == part(1) == 5
    assert calls == [1, 1, 1]
