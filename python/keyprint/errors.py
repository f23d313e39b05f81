"""The exceptions of Keyprint.

Every exception has a stable ``code`` and, where it concerns a value, the ``path`` to the culprit
inside that value and a ``hint``. ``FINGERPRINT_CODES``, ``STORE_CODES`` and ``FUNCTION_CODES`` list
the codes.
"""

from __future__ import annotations

# Not imported from `typing`, which takes longer to load than the rest of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "FINGERPRINT_CODES",
    "FUNCTION_CODES",
    "STORE_CODES",
    "CycleError",
    "DriftError",
    "FingerprintError",
    "FunctionKeyError",
    "KeyprintError",
    "SignatureError",
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
    "no-value": "a plain `object()`, which has an identity and no value",
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

#: Why a function has no key, or a call no signature.
FUNCTION_CODES: Final[dict[str, str]] = {
    "argument-type": "an argument of a type that says nothing about what a compiler may depend on",
    "drift": "something that the function reads is no longer what it was when it was compiled",
    "dynamic-names": "the function reads names that cannot be known before it runs",
    "missing-member": "an argument has no member that the function reads",
    "module-value": "a module of the program is used as a value, so that anything in it may be read",
    "no-function": "not a function, nor anything that leads to one",
    "unidentified": "a value that the function reads cannot be told apart from others",
    "unstable": "what the function reads kept changing while it was looked at",
    "variadic": "a kernel with `*` or `**` parameters",
    "writable-array": "the function reads an array that can change without notice",
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


class _Coded(KeyprintError):
    """A message, a code, and a hint."""

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint

    def __str__(self) -> str:
        text = str(self.args[0])
        return text if self.hint is None else f"{text}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return _make_coded, (type(self), self.args[0], self.code, self.hint)


def _make_coded(kind: type[_Coded], message: str, code: str, hint: str | None) -> _Coded:
    return kind(message, code=code, hint=hint)


class StoreError(_Coded):
    """Something cannot be stored, or not be used from a store."""


class FunctionKeyError(_Coded, TypeError):
    """A function has no key: something that it reads cannot be identified."""


class SignatureError(_Coded, TypeError):
    """An argument has no signature: nothing says what a compiler may depend on."""


class DriftError(_Coded, RuntimeError):
    """Something that a compiled function reads has changed since."""


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
