"""F1: equal across processes, hash seeds and addresses."""

from __future__ import annotations

from processes import outputs

CODE = """
import collections, dataclasses, datetime, decimal, enum, functools, sys, types
import numpy as np
import sample_types as st
import keyprint as kp

ballast = [object() for _ in range(hash("x") % 1000)]
values = [
    {"a", "b", "c", ("d", 1)}, frozenset(map(str, range(100))), {str(i): {str(i + j) for j in range(9)} for i in range(50)},
    st.Point({"x", "y"}, {st.Color.RED: {1, "1"}}), st.AttrsPoint({"k": {"l"}}), st.Model(x={"a", "b"}),
    st.Plain(a={"s", "t"}, b=st.SlottedChild()), st.Reduced({"u", "v"}), types.SimpleNamespace(a={"a", "b"}),
    collections.defaultdict(set, {1: {"a", "b"}}), collections.OrderedDict(a={"x", "y"}), st.MyDict(a={"b", "c"}),
    st.Perm.R | st.Perm.W, st.Color, enum.Enum("Local", {"A": frozenset("abc")}), functools.partial(st.function, {"a", "b"}),
    datetime.date(2026, 1, 1), decimal.Decimal("1.5"), np.arange(5), np.array([{"a", "b"}], dtype=object), np.float32(1),
    len, st.Holder.Inner, sys, dict[str, set[int]], "\\ud800",
]
loop = [{"p", "q"}]
loop.append(loop)
values.append(loop)
for value in values:
    print(kp.fingerprint(value))
lenient = kp.Fingerprinter(mode="lenient")
class C:
    tile = {"a", "b", "c"}
    def f(self, x={"u", "v"}): return [y for y in ("p", "q") if y in {"r", "s", "t"}]
for value in (lambda x=frozenset("abc"): x in {"k", "l", "m"}, C, C()):
    print(lenient(value))
"""


def test_processes_and_hash_seeds_agree() -> None:
    first, *others = outputs(CODE)
    assert len(first.split()) > 25
    assert all(other == first for other in others)


def test_this_process_agrees_too() -> None:
    import keyprint as kp

    code = "import keyprint as kp; print(kp.fingerprint({'a': [1, {2, 3}]}))"
    assert set(outputs(code)) == {f"{kp.fingerprint({'a': [1, {2, 3}]})}\n"}
