"""The kernel language as `docs/semantics.md` has it: an interpreter, random programs, and a judge.

`model` knows types and operators, `interpreter` statements, `programs` makes programs, `judge` compiles them and
compares; `loops` does both for kernels of several loops, by plain Python, and `graphs` for graphs that are
launched and resumed, by an interpreter of their structure.
"""
