"""Kernels of these tests are kept in a store of their own, for all tests of a run.

``TEST_BACKEND`` says where they run: ``cpu``, ``emulated`` (CUDA without a GPU) or ``cuda``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import keyprint as kp

BACKEND = os.environ.get("TEST_BACKEND", "cpu")

if BACKEND == "emulated":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    import emulator

    os.environ.update(emulator.build())
    os.environ.update(emulator.real_nvrtc())
    os.environ.update(emulator.kept())


if BACKEND != "cpu":
    # Fields of test modules are made when those are imported.
    kp.init(arch=kp.cuda)


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: what only the CPU has, or what is not about where kernels run")


def pytest_collection_modifyitems(items):
    if BACKEND == "cpu":
        return
    skip = pytest.mark.skip(reason="only on the CPU")
    for item in items:
        if item.get_closest_marker("cpu"):
            item.add_marker(skip)


#: How graphs are launched on a device.
WAYS = ("fused", "nodes", "host")


def pytest_generate_tests(metafunc):
    is_graph = metafunc.module.__name__.rpartition(".")[2].startswith("test_graph")
    if BACKEND != "cpu" and is_graph and "kernel_store" in metafunc.fixturenames:
        metafunc.parametrize("kernel_store", WAYS, indirect=True, scope="session")


@pytest.fixture(scope="session")
def kernel_store(request, tmp_path_factory):
    return str(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(autouse=True)
def own_settings(kernel_store, request, monkeypatch):
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", kernel_store)
    way = getattr(request.node, "callspec", None)
    way = way and way.params.get("kernel_store")
    if way:
        monkeypatch.setenv("KEYPRINT_GRAPH", way)
    init = kp.init
    if BACKEND != "cpu":
        # Whatever a test says, it says it of kernels that run there.
        def init(*arguments, **options):
            original(*arguments, **{"arch": kp.cuda, **options})

        from keyprint.language import settings

        original = settings.init
        for module in (kp, settings):
            monkeypatch.setattr(module, "init", init)
    init(offline_cache_file_path=kernel_store)
    yield
    kp.reset()
