"""Fills the tables of the guides that the code knows: between ``<!-- table: name -->`` and ``<!-- end of table -->``.

``python docs/tables.py`` writes them; a test says when they are not what the code says.
"""

from __future__ import annotations

import re
from pathlib import Path

from keyprint._native import _environment_variables
from keyprint.errors import FINGERPRINT_CODES, FUNCTION_CODES, STORE_CODES
from keyprint.language.builtin import BUILTINS
from keyprint.language.errors import KERNEL_CODES

HERE = Path(__file__).parent

#: What to do, by code, for people who have the message before them.
REMEDIES: dict[str, dict[str, str]] = {
    "fingerprint": {
        "ambiguous-rule": "give a rule for the class itself",
        "array-format": "convert the array, or choose another `arrays=`",
        "bad-rule": "return `rule.by_fields(...)`, `rule.ordered(...)`, `rule.leaf(...)` or the like",
        "changed": "do not modify a value while another thread reads it",
        "cycle": "allow cycles (`cycles=True`), or skip the field that closes the cycle",
        "device-array": "copy it to the host yourself, or take it by specification or identity: `arrays=`",
        "endless-reduction": "give the class a rule",
        "entangled": "describe links by name or index with a rule, or skip them",
        "malformed-reduction": "mend `__reduce_ex__`, or give the class a rule",
        "no-identity": "describe the value by content",
        "no-value": "use a member of an enum, or an instance of a class that has a name",
        "not-durable": "describe the value by content; lenient mode takes it, for this process only",
        "not-importable": "move it to module level, give its owner a rule, or use lenient mode",
        "not-reducible": "give the class a rule, or leave the field out with `kp.no_fingerprint()`",
        "raised": "mend the class; the cause is attached",
        "rule-failed": "mend the rule; the cause is attached",
    },
    "store": {
        "no-such-part": "ask for one of the names in `entry.parts`",
        "no-such-serializer": "use `plain`, `pickle`, or a `kp.Serializer` of your own",
        "not-durable": "take what has no identity across processes out of the key, or do without a store",
        "not-plain": 'turn it into plain data or bytes, or choose `serializer="pickle"`',
        "part-name": "use letters, digits, dots and dashes",
        "untrusted": "take write permission for others away (`chmod go-w`), or name another directory; `keyprint doctor` says which",
    },
    "function": {
        "argument-type": "give the class `__cache_signature__`, register it with `kp.register_argument`, or make it a dataclass",
        "drift": 'pass what changes as an argument; or `on_drift="rekey"`; or `kernel.forget()` if the change is meant',
        "dynamic-names": "name what is read: no `globals()`, `eval`, `getattr` with a computed name",
        "missing-member": "set the member before the call",
        "module-value": "read names from the module where they are used, and do not pass the module on",
        "no-function": "pass a Python function",
        "unidentified": "make it plain data, a dataclass, or something with a rule",
        "unstable": "do not change globals while a kernel is launched for the first time",
        "variadic": "name the parameters",
        "writable-array": "pass the array as an argument, or make it read-only: `array.flags.writeable = False`",
    },
    "kernel": {
        "annotation": "annotate with `kp.f32`, `kp.types.NDArray[kp.f32, 1]`, `kp.template()`, or a dataclass",
        "argument-count": "pass what the function takes",
        "arithmetic": "look at the constants in the message",
        "assertion": "look at the line: it is your `assert`",
        "assignment": "assign to variables, elements, lanes and members of structs; arguments of type number are copies",
        "attribute": "look at the name; set members before the call",
        "bounds": "look at the index and the shape in the message",
        "call": "call functions of the language, or functions with source; compute the rest outside",
        "checkpoint": "see [graphs and checkpoints](graphs.md#checkpoints)",
        "context-lost": "start the process anew; `debug=True` checks indices, `compute-sanitizer` finds what is wrong",
        "comparison": "compare numbers with numbers, and `None` with `is`",
        "compiler-failed": "set `KEYPRINT_CC` to gcc or clang; `KEYPRINT_DUMP` keeps what was generated: a defect of Keyprint is worth a report",
        "constant-needed": "use a literal, a global, a `template()` parameter or a member that is no array",
        "called-off": "launch it again; an interrupted thread calls off loops of graphs that others launched, too",
        "device-failed": "look at what the driver says; it may be a defect of Keyprint",
        "devices": "copy arrays to one place: `kp.asarray(x, device=...)`, `tensor.to(...)`",
        "division": "guard the divisor, or take the zero that it gives outside of debug mode",
        "element-shape": "pass an array whose last dimensions are those of the vector or matrix",
        "forked": "start processes by `spawn`, or fork before CUDA is used",
        "graph": "see [graphs and checkpoints](graphs.md)",
        "graph-way": "unset `KEYPRINT_GRAPH`, or take one of the ways in the message",
        "index": "one whole number for each dimension",
        "iteration": "loop over `range`, `ndrange`, `grouped`, an array, or `static` of a tuple",
        "loop-control": "write `loop_config(serialize=True)` before the loop, or put the loop into another",
        "name": "look at the name; define it before the kernel is launched",
        "nesting": "take parts into functions; unroll less",
        "no-compiler": "install gcc or clang, or NVRTC for devices, or bring a store that has the kernels",
        "no-device": "look at `nvidia-smi` and `CUDA_VISIBLE_DEVICES`",
        "no-driver": "install the NVIDIA driver, or run on the CPU",
        "no-graph": "launch the kernel, or pass arguments to `kernel.graph(...)`; write `graph=True`",
        "operand": "convert one of the operands",
        "out-of-memory": "drop arrays; other libraries keep what they freed: `torch.cuda.empty_cache()`",
        "overflow": "write a smaller number, or another type: `kp.u64(...)`",
        "overlap": "pass arrays that do not overlap, or the same array for both",
        "range": "clamp the number before it is converted",
        "recursion": "write a loop",
        "return": "return at the end of the kernel, the same kind of thing everywhere",
        "shape": "look at the sizes in the message",
        "shift": "shift by less than the width of the type",
        "source": "define the function in a file; start again after editing it",
        "syntax": "write it in simpler terms: the hint says how",
        "too-long": "split the array",
        "type": "convert the value: `kp.f32(x)`, `int(x)`",
        "undefined": "assign the variable before the branch or the loop",
        "unknown-label": "pass a label that the message lists",
        "unpacking": "name as many targets as there are values",
    },
}


def environment() -> str:
    rows = [f"| `{name}` | {does} |" for name, does in _environment_variables()]
    return "\n".join(["| variable | what it does |", "| --- | --- |", *rows])


def codes(family: str, known: dict[str, str]) -> str:
    remedies = REMEDIES[family]
    assert known.keys() == remedies.keys(), sorted(known.keys() ^ remedies.keys())
    rows = [f"| `{code}` | {known[code]} | {remedies[code]} |" for code in sorted(known)]
    return "\n".join(["| code | what it means | what to do |", "| --- | --- | --- |", *rows])


def builtins() -> str:
    # A bar would end the cell.
    rows = [f"| `kp.{name}` | {function.__doc__} |" for name, function in sorted(BUILTINS.items())]
    return "\n".join(["| function | what it is |", "| --- | --- |", *rows])


TABLES = {
    "builtins": builtins,
    "environment": environment,
    "fingerprint codes": lambda: codes("fingerprint", FINGERPRINT_CODES),
    "store codes": lambda: codes("store", STORE_CODES),
    "function codes": lambda: codes("function", FUNCTION_CODES),
    "kernel codes": lambda: codes("kernel", KERNEL_CODES),
    "tiny language": lambda: f"```python\n{(HERE.parent / 'examples' / 'tiny_language.py').read_text()}```",
}

_PLACE = re.compile(r"(<!-- table: ([a-z ]+) -->\n).*?(\n<!-- end of table -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return a page with its tables as the code has them."""
    return _PLACE.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


if __name__ == "__main__":
    for page in sorted(HERE.rglob("*.md")):
        before = page.read_text()
        after = filled(before)
        if after != before:
            page.write_text(after)
            print(f"{page.name}: filled")
