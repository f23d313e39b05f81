"""Kernels of these tests are kept in a store of their own, for all tests of a run."""

from __future__ import annotations

import pytest

import keyprint as kp


@pytest.fixture(scope="session")
def kernel_store(tmp_path_factory):
    return str(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(autouse=True)
def own_settings(kernel_store, monkeypatch):
    monkeypatch.setenv("KEYPRINT_CACHE_DIR", kernel_store)
    kp.init(offline_cache_file_path=kernel_store)
    yield
    kp.reset()
