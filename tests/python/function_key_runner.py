"""Prints the function keys of many little programs, as JSON; run in a process of its own.

Usage: ``function_key_runner.py ROOT``, where each directory under ROOT is a program whose module ``program``
has a function ``f``. An error counts as ``error CODE``.
"""

import json
import os
import sys

import keyprint as kp


def key_of(directory: str) -> str:
    known = set(sys.modules)
    sys.path.insert(0, directory)
    try:
        import program

        options = getattr(program, "OPTIONS", {})
        key = kp.FunctionKey(program.f, **options)
        return key.fingerprint.hex()
    except kp.KeyprintError as error:
        return f"error {error.code}"
    finally:
        sys.path.remove(directory)
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(directory):
                del sys.modules[name]


if __name__ == "__main__":
    root = sys.argv[1]
    print(json.dumps({name: key_of(os.path.join(root, name)) for name in sorted(os.listdir(root))}))
