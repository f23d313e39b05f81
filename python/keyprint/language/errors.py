"""What is wrong with a program in the kernel language, and where."""

from __future__ import annotations

from .._native import _language_codes
from ..errors import KeyprintError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

__all__ = [
    "KERNEL_CODES",
    "CompilerError",
    "DeviceError",
    "DeviceMemoryError",
    "KernelAssertionError",
    "KernelError",
    "KernelIndexError",
    "KernelNameError",
    "KernelRuntimeError",
    "KernelSyntaxError",
    "KernelTypeError",
    "host_error",
    "make_device_error",
    "make_kernel_error",
]

#: Errors of programs, by code.
KERNEL_CODES: Final[dict[str, str]] = {
    **dict(_language_codes()),
    "assertion": "an `assert` of a kernel does not hold, in debug mode",
    "bounds": "an index beyond the ends of an array, in debug mode",
    "compiler-failed": "the C compiler, or NVRTC, does not take what was generated",
    "context-lost": "a kernel did something after which nothing on its device works in this process",
    "called-off": "a loop of a graph on a device was ended because another thread was interrupted",
    "device-failed": "the driver refuses something",
    "forked": "CUDA is used in a child of a process that had used it",
    "division": "a whole number divided by zero, in debug mode",
    "element-shape": "an array whose last dimensions are not those of its elements",
    "graph-way": "a way to launch graphs that there is not",
    "no-graph": "a kernel that is no graph, or was not launched yet, is asked for its graph",
    "no-compiler": "there is no C compiler, or no NVRTC, and nothing that was compiled before",
    "no-device": "there is no such device",
    "no-driver": "the CUDA driver cannot be opened, or is too old",
    "out-of-memory": "a device has no room",
    "overlap": "arrays that overlap without being the same",
    "range": "a float that does not fit into the type that it is converted to, in debug mode",
    "shift": "a shift by more bits than there are, in debug mode",
    "too-long": "a dimension of an array with more elements than indices can count",
    "unknown-label": "a launch from a checkpoint that the kernel does not have",
}


class KernelError(KeyprintError):
    """Something is wrong with a kernel.

    ``trace`` says where: function, file, line, column, width and text of each function from the kernel to
    the innermost that was inlined.
    """

    def __init__(
        self, message: str, *, code: str, hint: str | None = None, trace: Any = (), needs: Any = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.trace = [tuple(frame) for frame in trace]
        self.needs = tuple(needs)

    def __str__(self) -> str:
        lines = [self.message]
        for at, (function, file, line, column, width, text) in enumerate(reversed(self.trace)):
            how = "" if at == 0 else "inlined "
            lines += [
                f'  {how}in `{function}`, "{file}", line {line}',
                f"    {text}",
                _caret(text, column, width),
            ]
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join(line for line in lines if line)

    def __reduce__(self) -> tuple[object, ...]:
        state = (self.code, self.message, self.hint, self.trace, self.needs)
        return _make, (type(self), *state)


def _caret(text: str, column: int, width: int) -> str:
    if not text:
        return ""
    return f"    {' ' * column}{'^' * max(1, min(width, len(text) - column))}"


def _make(kind: Any, code: str, message: str, hint: str | None, trace: Any, needs: Any) -> Any:
    return kind(message, code=code, hint=hint, trace=trace, needs=needs)


class KernelSyntaxError(KernelError, SyntaxError):
    """A kernel uses Python that the language does not have."""

    def __init__(self, message: str, **known: Any) -> None:
        KernelError.__init__(self, message, **known)
        # What `SyntaxError` shows by itself is shown already.
        self.msg = message

    __str__ = KernelError.__str__
    __reduce__ = KernelError.__reduce__


class KernelTypeError(KernelError, TypeError):
    """A kernel does something with values of types that it is not defined for."""


class KernelNameError(KernelError, NameError):
    """A kernel uses a name that means nothing."""


class KernelIndexError(KernelError, IndexError):
    """A kernel reads or writes beyond the ends of an array, in debug mode."""


class KernelRuntimeError(KernelError, RuntimeError):
    """A kernel cannot run with these arguments, or is asked for something that it does not have."""


class KernelAssertionError(KernelError, AssertionError):
    """An assertion of a kernel does not hold, in debug mode."""


class CompilerError(KernelError, RuntimeError):
    """There is no compiler, or it does not take what was generated."""


class DeviceError(KernelRuntimeError):
    """Something is wrong with a device, or with the driver."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has no room."""


_KINDS: Final = {
    **dict.fromkeys(
        (
            *(
                "annotation",
                "checkpoint",
                "graph",
                "loop-control",
                "nesting",
                "recursion",
                "return",
                "source",
            ),
            *("syntax", "unpacking"),
        ),
        KernelSyntaxError,
    ),
    **dict.fromkeys(("name", "undefined"), KernelNameError),
}


def make_kernel_error(code: str, message: str, hint: str | None, trace: Any, needs: Any) -> BaseException:
    """Build the exception for a code; called by the native half."""
    if needs:
        from ..dispatch.specialization import ValuesNeeded

        return ValuesNeeded(needs)
    kind: Any = _KINDS.get(code, KernelTypeError)
    error: BaseException = kind(message, code=code, hint=hint, trace=trace)
    return error


def make_device_error(code: str, message: str, hint: str) -> BaseException:
    """Build the exception for trouble with a device; called by the native half."""
    kinds: Any = {
        "compiler-failed": CompilerError,
        "no-compiler": CompilerError,
        "out-of-memory": DeviceMemoryError,
    }
    error: BaseException = kinds.get(code, DeviceError)(message, code=code, hint=hint or None)
    return error


class HostError(Exception):
    """What a host says about a value that kernels cannot use: it becomes an error with a place."""

    def __init__(self, code: str, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.language_code = code
        self.message = message
        self.hint = hint


def host_error(code: str, message: str, hint: str | None = None) -> HostError:
    """Return an exception that becomes an error of the language, at the place that asked."""
    return HostError(code, message, hint)
