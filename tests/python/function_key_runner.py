"""Prints the function keys of many little programs, as JSON; run in a process of its own.

Usage: ``function_key_runner.py ROOT``, where each directory under ROOT is a program whose module ``program``
has a function ``f``. An error counts as ``error CODE``.
"""

import json
import os
import sys

import keyprint as kp


def key_of(directory: str) -> str:
    """Return the key of a program, made in a process of its own: what it leaves behind is nobody else's."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        return text
    sys.path.insert(0, directory)
    text = "died"
    try:
        import program

        options = getattr(program, "OPTIONS", {})
        text = kp.FunctionKey(program.f, **options).fingerprint.hex()
    except kp.KeyprintError as error:
        text = f"error {error.code}"
    except BaseException as error:
        text = f"error {type(error).__name__}: {error}"
    finally:
        os.write(write, text.encode())
        os._exit(0)


if __name__ == "__main__":
    root = sys.argv[1]
    print(json.dumps({name: key_of(os.path.join(root, name)) for name in sorted(os.listdir(root))}))
