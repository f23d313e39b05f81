"""A whole kernel language in one file: elementwise functions of arrays, compiled to C, on Keyprint's dispatcher.

    @elementwise
    def smooth(out, x, y, a):
        t = a * x + OFFSET
        out[:] = (t * t + y) / 2

    smooth(out, x, y, 0.5)

What is written is what NumPy would compute, array by array; it becomes one loop over all of them. The language's own part
is a hundred lines: checks of what is written, and C for expressions. When compiled code may be used again, which arguments
count, what a global that changed means, where artifacts are kept: all that is Keyprint's.

python examples/tiny_language.py
"""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import subprocess
import tempfile
import textwrap
from pathlib import Path

import keyprint as kp

#: Part of every key: raise it whenever the C that is written means something else.
VERSION = "2"

OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
FUNCTIONS = {"sqrt": "__builtin_sqrt", "abs": "__builtin_fabs"}


class LanguageError(TypeError):
    """Something that this language does not have."""


# -- From a function to C --------------------------------------------------------------------------


class Writer(ast.NodeVisitor):
    """Writes an expression as C. Names are parameters, variables, or numbers from outside."""

    def __init__(self, function, known: set[str]) -> None:
        self.function = function
        self.known = known

    def fail(self, node: ast.AST, why: str):
        where = (
            f"{self.function.__code__.co_filename}:{self.function.__code__.co_firstlineno + node.lineno - 1}"
        )
        raise LanguageError(f"{where}: {why}: `{ast.unparse(node)}`")

    def generic_visit(self, node: ast.AST) -> str:
        return self.fail(node, "not in this language")

    def visit_Constant(self, node: ast.Constant) -> str:
        return repr(float(node.value)) if type(node.value) in (int, float) else self.fail(node, "no number")

    def visit_Name(self, node: ast.Name) -> str:
        if node.id in self.known:
            return f"v_{node.id}"
        # Whatever is read here is part of the key already: the function reads it.
        value = inspect.getclosurevars(self.function).globals.get(node.id)
        return repr(float(value)) if type(value) in (int, float) else self.fail(node, "not defined")

    def visit_BinOp(self, node: ast.BinOp) -> str:
        operator = OPERATORS.get(type(node.op)) or self.fail(node, "no such operator")
        return f"({self.visit(node.left)} {operator} {self.visit(node.right)})"

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        return (
            f"(-{self.visit(node.operand)})"
            if isinstance(node.op, ast.USub)
            else self.fail(node, "no such operator")
        )

    def visit_Call(self, node: ast.Call) -> str:
        name = FUNCTIONS.get(getattr(node.func, "id", "")) or self.fail(node, "no such function")
        return f"{name}({', '.join(map(self.visit, node.args))})"


def c_source(spec: kp.Specialization) -> tuple[str, list[str]]:
    """Return C for a specialization, and the slots that it is called with."""
    if spec.source is None:
        raise LanguageError(f"the source of `{spec.name}` is not known")
    (tree,) = ast.parse(textwrap.dedent(spec.source)).body
    slots, loads = [], []
    for name, argument in spec.arguments.items():
        at = len(slots)
        if argument.kind == "array":
            if (argument.dtype, argument.ndim, argument.layout) != ("float64", 1, "C"):
                raise LanguageError(
                    f"`{name}` is {argument}, expected a contiguous float64 array of one dimension"
                )
            slots += [name, f"{name}.shape[0]"]
            loads.append(f"double *const a_{name} = (double *)w[{at}]; double v_{name} = a_{name}[i];")
        else:
            slots.append(f"{name}:f64")
            loads.append(f"double v_{name}; __builtin_memcpy(&v_{name}, &w[{at}], 8);")
    sizes = [at for at, slot in enumerate(slots) if slot.endswith(".shape[0]")]
    lines = body_of(tree.body, Writer(spec.function, set(spec.arguments)))
    inside = "\n    ".join(loads + lines)
    differ = " || ".join(f"w[{at}] != n" for at in sizes)
    return (
        f"int f(unsigned long long *w) {{\n  const unsigned long long n = w[{sizes[0]}];\n  if ({differ}) return 1;\n"
        f"  for (unsigned long long i = 0; i < n; i++) {{\n    {inside}\n  }}\n  return 0;\n}}\n",
        slots,
    )


def body_of(statements: list[ast.stmt], writer: Writer) -> list[str]:
    """Return the statements of a function as C: `t = ...`, `out[:] = ...`, and texts."""
    lines = []
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                new = "" if name in writer.known else "double "
                lines.append(f"{new}v_{name} = {writer.visit(value)};")
                writer.known.add(name)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(None, None, None))],
                value=value,
            ):
                lines.append(f"v_{name} = a_{name}[i] = {writer.visit(value)};")
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case _:
                writer.fail(statement, "not in this language")
    return lines


# -- What the dispatcher is given ------------------------------------------------------------------


def compile(spec: kp.Specialization) -> kp.Artifact:
    """Make an artifact; called when there is none that may be used."""
    text, slots = c_source(spec)
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "kernel.so"
        command = [*spec.target[1], "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=text.encode(), check=True)
        return kp.Artifact({"kernel.so": library.read_bytes(), "kernel.c": text.encode()}, {"slots": slots})


def load(artifact: kp.Artifact) -> kp.NativeCode:
    """Make an artifact executable, also one that another process made."""
    library = ctypes.CDLL(artifact.path("kernel.so"))
    address = ctypes.cast(library.f, ctypes.c_void_p).value

    def error(status: int) -> Exception:
        return ValueError("all arrays have the size of `out`")

    return kp.NativeCode(address, artifact.metadata["slots"], keep=library, errors=error)


@functools.cache
def target() -> tuple:
    """What is compiled for: the compiler that is found, and how it is called."""
    version = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    return version.splitlines()[0], ("cc", "-O3", "-march=native", "-fno-math-errno")


def elementwise(function):
    """Make a kernel of a function of arrays and numbers, element by element."""
    return kp.jit(
        function,
        compile=compile,
        load=load,
        store=kp.Store(),
        target=target,
        on_drift="rekey",
        tool=("tiny-language", VERSION),
        compiled_by=[elementwise],
    )


# -- A program in it -------------------------------------------------------------------------------

OFFSET = 1.0


@elementwise
def smooth(out, x, y, a):
    """What NumPy would compute, in one loop."""
    t = a * x + OFFSET
    out[:] = sqrt(t * t + abs(y)) / 2


def sqrt(x):
    """As the language means it, for those who call the function itself."""
    import numpy as np

    return np.sqrt(x)


if __name__ == "__main__":
    import numpy as np

    x, y, out, expected = (np.random.default_rng(at).standard_normal(1_000_000) for at in range(4))
    for a in (0.5, 2.0):
        smooth(out, x, y, a)
        smooth.__wrapped__(expected, x, y, a)
        print(f"a = {a}: the same as NumPy: {np.allclose(out, expected)}; {smooth.why()}")
    OFFSET = -1.0
    smooth(out, x, y, 0.5)
    print(f"OFFSET = -1: {smooth.why()}")
