"""Rules: how the objects of a class enter a fingerprint.

A rule is one of the descriptions made here, or a callable that takes an object and returns one (or
``NotImplemented``, for the default). It is given per fingerprinter, for a class and everything that
derives from it, or by a class itself::

    fp = kp.Fingerprinter(overrides={Node: kp.rule.by_fields(skip=("location",))})

    class Handle:
        def __fingerprint__(self):
            return kp.rule.leaf(self.name)

A constant description runs no Python code during a walk.
"""

from __future__ import annotations

from .._native import Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

__all__ = [
    "Description",
    "Rule",
    "as_namespace",
    "by_fields",
    "by_identity",
    "by_reference",
    "leaf",
    "ordered",
    "ordered_items",
    "unordered",
]

#: What ``overrides=`` takes for a class. ``NotImplemented`` leaves an object to the default.
Rule: TypeAlias = "Description | Callable[[Any], Any]"

#: A scalar, text or bytes, under the object's class; ``tag=`` takes the place of the class.
leaf = Description.leaf

#: Values whose order counts, under the object's class; ``tag=`` takes the place of the class.
ordered = Description.ordered

#: Values whose order does not count, under the object's class; ``tag=`` takes the place of the class.
unordered = Description.unordered

#: The pairs of ``obj.items()``, in that order: for mappings whose order matters.
ordered_items = Description.ordered_items

#: The qualified name, verified to lead to the object.
by_reference = Description.by_reference

#: The declared fields (of a class without such: the attributes), except those in ``skip``.
by_fields = Description.by_fields

#: The attributes, whatever the class is: also for classes defined inside functions.
as_namespace = Description.as_namespace

#: The very object, in this process. Not durable.
by_identity = Description.by_identity
