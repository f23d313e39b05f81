"""The exceptions of Keyprint.

Every exception has a stable ``code`` and, where it concerns a value, the ``path`` to the culprit
inside that value and a ``hint``. ``FINGERPRINT_CODES`` and ``STORE_CODES`` list the codes.
"""

from __future__ import annotations

# Not imported from `typing`, which takes longer to load than the rest of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "FINGERPRINT_CODES",
    "STORE_CODES",
    "CycleError",
    "FingerprintError",
    "KeyprintError",
    "StoreError",
    "StoreWarning",
]

#: Why a value has no fingerprint.
FINGERPRINT_CODES: Final[dict[str, str]] = {
    "ambiguous-rule": "two rules apply through unrelated abstract classes",
    "array-format": "an array whose elements are not plain data of a known type",
    "bad-rule": "a rule returned something that is not a description",
    "changed": "a container changed while it was read",
    "cycle": "a value contains itself, and cycles are refused",
    "device-array": "an array on a device, whose content would have to be copied to the host",
    "endless-reduction": "reducing an object keeps making new objects",
    "entangled": "a value with so many cycles that it cannot be told apart in reasonable time",
    "malformed-reduction": "`__reduce_ex__` returned something unusable",
    "no-identity": "an object that cannot be told apart from its successors at the same address",
    "not-durable": "a fingerprint that only means something in its own process, in strict mode",
    "not-importable": "a class, function or module that its name does not lead to, in strict mode",
    "not-reducible": "an object that does not say what it consists of",
    "raised": "reading the value raised an exception",
    "rule-failed": "a rule raised an exception",
}

#: Why something cannot be stored, or not be used from a store.
STORE_CODES: Final[dict[str, str]] = {
    "no-such-part": "an artifact has no part of that name",
    "no-such-serializer": "there is no serializer of that name",
    "not-durable": "a key that only means something in its own process",
    "not-plain": "data that would not come back as it was",
    "part-name": "a name of a part that cannot be a file everywhere, or is taken",
    "untrusted": "others could have written what is about to be loaded",
}


class KeyprintError(Exception):
    """Base of all exceptions of Keyprint."""

    code: str = "keyprint"


class FingerprintError(KeyprintError, TypeError):
    """A value has no fingerprint."""

    def __init__(self, message: str, *, code: str, path: str = "$", hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.path = path
        self.hint = hint

    def add_hint(self, text: str) -> None:
        """Add something to do or to know."""
        self.hint = text if self.hint is None else f"{text}; {self.hint}"

    def __str__(self) -> str:
        text = f"cannot fingerprint `{self.path}`: {self.args[0]}"
        return text if self.hint is None else f"{text}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return (
            make_fingerprint_error,
            (),
            {"args": self.args, "code": self.code, "path": self.path, "hint": self.hint},
        )


class CycleError(FingerprintError, ValueError):
    """A value contains itself, and cycles are refused."""


class StoreError(KeyprintError):
    """Something cannot be stored, or not be used from a store."""

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint

    def __str__(self) -> str:
        text = str(self.args[0])
        return text if self.hint is None else f"{text}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return make_store_error, (self.code, self.args[0], self.hint)


class StoreWarning(UserWarning):
    """The store cannot do its work; the program goes on without it."""


def make_store_error(code: str, message: str, hint: str | None = None) -> StoreError:
    """Build the exception for a code; called by the native half."""
    return StoreError(message, code=code, hint=hint)


def make_fingerprint_error(
    code: str = "", message: str = "", path: str = "$", hint: str | None = None
) -> FingerprintError:
    """Build the exception for a code; called by the native half."""
    kind = CycleError if code == "cycle" else FingerprintError
    return kind(message, code=code, path=path, hint=hint)
