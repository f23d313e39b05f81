"""The graph of a kernel's tasks, to look at: as a tree of text, as a picture."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .launched import GraphLaunch

__all__ = ["Node", "TaskGraph"]


class Node:
    """A piece of a graph.

    ``kind`` is ``"task"``, ``"loop"``, ``"checkpoint"`` or ``"sections"``. A task has an ``id``, is ``parallel`` or
    not, and ``reads`` and ``writes`` arrays. A loop goes on while ``on`` is not zero; a checkpoint has a ``label``, and
    ends the launch if ``on`` is not zero (``None`` if it never does). Both hold ``nodes``; sections hold one list of
    them each. ``line`` is the line of the program as it is now, if that is known.
    """

    __slots__ = ("id", "kind", "label", "line", "nodes", "on", "parallel", "reads", "sections", "writes")

    id: int | None
    kind: str
    label: Any
    line: int | None
    nodes: list[Node]
    on: str | None
    parallel: bool
    reads: list[str]
    sections: list[list[Node]]
    writes: list[str]

    def __init__(self, kind: str, id: int | None, line: int | None) -> None:
        self.kind = kind
        self.id = id
        self.line = line
        self.label = self.on = None
        self.parallel = False
        self.nodes, self.sections, self.reads, self.writes = [], [], [], []

    @property
    def title(self) -> str:
        """What it is, in words."""
        where = "" if self.line is None else f", line {self.line}"
        if self.kind == "loop":
            return f"loop {self.id}: while `{self.on}` is not zero{where}"
        if self.kind == "checkpoint":
            ends = "" if self.on is None else f", yields on `{self.on}`"
            return f"checkpoint {shown(self.label)}{ends}{where}"
        if self.kind == "sections":
            return f"{len(self.sections)} sections beside each other{where}"
        return f"task {self.id}: {'parallel loop' if self.parallel else 'statements'}{where}"

    @property
    def details(self) -> str:
        """What a task reads and writes."""
        parts = [f"reads {', '.join(self.reads)}"] if self.reads else []
        parts += [f"writes {', '.join(self.writes)}"] if self.writes else []
        return "; ".join(parts)

    def __repr__(self) -> str:
        return f"<{self.title}>"


def shown(label: Any) -> str:
    """Return a label as a program writes it."""
    name = getattr(label, "name", None)
    return repr(label) if name is None else f"{type(label).__name__}.{name}"


class TaskGraph:
    """The tasks of a kernel, for arguments of one specification, and what decides whether they run.

    ``nodes`` are its pieces in order (:class:`Node`); ``tasks``, ``loops`` and ``checkpoints`` those of one kind,
    wherever they are. ``arguments`` are the names of what it is given, by number. ``launch`` says how it was launched
    last (:class:`GraphLaunch`), if that was on a device. ``print`` shows it as a tree; :meth:`to_dot` writes it for
    Graphviz, :meth:`to_svg` draws it.
    """

    def __init__(
        self,
        name: str,
        record: Any,
        labels: list[Any],
        line_of: Callable[[Any], int | None],
        launch: GraphLaunch | None = None,
    ) -> None:
        self.name = name
        self.launch = launch
        self.arguments: list[str] = [argument["name"] for argument in record["arguments"]]
        self._record = record
        self._labels = labels
        self._line_of = line_of
        self.nodes = [self._node(node) for node in record["nodes"]]

    def _node(self, record: Any) -> Node:
        kind = record["kind"]
        node = Node(kind, record.get("id"), self._line_of(record["site"]))
        if kind == "task":
            node.parallel = record["parallel"]
            node.reads = [self.arguments[at] for at in record["reads"]]
            node.writes = [self.arguments[at] for at in record["writes"]]
        elif kind == "sections":
            node.sections = [[self._node(inner) for inner in section] for section in record["sections"]]
        else:
            if kind == "loop":
                on = self._record["loops"][record["id"]][0]
            else:
                label, on, _ = self._record["gates"][record["id"]]
                node.label = self._labels[label]
            node.on = None if on is None else self.arguments[on]
            node.nodes = [self._node(inner) for inner in record["nodes"]]
        return node

    def walk(self) -> Iterator[Node]:
        """Yield all pieces, in the order of the program."""
        pending = self.nodes[::-1]
        while pending:
            node = pending.pop()
            yield node
            inner = [*node.nodes, *(piece for section in node.sections for piece in section)]
            pending += inner[::-1]

    @property
    def tasks(self) -> list[Node]:
        """All tasks, in the order of the program."""
        return [node for node in self.walk() if node.kind == "task"]

    @property
    def loops(self) -> list[Node]:
        """All loops, the outer one before those inside."""
        return [node for node in self.walk() if node.kind == "loop"]

    @property
    def checkpoints(self) -> list[Node]:
        """All checkpoints, in the order of the program."""
        return [node for node in self.walk() if node.kind == "checkpoint"]

    def __str__(self) -> str:
        lines = [f"graph of `{self.name}`"]
        if self.launch is not None:
            lines += [f"│  {self.launch.title}", f"│  {self.launch.details}"]
        _tree(self.nodes, "", lines)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<TaskGraph of `{self.name}`: {len(self.tasks)} tasks>"

    # -- Pictures ----------------------------------------------------------------------------------

    def to_dot(self) -> str:
        """Return the graph as Graphviz takes it."""
        lines = ["digraph {", "  node [shape=box, style=rounded, fontname=sans]; compound=true;"]
        lines.append(f"  label={_quoted(self.name)}; fontname=sans;")
        dot = _Dot(lines)
        dot.pieces(self.nodes, ["start"], "  ")
        lines.insert(3, '  start [label="", shape=circle, width=0.2];')
        return "\n".join([*lines, "}"])

    def to_svg(self) -> str:
        """Return a picture of the graph: boxes from top to bottom, sections from left to right."""
        width, height, parts = _column(self.nodes)
        body = "\n".join(part.format(x=x + 10, y=y + 34) for x, y, part in parts)
        title = f'<text x="10" y="20" font-weight="bold">{_escaped(self.name)}</text>'
        size = f'width="{width + 20}" height="{height + 44}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{title}\n{body}\n</svg>\n'
        )

    _repr_svg_ = to_svg


def _tree(nodes: list[Node], before: str, lines: list[str]) -> None:
    for at, node in enumerate(nodes):
        is_last = at == len(nodes) - 1
        details = f"; {node.details}" if node.details else ""
        lines.append(f"{before}{'└─' if is_last else '├─'} {node.title}{details}")
        inside = before + ("   " if is_last else "│  ")
        _tree(node.nodes, inside, lines)
        for number, section in enumerate(node.sections):
            ends = number == len(node.sections) - 1
            lines.append(f"{inside}{'└─' if ends else '├─'} section {number}")
            _tree(section, inside + ("   " if ends else "│  "), lines)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("{", "{{").replace("}", "}}")


class _Dot:
    """Writes pieces one after the other: each is reached from what was before it."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.clusters = 0

    def pieces(self, nodes: list[Node], before: list[str], space: str) -> list[str]:
        """Write pieces, and return what comes last."""
        for node in nodes:
            if node.kind == "task":
                name = f"task{node.id}"
                label = node.title + (f"\n{node.details}" if node.details else "")
                shape = "" if node.parallel else ", style=solid"
                self.lines.append(f"{space}{name} [label={_quoted(label)}{shape}];")
                self.lines += [f"{space}{previous} -> {name};" for previous in before]
                before = [name]
            elif node.kind == "sections":
                ends = [end for section in node.sections for end in self.pieces(section, before, space)]
                before = ends or before
            else:
                before = self._cluster(node, before, space)
        return before

    def _cluster(self, node: Node, before: list[str], space: str) -> list[str]:
        name = f"{node.kind}{node.id}"
        color = "steelblue" if node.kind == "loop" else "darkorange"
        self.lines.append(f"{space}subgraph cluster_{name} {{")
        self.lines.append(f"{space}  label={_quoted(node.title)}; color={color}; style=rounded;")
        self.lines.append(f'{space}  {name} [label="", shape=circle, width=0.1];')
        ends = self.pieces(node.nodes, [name], space + "  ")
        self.lines.append(f"{space}}}")
        self.lines += [f"{space}{previous} -> {name};" for previous in before]
        if node.kind == "loop":
            self.lines += [f"{space}{end} -> {name} [style=dashed, constraint=false];" for end in ends]
        return ends


_COLORS = {"task": "#eef3f8", "loop": "#dbe9f6", "checkpoint": "#fdebd0", "sections": "#eaf5ea"}

_Placed = list[tuple[int, int, str]]


def _column(nodes: list[Node]) -> tuple[int, int, _Placed]:
    """Place pieces below each other: width, height, and what to draw where."""
    width, height, parts = 0, 0, []
    for node in nodes:
        wide, high, inner = _box(node)
        parts += [(x, y + height, part) for x, y, part in inner]
        width, height = max(width, wide), height + high + 8
    return width, max(height - 8, 0), parts


def _box(node: Node) -> tuple[int, int, _Placed]:
    titles = [node.title, *([node.details] if node.details else [])]
    width, height = max(len(title) for title in titles) * 7 + 16, 8 + 16 * len(titles)
    parts: _Placed = []
    if node.sections:
        x, tallest = 8, 0
        for section in node.sections:
            wide, high, inner = _column(section)
            parts += [(x + dx, height + dy, part) for dx, dy, part in inner]
            x, tallest = x + wide + 8, max(tallest, high)
        width, height = max(width, x), height + tallest + 8
    elif node.nodes:
        wide, high, inner = _column(node.nodes)
        parts = [(dx + 8, dy + height, part) for dx, dy, part in inner]
        width, height = max(width, wide + 16), height + high + 8
    color = _COLORS[node.kind]
    radius = 8 if node.parallel or node.kind != "task" else 0
    rect = f'<rect x="{{x}}" y="{{y}}" width="{width}" height="{height}" rx="{radius}" fill="{color}" stroke="#567"/>'
    shown = [
        (8, 16 + 16 * at, f'<text x="{{x}}" y="{{y}}">{_escaped(title)}</text>')
        for at, title in enumerate(titles)
    ]
    return width, height, [(0, 0, rect), *shown, *parts]
