"""The kernel language as `docs/semantics.md` has it: an interpreter, random programs, and a judge.

`model` knows types and operators, `interpreter` statements, `programs` makes programs, `judge` compiles them and
compares.
"""
