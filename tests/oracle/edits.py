"""Random edits of a program: of its syntax tree, whatever that means for what it does."""

from __future__ import annotations

import ast
import copy
import random
from typing import Any


def edit(files: dict[str, str], rng: random.Random) -> dict[str, str]:
    """Return the files with one random edit; the same files if none was found."""
    for _ in range(20):
        name = rng.choice(sorted(files))
        tree = ast.parse(files[name])
        nodes = [node for node in ast.walk(tree) if _can_change(node)]
        if not nodes or rng.random() < 0.08:
            changed = _around(files[name], rng)
        else:
            _change(rng.choice(nodes), rng)
            try:
                changed = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
                compile(changed, name, "exec")
            except (SyntaxError, ValueError, RecursionError, TypeError):
                continue
        if changed != files[name]:
            return {**files, name: changed}
    return dict(files)


_KINDS = (
    *(
        ast.Constant,
        ast.BinOp,
        ast.Dict,
        ast.List,
        ast.Tuple,
        ast.Set,
        ast.Call,
        ast.ClassDef,
        ast.FunctionDef,
    ),
    *(ast.Compare, ast.Assign, ast.Module, ast.Lambda),
)


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return False
    return isinstance(node, _KINDS)


def _change(node: Any, rng: random.Random) -> None:
    if isinstance(node, ast.Constant):
        node.value = _other(node.value, rng)
    elif isinstance(node, ast.BinOp):
        node.op = rng.choice([ast.Add(), ast.Sub(), ast.Mult()])
    elif isinstance(node, ast.Compare):
        node.ops = [rng.choice([ast.Eq(), ast.NotEq(), ast.Lt(), ast.Is(), ast.IsNot()])] * len(node.ops)
    elif isinstance(node, ast.Dict) and node.keys:
        pairs = list(zip(node.keys, node.values, strict=True))
        _shuffle_or_drop(pairs, rng)
        node.keys, node.values = [key for key, _ in pairs], [value for _, value in pairs]
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)) and node.elts:
        _shuffle_or_drop(node.elts, rng)
    elif isinstance(node, ast.Call):
        if node.keywords and rng.random() < 0.5:
            _shuffle_or_drop(node.keywords, rng)
        elif node.args and rng.random() < 0.5:
            _shuffle_or_drop(node.args, rng)
        elif rng.random() < 0.3:
            node.args.append(ast.Constant(1))
    elif isinstance(node, ast.ClassDef):
        _change_class(node, rng)
    elif isinstance(node, ast.FunctionDef):
        _change_function(node, rng)
    elif isinstance(node, ast.Assign):
        _change_assignment(node, rng)
    elif isinstance(node, ast.Module):
        at = rng.randrange(len(node.body) + 1)
        extra = rng.choice(["UNRELATED = 3", "def unrelated():\n    return 4", "'a text'"])
        node.body[at:at] = ast.parse(extra).body


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, -value, float(value), value * 2, str(value)])
    if isinstance(value, float):
        return rng.choice([value + 1, -value, int(value) if abs(value) < 1e9 else 0.5])
    if isinstance(value, str):
        return rng.choice([value + "x", value.upper(), value[1:], value[::-1]])
    if isinstance(value, bytes):
        return value + b"!"
    return rng.choice([None, 0, "none"])


def _shuffle_or_drop(items: list[Any], rng: random.Random) -> None:
    if len(items) > 1 and rng.random() < 0.6:
        at = rng.randrange(len(items) - 1)
        items[at], items[at + 1] = items[at + 1], items[at]
    elif rng.random() < 0.5:
        items.append(copy.deepcopy(rng.choice(items)))
    else:
        del items[rng.randrange(len(items))]


def _change_class(node: ast.ClassDef, rng: random.Random) -> None:
    extra = rng.choice(
        [
            "K = 'added'",
            "def read(self):\n    return 'added'",
            "def __repr__(self):\n    return 'added'",
            "'''A docstring.'''",
            "def __len__(self):\n    return 77",
            "extra = 5",
            "def __eq__(self, other):\n    return True",
            "__slots__ = ()",
            "def __bool__(self):\n    return False",
        ]
    )
    at = rng.choice([0, len(node.body)])
    if rng.random() < 0.3 and len(node.body) > 1:
        _shuffle_or_drop(node.body, rng)
    else:
        node.body[at:at] = ast.parse(extra).body


def _change_function(node: ast.FunctionDef, rng: random.Random) -> None:
    choice = rng.randrange(5)
    if choice == 0:
        node.body[:0] = ast.parse(repr(f"Docs {rng.randrange(99)}.")).body
    elif choice == 1:
        node.body[:0] = ast.parse("unused = 1").body
    elif choice == 2 and node.args.args:
        node.args.args[-1].annotation = ast.Constant("changed")
    elif choice == 3 and node.decorator_list:
        node.decorator_list.pop()
    else:
        last = node.body[-1]
        if isinstance(last, ast.Return) and last.value is not None:
            last.value = ast.Tuple([last.value, ast.Constant(99)], ast.Load())


def _change_assignment(node: ast.Assign, rng: random.Random) -> None:
    choice = rng.randrange(4)
    if choice == 0:
        node.value = ast.Call(ast.Name("list", ast.Load()), [ast.List([node.value], ast.Load())], [])
    elif choice == 1 and isinstance(node.value, ast.Name):
        # A copy instead of another name for it.
        call = ast.parse(f"__import__('copy').copy({node.value.id})", mode="eval").body
        node.value = call
    elif choice == 2:
        node.value = ast.Constant(rng.choice([0, None, "gone"]))
    else:
        node.value = ast.parse(f"__import__('copy').deepcopy({ast.unparse(node.value)})", mode="eval").body


def _around(text: str, rng: random.Random) -> str:
    """Change what means nothing: comments, blank lines, the place of what follows."""
    lines = text.split("\n")
    starts = [at for at, line in enumerate(lines) if line and not line.startswith((" ", ")", "]", "}", "@"))]
    at = rng.choice(starts)
    if at and lines[at - 1].startswith("@"):
        at = 0
    lines[at:at] = rng.choice([["# a comment", ""], [""], ["", "", "# two", ""]])
    return "\n".join(lines)
