"""What a function meets and does not depend on: a short, closed list.

Everything else that the analysis of a function meets is followed, counted or refused
(:class:`~keyprint.functions.resolution.Resolution`). Each line says why it may be left out, and which test shows that it
is, and that what stands beside it is not.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["EXEMPTIONS", "Exemption"]


class Exemption:
    """Something that does not count."""

    __slots__ = ("name", "test", "why")

    def __init__(self, name: str, why: str, test: str) -> None:
        self.name = name
        self.why = why
        #: The test, in `tests/python/functions/test_not_counted.py`.
        self.test = test


#: All there are.
EXEMPTIONS: Final = (
    Exemption(
        "docstrings",
        "documentation changes nothing that is computed; it counts as soon as any code that is reached reads "
        "`__doc__`, or calls `inspect.getdoc`",
        "test_docstrings",
    ),
    Exemption(
        "compiling decorators",
        "what compiles a function is the tool, whose version is a component of its own",
        "test_compiling_decorators",
    ),
    Exemption("ignored names", "the caller said so (`ignore=`)", "test_ignored_names"),
    Exemption(
        "fields that opted out",
        "their class says so (`kp.no_fingerprint()`)",
        "test_fields_that_opted_out",
    ),
    Exemption(
        "memoised values",
        "`functools.cached_property` and `lru_cache` keep what the code that counts computes again",
        "test_memoised_values",
    ),
    Exemption("locks", "they synchronise, and hold nothing that is computed with", "test_locks"),
    Exemption(
        "log calls",
        "what is logged is no result: `debug`, `info` and the like of a plain logger; asking for its level "
        "counts the level",
        "test_log_calls",
    ),
    Exemption(
        "standard streams",
        "what is printed is no result: `sys.stdout` and `sys.stderr`",
        "test_standard_streams",
    ),
    Exemption(
        "what is only added to",
        "`LOG.append(x)` as a statement, and `n += 1`, put something into a builtin container or number and look at "
        "nothing that is there; its type counts, and so does what else is the same object",
        "test_what_is_only_added_to",
    ),
    Exemption(
        "aliases that are never used",
        "a name that is assigned and not read afterwards reads nothing",
        "test_aliases_that_are_never_used",
    ),
    Exemption(
        "state of installed modules",
        "what functions of an installed package keep for themselves (random states, contexts) is behind their "
        "version; what the program reads of a module by name counts",
        "test_state_of_installed_modules",
    ),
)
