"""Random graphs of loops, statements, checkpoints and sections, beside an interpreter of the same structure."""

from __future__ import annotations

import pytest

from semantics import graphs


@pytest.mark.parametrize("seed", range(48))
def test_random_graphs_do_what_an_interpreter_does(seed, tmp_path):
    size = 40 if seed % 3 == 1 else 5
    difference = graphs.judge(seed, tmp_path, size, is_own=seed % 2 == 1)
    assert difference is None, difference


def test_the_judge_of_graphs_sees_what_differs(tmp_path, monkeypatch):
    monkeypatch.setattr(graphs.Model, "run_pull", graphs.Model.run_mix)
    assert any("differ" in (graphs.judge(seed, tmp_path) or "") for seed in range(24))
