"""Keys are judged by plain Python: random programs with random edits, a few hundred of them.

``make fuzz-keys`` runs as many as one likes.
"""

from __future__ import annotations

import pytest

from oracle.judge import DEFECTS, Judge, Pair, pair, report, shrink

#: How many pairs a batch has, and where batches begin.
PAIRS = 60


@pytest.fixture(scope="module")
def judge() -> object:
    with Judge() as oracle:
        yield oracle


@pytest.mark.parametrize("first", [0, 1_000, 2_000, 3_000, 4_000])
def test_nothing_happens_under_one_key_that_differs(judge: Judge, first: int) -> None:
    kinds: dict[str, int] = {}
    for seed in range(first, first + PAIRS):
        case = pair(seed)
        verdict = judge(case)
        kinds[verdict.kind] = kinds.get(verdict.kind, 0) + 1
        assert verdict.kind not in DEFECTS, report(shrink(judge, case), verdict, seed)
    assert kinds.get("right", 0) > PAIRS / 3, kinds
    assert kinds.get("refused", 0) < PAIRS / 5, kinds


def test_the_judge_sees_a_wrong_hit(judge: Judge) -> None:
    """Something that is documented not to count: plain Python sees it, the key does not."""
    text = "import functools\nclass C:\n    @functools.cached_property\n    def v(self):\n        return 1\nX = C()\nX.v = {}\n"
    program = text + "def f():\n    return X.v\n"
    files = [{"program": program.replace("{}", number), "lib": "UNRELATED = 1\n"} for number in ("2", "3")]
    verdict = judge(Pair(*files))
    assert verdict.kind == "wrong hit"
    small = shrink(judge, Pair(*files))
    assert "UNRELATED" not in small.files["lib"] and "return X.v" in small.files["program"]


def test_the_judge_sees_a_key_that_depends_on_the_hash_seed(judge: Judge) -> None:
    text = "class Odd:\n    def __fingerprint__(self):\n        import keyprint as kp\n        return kp.rule.leaf(hash('x'))\nX = Odd()\n"
    files = [{"program": text + f"def f():\n    return [X, {number}]\n", "lib": ""} for number in (1, 2)]
    assert judge(Pair(*files)).kind in ("unstable", "invalid")
