"""The kernel language: functions in the Taichi family, compiled to native code.

Everything that programs use is at the top level of :mod:`keyprint`; this package is where it lives.
"""
