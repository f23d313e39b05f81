"""The kernel language: functions in the Taichi family, compiled to native code.

Everything that programs use is at the top level of :mod:`keyprint`; this package is where it lives.
"""

from .. import lazy
from .types.dtypes import constructors

constructors.build = lazy.later("language.types.tensors", "build")
constructors.cast = lazy.later("language.types.tensors", "cast")
constructors.field = lazy.later("language.types.field", "field")
constructors.ndarray = lazy.later("language.types.arrays", "ndarray")
