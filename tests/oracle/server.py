"""Runs programs, each in a process of its own that begins as a fresh interpreter with Keyprint loaded.

Reads requests as lines of JSON and answers each with a line: what ``f`` returned, and its key. A fork of a
process that has run nothing stands for a fresh interpreter, at a tenth of the price.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import traceback
from typing import Any

import keyprint as kp

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

#: A key that takes longer hangs.
_SECONDS = 20

#: A program that takes longer does not end.
_RESULT_SECONDS = 1.0

#: One that takes more memory does not end, either.
_MEMORY = 2 << 30


def _shown(value: Any) -> str:
    return _ADDRESS.sub("", repr(value))


class _TooLong(BaseException):
    """A program that does not end, or fills the memory: nothing to compare."""


def _stop(*_: object) -> None:
    raise _TooLong


def _result(f: Any) -> str:
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, _RESULT_SECONDS)
    try:
        return _shown(f())
    except MemoryError:
        raise _TooLong from None
    except RecursionError:
        return "raised RecursionError"
    except Exception as error:
        return f"raised {type(error).__name__}: {_shown(error.args)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.alarm(_SECONDS)


def _key(f: Any) -> dict[str, Any]:
    try:
        return {"key": kp.FunctionKey(f).fingerprint.hex()}
    except kp.KeyprintError as error:
        return {"refused": error.code, "message": str(error)}
    except Exception:
        return {"crash": traceback.format_exc()}


def _edited(request: dict[str, Any]) -> dict[str, Any]:
    """Answer for a program as it is: its key, then what it does."""
    import program

    answer = _key(program.f)
    answer["result"] = _result(program.f)
    return answer


def _changed(request: dict[str, Any]) -> dict[str, Any]:
    """Answer for a program that changes something in place: whether the key says so."""
    import program

    before = _result(program.f)
    try:
        key = kp.FunctionKey(program.f)
    except kp.KeyprintError as error:
        return {"refused": error.code, "message": str(error)}
    except Exception:
        return {"crash": traceback.format_exc()}
    if not key.is_current():
        return {"refused": "unstable", "message": "not current at once"}
    try:
        exec(request["change"], vars(program))
    except Exception as error:
        return {"refused": "no-change", "message": repr(error)}
    try:
        current = key.is_current()
    except kp.KeyprintError as error:
        current, key = False, error
    except Exception:
        return {"crash": traceback.format_exc()}
    after = _result(program.f)
    return {"key": "same" if current else "other", "result": [before, after]}


_KINDS = {"edited": _edited, "changed": _changed}


def _run(request: dict[str, Any], answer_to: int) -> None:
    signal.alarm(_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    sys.dont_write_bytecode = True
    sys.path.insert(0, request["directory"])
    try:
        answer = _KINDS[request["kind"]](request)
    except BaseException as error:
        answer = {"invalid": f"{type(error).__name__}: {error}"}
    os.write(answer_to, json.dumps(answer).encode())


def serve() -> None:
    out = os.dup(1)
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                _run(json.loads(line), write)
            finally:
                os._exit(0)
        os.close(write)
        content = b""
        while part := os.read(read, 65536):
            content += part
        os.close(read)
        os.waitpid(child, 0)
        if not content:
            content = json.dumps({"crash": "the process died, or took too long"}).encode()
        os.write(out, content + b"\n")


def _warm_up() -> int:
    return 1


if __name__ == "__main__":
    # What programs import is loaded once; what they define is not.
    import array, calendar, collections.abc, configparser, contextvars, copy, dataclasses, datetime, decimal, enum  # noqa: E401, F401, I001
    import fractions, functools, itertools, logging, operator, pathlib, statistics, string, struct, textwrap  # noqa: E401, F401
    import types, typing, uuid, weakref  # noqa: E401, F401

    kp.FunctionKey(_warm_up)
    serve()
