"""Every error of the language: its code, the line, the caret, and what to do."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import textwrap

import numpy as np
import pytest
import wrong_graphs

import keyprint as kp
from keyprint.language.errors import KERNEL_CODES

pytestmark = pytest.mark.cpu

X = np.zeros(4, np.float32)

#: Programs that are wrong: code, part of the message, part of the hint, and the piece that the caret is under.
CASES = {
    "no annotation": (
        "annotation",
        "the parameter `y` has no annotation",
        "kp.template()",
        "y",
        """
        @kp.kernel
        def k(x: kp.types.NDArray[kp.f32, 1], y):
            x[0] = y
        """,
        (X, 1),
    ),
    "a variable of no type": (
        "annotation",
        "is no type of a variable",
        None,
        "n: 3 = 1",
        """
        @kp.kernel
        def k(x: kp.template()):
            n: 3 = 1
        """,
    ),
    "too many arguments": (
        "argument-count",
        "`f` takes 1 arguments, found 2",
        None,
        "f(1, 2)",
        """
        @kp.func
        def f(a):
            return a

        @kp.kernel
        def k(x: kp.template()):
            x[0] = f(1, 2)
        """,
    ),
    "a function of the library": (
        "call",
        "`ndarray` cannot be called in a kernel",
        "compute the rest outside",
        "kp.ndarray(kp.f32, 3)",
        """
        @kp.kernel
        def k(x: kp.template()):
            y = kp.ndarray(kp.f32, 3)
        """,
    ),
    "a missing argument": (
        "argument-count",
        "`f` is not given `b`",
        None,
        "f(1)",
        """
        @kp.func
        def f(a, b):
            return a

        @kp.kernel
        def k(x: kp.template()):
            x[0] = f(1)
        """,
    ),
    "a builtin with too few": (
        "argument-count",
        "`sqrt` takes 1 argument, found 2",
        None,
        "kp.sqrt(1, 2)",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = kp.sqrt(1, 2)
        """,
    ),
    "a constant divided by zero": (
        "arithmetic",
        "`//` by zero",
        None,
        "7 // (2 - 2)",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = 7 // (2 - 2)
        """,
    ),
    "a static assertion": (
        "arithmetic",
        "a static assertion does not hold: only 2-D",
        None,
        'kp.static_assert(x.ndim == 2, "only 2-D")',
        """
        @kp.kernel
        def k(x: kp.template()):
            kp.static_assert(x.ndim == 2, "only 2-D")
        """,
    ),
    "assigning to an array": (
        "assignment",
        "`x` is an array",
        "assign to an element",
        None,
        """
        @kp.kernel
        def k(x: kp.template()):
            x += 1
        """,
    ),
    "a member of an object": (
        "assignment",
        "members of a `Box` cannot be set in a kernel",
        "write to an element",
        "b.n",
        """
        class Box:
            n = 3

        BOX = Box()

        @kp.kernel
        def k(x: kp.template(), b: kp.template()):
            b.n = 4
        """,
        (X, None),
    ),
    "no such member": (
        "attribute",
        "has no member `shap`",
        None,
        "x.shap",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = x.shap[0]
        """,
    ),
    "a method of Python": (
        "attribute",
        "`fill` cannot be called in a kernel",
        "call it from Python",
        "x.fill",
        """
        @kp.kernel
        def k(x: kp.template()):
            x.fill(0)
        """,
    ),
    "calling a number": (
        "call",
        "a `i32` cannot be called",
        None,
        "i(2)",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in range(3):
                x[i] = i(2)
        """,
    ),
    "calling a library": (
        "call",
        "cannot be called in a kernel",
        "compute the rest outside",
        "sorted(x)",
        """
        @kp.kernel
        def k(x: kp.template()):
            y = sorted(x)
        """,
    ),
    "comparing a text": (
        "comparison",
        "`<` is not defined for a `f32` and a text",
        None,
        "x[0] < 'a'",
        """
        @kp.kernel
        def k(x: kp.template()):
            if x[0] < 'a':
                x[0] = 1
        """,
    ),
    "static of a number that is not known": (
        "constant-needed",
        "must be known when the kernel is compiled, and `n` comes with each call",
        "annotate `n` with `template()`",
        "kp.static(n)",
        """
        @kp.kernel
        def k(x: kp.template(), n: kp.i32):
            if kp.static(n):
                x[0] = 1
        """,
        (X, 1),
    ),
    "unrolling what is not known": (
        "constant-needed",
        "the range of an unrolled loop must be known",
        "template()",
        "kp.static(range(m))",
        """
        @kp.kernel
        def k(x: kp.template()):
            m = 3
            for i in kp.static(range(m)):
                x[i] = 1
        """,
    ),
    "too many indices": (
        "index",
        "`x` has 1 dimension, found 2 indexes",
        "give 1 index",
        "0, 1",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0, 1] = 1
        """,
    ),
    "a float as an index": (
        "index",
        "an index is an int, found a `f32`",
        "int(...)",
        "x[1]",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[x[1]] = 1
        """,
    ),
    "a negative index": (
        "index",
        "the index -1 of `x` is negative",
        "x.shape[0] - 1",
        "-1",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[-1] = 1
        """,
    ),
    "beyond a vector": (
        "index",
        "index 3 of 2",
        None,
        "3",
        """
        @kp.kernel
        def k(x: kp.template()):
            v = kp.Vector([1, 2])
            x[0] = v[3]
        """,
    ),
    "a loop over a number": (
        "iteration",
        "cannot loop over the int `3`",
        "range(...)",
        "3",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in 3:
                x[i] = 1
        """,
    ),
    "leaving a parallel loop": (
        "loop-control",
        "a parallel loop cannot be left with `break`",
        "loop_config(serialize=True)",
        "break",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in x:
                break
        """,
    ),
    "a name that is not there": (
        "name",
        "`nope` is not defined",
        None,
        "nope",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = nope
        """,
    ),
    "too much is unrolled": (
        "nesting",
        "unrolled more than 4096 times",
        "without `static`",
        "kp.static(range(100000))",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in kp.static(range(100000)):
                x[0] += i
        """,
    ),
    "adding an array": (
        "operand",
        "`+` is not defined for an array of 1 dimension of `f32` and the int `1`",
        None,
        "x + 1",
        """
        @kp.kernel
        def k(x: kp.template()):
            y = x + 1
        """,
    ),
    "bits of floats": (
        "operand",
        "`&` is not defined for `f32`",
        "bit_cast",
        "x[0] & 1",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = x[0] & 1
        """,
    ),
    "a large constant": (
        "overflow",
        "does not fit into 64 bits",
        None,
        "99999999999999999999999",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = 99999999999999999999999
        """,
    ),
    "recursion": (
        "recursion",
        "`f` calls itself",
        "write a loop",
        "f(n - 1)",
        """
        @kp.func
        def f(n):
            return f(n - 1)

        @kp.kernel
        def k(x: kp.template()):
            x[0] = f(3)
        """,
    ),
    "returning from a parallel loop": (
        "return",
        "a parallel loop cannot return",
        "after the loop",
        "return 1",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in x:
                return 1
        """,
    ),
    "returning nothing": (
        "return",
        "says that it returns something",
        "add a `return`",
        "k",
        """
        @kp.kernel
        def k(x: kp.template()) -> kp.f32:
            x[0] = 1
        """,
    ),
    "returning an array": (
        "return",
        "a kernel cannot return an array",
        "return numbers",
        "return x",
        """
        @kp.kernel
        def k(x: kp.template()):
            return x
        """,
    ),
    "vectors of other sizes": (
        "shape",
        "a vector of 2 `i32` and a vector of 3 `i32` do not go together",
        None,
        "kp.Vector([1, 2]) + kp.Vector([1, 2, 3])",
        """
        @kp.kernel
        def k(x: kp.template()):
            v = kp.Vector([1, 2]) + kp.Vector([1, 2, 3])
        """,
    ),
    "a vector into a number": (
        "shape",
        "expected a number, found a vector of 2 `i32`",
        None,
        "x[0] = kp.Vector([1, 2])",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = kp.Vector([1, 2])
        """,
    ),
    "try": (
        "syntax",
        "raising and catching exceptions is not supported",
        "assert",
        None,
        """
        @kp.kernel
        def k(x: kp.template()):
            try:
                x[0] = 1
            finally:
                pass
        """,
    ),
    "lambda": (
        "syntax",
        "a `lambda` is not supported",
        "@func",
        "lambda a: a",
        """
        @kp.kernel
        def k(x: kp.template()):
            f = lambda a: a
        """,
    ),
    "dict": (
        "syntax",
        "a dict is not supported",
        "struct",
        "{1: 2}",
        """
        @kp.kernel
        def k(x: kp.template()):
            d = {1: 2}
        """,
    ),
    "slice": (
        "syntax",
        "a slice is not supported",
        "loop over",
        "1:2",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[1:2] = 0
        """,
    ),
    "global": (
        "syntax",
        "assigning to globals is not supported",
        "array of one element",
        "global N",
        """
        @kp.kernel
        def k(x: kp.template()):
            global N
            N = 1
        """,
    ),
    "else of a loop": (
        "syntax",
        "`else` of a loop is not supported",
        "set a variable",
        None,
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in range(3):
                pass
            else:
                x[0] = 1
        """,
    ),
    "a variable of another type": (
        "type",
        "`v` is a `i32`, and a vector of 2 `i32` is assigned to it",
        "use another name",
        None,
        """
        @kp.kernel
        def k(x: kp.template()):
            v = 1
            v = kp.Vector([1, 2])
        """,
    ),
    "a func that wants a number": (
        "type",
        "`a` takes a `f32`, found an array",
        None,
        "f(x)",
        """
        @kp.func
        def f(a: kp.f32):
            return a

        @kp.kernel
        def k(x: kp.template()):
            y = f(x)
        """,
    ),
    "a range of floats": (
        "type",
        "a range is made of ints, found a `f32`",
        "int(...)",
        "range(x[0])",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in range(x[0]):
                pass
        """,
    ),
    "assigned in one branch only": (
        "undefined",
        "`v` may not have been assigned here",
        "before the `if`",
        "v",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i in x:
                if i > 2:
                    v = 1
                x[i] = v
        """,
    ),
    "used before it is assigned": (
        "undefined",
        "`v` is used before it is assigned",
        "assign `v` first",
        "v",
        """
        @kp.kernel
        def k(x: kp.template()):
            x[0] = v
            v = 1
        """,
    ),
    "other numbers of targets": (
        "unpacking",
        "2 targets for 3 values",
        None,
        None,
        """
        @kp.kernel
        def k(x: kp.template()):
            a, b = 1, 2, 3
        """,
    ),
    "other dimensions": (
        "unpacking",
        "2 variables for 1 dimension",
        "grouped",
        "i, j",
        """
        @kp.kernel
        def k(x: kp.template()):
            for i, j in x:
                pass
        """,
    ),
}


CASES |= wrong_graphs.CASES


def load(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text("import keyprint as kp\n" + textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CASES)
def test_errors_say_what_and_where(name, tmp_path):
    code, message, hint, piece, text, *arguments = CASES[name]
    module = load(tmp_path, text)
    given = arguments[0] if arguments else (X,)
    given = tuple(module.BOX if argument is None else argument for argument in given)
    given = tuple(getattr(module, argument) if isinstance(argument, str) else argument for argument in given)
    with pytest.raises(kp.KernelError) as caught:
        module.k(*given)
    error = caught.value
    assert error.code == code, str(error)
    assert message in error.message, str(error)
    assert hint is None or hint in (error.hint or ""), str(error)
    function, file, line, column, width, source = error.trace[-1]
    lines = (tmp_path / "program.py").read_text().splitlines()
    assert file.endswith("program.py") and lines[line - 1] == source, str(error)
    if piece is not None:
        assert source[column : column + width].startswith(piece), (
            source[column : column + width],
            str(error),
        )
    assert "^" in str(error) and f"line {line}" in str(error)


def test_every_code_of_the_compiler_has_a_case():
    from keyprint._native import _language_codes

    tried = {case[0] for case in CASES.values()}
    assert {code for code, _ in _language_codes()} - tried == {"devices", "source"}


def test_the_way_through_functions_is_shown(tmp_path):
    module = load(
        tmp_path,
        """
        @kp.func
        def inner(a):
            return a.nope

        @kp.func
        def outer(a):
            return inner(a) + 1

        @kp.kernel
        def k(x: kp.template()):
            for i in x:
                x[i] = outer(x[i])
        """,
    )
    with pytest.raises(kp.KernelError) as caught:
        module.k(X)
    assert [frame[0] for frame in caught.value.trace] == ["k", "outer", "inner"]
    text = str(caught.value)
    assert text.index("in `inner`") < text.index("inlined in `outer`") < text.index("inlined in `k`")
    assert re.search(r"return inner\(a\) \+ 1\n +\^{8}", text)


def test_a_function_without_source():
    names = {"kp": kp}
    exec("def f(x: kp.template()):\n    x[0] = 1", names)
    with pytest.raises(kp.KernelError, match="the source of `f` is not known") as caught:
        kp.kernel(names["f"])(X)
    assert caught.value.code == "source"


@kp.kernel
def wants(x: kp.types.NDArray[kp.f32, 2], n: kp.i32):
    for i, j in x:
        x[i, j] = n


def test_arguments_that_do_not_fit():
    good = np.zeros((2, 2), np.float32)
    with pytest.raises(
        kp.KernelTypeError, match=r"`x` is annotated with `NDArray\[f32, 2\]`, found an array of `f64`"
    ):
        wants(np.zeros((2, 2)), 1)
    with pytest.raises(kp.KernelTypeError, match="with 1 dimension "):
        wants(np.zeros(2, np.float32), 1)
    with pytest.raises(kp.SignatureError, match="the argument `n` is a `i32`: expected an int, found a"):
        wants(good, 1.5)
    with pytest.raises(OverflowError, match="does not fit into a `i32`"):
        wants(good, 2**31)
    with pytest.raises(kp.KernelTypeError, match="expected|is an array"):
        wants(3, 1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        wants(good)
    with pytest.raises(kp.KernelTypeError, match="of which kernels know nothing"):
        wants(np.zeros((2, 2), complex), 1)
    frozen = np.zeros((2, 2), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(kp.KernelTypeError, match="`x` is read-only") as caught:
        wants(frozen, 1)
    assert caught.value.code == "assignment"
    wants(good, np.int64(7))
    wants(good, True)
    assert good.tolist() == [[1, 1], [1, 1]]


def test_an_annotation_that_is_none():
    def k(x: "not a type"):  # noqa: F722
        pass

    with pytest.raises((kp.KernelError, SyntaxError)):
        kp.kernel(k)

    def other(x: str):
        pass

    with pytest.raises(kp.KernelError, match="is no type of the kernel language") as caught:
        kp.kernel(other)
    assert caught.value.code == "annotation"


CHECKED = """
@kp.kernel
def checked(x: kp.types.NDArray[kp.i32, 2], i: kp.i32, j: kp.i32, d: kp.i32):
    for k in range(1):
        x[i, j] = 8 // d
        x[0, 0] = 1 << d
        v = kp.Vector([1, 2, 3])
        x[0, 1] = v[d]
        y = 1e30 * d
        if d == 2:
            x[0, 0] = int(y)
        assert d != 1, f"d is {d}"
"""


def test_debug_mode(tmp_path):
    # In a file of its own: pytest rewrites the assertions of this one.
    checked = load(tmp_path, CHECKED).checked
    kp.init(debug=True)
    x = np.zeros((3, 4), np.int32)
    with pytest.raises(
        kp.KernelIndexError, match=r"index \(3, 0\) of `x` is out of range for shape \(3, 4\)"
    ) as caught:
        checked(x, 3, 0, 1)
    assert caught.value.code == "bounds"
    assert "x[i, j] = 8 // d" in str(caught.value)
    with pytest.raises(kp.KernelIndexError, match=r"index \(0, -1\)"):
        checked(x, 0, -1, 1)
    for d, code, kind in (
        (0, "division", kp.KernelRuntimeError),
        (40, "shift", kp.KernelRuntimeError),
        (3, "bounds", kp.KernelIndexError),
        (2, "range", kp.KernelRuntimeError),
        (1, "assertion", kp.KernelAssertionError),
    ):
        with pytest.raises(kind) as caught:
            checked(x, 0, 0, d)
        assert caught.value.code == code
        assert caught.value.trace, code
    with pytest.raises(AssertionError, match="d is 1"):
        checked(x, 0, 0, 1)


@kp.kernel
def overlapping(a: kp.types.NDArray[kp.f32, 1], b: kp.types.NDArray[kp.f32, 1]):
    for i in range(a.shape[0]):
        a[i] += 1
        b[i] += 2


def test_arrays_that_overlap():
    whole = np.zeros(10, np.float32)
    with pytest.raises(kp.KernelRuntimeError, match="overlaps") as caught:
        overlapping(whole[:-1], whole[1:])
    assert caught.value.code == "overlap"
    overlapping(whole, whole)
    assert whole.tolist() == [3] * 10
    overlapping(whole[:5], whole[5:])
    assert whole.tolist() == [4] * 5 + [5] * 5


@kp.kernel
def vectors(x: kp.types.NDArray[kp.types.vector(3, kp.f32), 1]):
    for i in x:
        x[i] = 1.0


def test_elements_of_another_shape():
    with pytest.raises(kp.KernelTypeError) as caught:
        vectors(np.zeros((4, 2), np.float32))
    assert caught.value.code == "element-shape"
    vectors(np.zeros((4, 3), np.float32))


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("KEYPRINT_CC", raising=False)
    kp.init(offline_cache_file_path=str(tmp_path / "store"))
    with pytest.raises(kp.CompilerError, match="there is no C compiler") as caught:
        vectors(np.zeros((4, 3), np.float32))
    assert caught.value.code == "no-compiler" and "KEYPRINT_CC" in caught.value.hint
    monkeypatch.setenv("KEYPRINT_CC", str(tmp_path / "nope"))
    with pytest.raises(kp.CompilerError, match="`KEYPRINT_CC` names"):
        vectors(np.zeros((4, 3), np.float32))


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    script = tmp_path / "cc"
    script.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo 1; exit; fi\nif [ "$1" = -dumpmachine ]; then echo m; exit; fi\necho broken >&2; exit 3\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("KEYPRINT_CC", str(script))
    kp.init(offline_cache_file_path=str(tmp_path / "store"))
    with pytest.raises(kp.CompilerError, match="broken") as caught:
        vectors(np.zeros((4, 3), np.float32))
    assert caught.value.code == "compiler-failed"


@kp.kernel
def loses(out: kp.types.NDArray[kp.i32, 1]):
    for i in out:
        n = 1
        n = 2.5
        out[i] = n


def test_losing_precision_is_said():
    out = np.zeros(2, np.int32)
    with pytest.warns(UserWarning, match="`n` is a `i32`, and what is assigned to it is a `f32`"):
        loses(out)
    assert out.tolist() == [2, 2]


def test_all_codes_are_documented():
    import pathlib

    text = (pathlib.Path(__file__).parents[3] / "docs" / "language.md").read_text()
    for code, meaning in KERNEL_CODES.items():
        assert f"| `{code}` | {meaning} |" in text, code


@dataclasses.dataclass
class Box:
    n: int


class Opaque:
    """It keeps its members in native code, where nothing can look for them."""

    def __init__(self):
        self.held = memoryview(b"abc")

    def __getattribute__(self, name):
        return 3


def test_warnings_point_at_the_call():
    @kp.kernel
    def reads(x: kp.types.NDArray[kp.i32, 1], o: kp.template()):
        for i in x:
            x[i] = o.width

    x = np.zeros(2, np.int32)
    with pytest.warns(UserWarning, match="has no cache signature") as caught:
        reads(x, Opaque())
    assert (x.tolist(), caught[0].filename) == ([3, 3], __file__)
