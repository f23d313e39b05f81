"""The source of functions, found for the code that is loaded.

A function's code says which file it was compiled from, and in which line it begins. The file is read
and looked up by its digest in a table: one parse per version of a file, kept in a store, so that a warm
process parses nothing. A table also holds digests of what the interpreter compiles the file to. Only if
the loaded code is that, the source is taken for the function's own: a file that was edited after it was
imported, or whose import rewrote it, does not speak for the code that runs. What pytest makes of assertions
means the same, so what it compiles a file to counts, too.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from _weakref import ref

from .._native import Fingerprint, SourceFunction, SourceTable, fingerprint
from ..store.keys import Key
from .interpreter import BYTE_CODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, Final

    from ..store.stores import Store

__all__ = ["FUTURE", "Source", "Sources"]

#: What byte code depends on, besides its source.

_PART: Final = "table"

#: What `from __future__` leaves in the flags of code.
FUTURE: Final = 0x1FE0000


class Source:
    """What is known of the source of a function.

    ``function`` is nothing where there is no source, or none that the loaded code was compiled from;
    ``text_digest`` is that of the text in the function's place all the same, if there is one.
    """

    __slots__ = ("code", "file", "function", "text_digest")

    def __init__(
        self,
        code: Fingerprint,
        file: _File | None,
        function: SourceFunction | None,
        text_digest: Fingerprint | None,
    ) -> None:
        self.code = code
        self.file = file
        self.function = function
        self.text_digest = text_digest


class _File:
    """One version of a file."""

    __slots__ = ("digest", "name", "stamp", "table")

    def __init__(self, name: str, digest: Fingerprint, table: SourceTable | None, stamp: object) -> None:
        #: When it was written, and how long it is.
        self.stamp = stamp
        self.name = name
        self.digest = digest
        self.table = table


class Sources:
    """Finds sources, and remembers the tables of files: in the process, and in a store if there is one."""

    def __init__(self, store: Store | Callable[[], Store | None] | None = None) -> None:
        self._given = store
        self._files: dict[str, _File] = {}
        #: By address, with a reference that says whether it is still the same code.
        self._found: dict[int, tuple[Any, Source]] = {}
        #: How many files were parsed: a warm process parses none.
        self.parsed = 0

    @property
    def _store(self) -> Store | None:
        given: Any = self._given
        store: Store | None = given() if callable(given) else given
        return store

    def of(self, code: CodeType, globals_: dict[str, Any]) -> Source:
        """Return what is known of the source of a code object."""
        known = self._found.get(id(code))
        if known is not None and known[0]() is code:
            return known[1]
        source = self._find(code, globals_)
        place = id(code)
        self._found[place] = ref(code, lambda _: self._found.pop(place, None)), source
        return source

    def text(self, source: Source, globals_: dict[str, Any]) -> str | None:
        """Return the text of a function, if it is still what it was; as it would stand at the beginning of lines."""
        located = self.located(source, globals_)
        if located is None:
            return None
        text, before = located
        if not before or before.strip(" \t"):
            return text
        import textwrap

        return textwrap.dedent(before + text)

    def located(self, source: Source, globals_: dict[str, Any]) -> tuple[str, str] | None:
        """Return the text of a function, and what is before it in its first line."""
        if source.file is None or source.function is None:
            return None
        content = _content(source.file.name, globals_)
        if content is None or fingerprint(content) != source.file.digest:
            return None
        begin, end = source.function.span
        whole = _decoded(content)
        if whole is None:
            return None
        encoded = whole.encode()
        line = encoded.rfind(b"\n", 0, begin) + 1
        return encoded[begin:end].decode(), encoded[line:begin].decode()

    def _find(self, code: CodeType, globals_: dict[str, Any]) -> Source:
        digest = fingerprint(code, mode="lenient")
        name, line = code.co_name, code.co_firstlineno
        file = self._files.get(code.co_filename)
        function = None
        # What byte code does not tell, such as annotations of locals, may have been edited.
        is_same = file is not None and file.stamp == _stamp(code.co_filename)
        if is_same and file is not None and file.table is not None:
            function = file.table.find(name, line, bytes(digest))
        if function is None:
            # Not looked at yet, or edited and loaded again since.
            file = self._load(code, globals_, file)
            if file is not None and file.table is not None:
                function = file.table.find(name, line, bytes(digest))
        text_digest = None
        if file is not None and file.table is not None:
            text_digest = file.table.digest_at(name, line)
        return Source(digest, file, function, text_digest)

    def _load(self, code: CodeType, globals_: dict[str, Any], known: _File | None) -> _File | None:
        name = code.co_filename
        stamp = _stamp(name)
        content = _content(name, globals_)
        if content is None:
            return None
        digest = fingerprint(content)
        if known is not None and known.digest == digest:
            known.stamp = stamp
            return known
        # Cells and the like are compiled as those before them have asked for.
        flags = code.co_flags & FUTURE if name.startswith("<") else 0
        file = _File(name, digest, self._table(name, content, digest, flags, _rewriter(globals_)), stamp)
        self._files[name] = file
        return file

    def _table(
        self, name: str, content: bytes, digest: Fingerprint, flags: int, rewriter: _Rewriter | None
    ) -> SourceTable | None:
        parts = {"file": digest, "interpreter": BYTE_CODE, "flags": flags}
        if rewriter is not None:
            parts["rewriter"] = rewriter.identity
        key = Key(".source table", parts)
        if self._store is not None:
            entry = self._store.get(key)
            if entry is not None:
                table = SourceTable.from_bytes(entry[_PART])
                if table is not None:
                    return table
        self.parsed += 1
        table = _parse(name, content, flags, rewriter)
        if table is not None and self._store is not None:
            self._store.put(key, {_PART: table.to_bytes()}, {"functions": len(table)})
        return table


def _stamp(name: str) -> object:
    """Return what changes when a file is written; nothing equals it where there is no file."""
    try:
        status = os.stat(name)
    except (OSError, ValueError):
        return object()
    return status.st_mtime_ns, status.st_size, status.st_ino


def _content(name: str, globals_: dict[str, Any]) -> bytes | None:
    """Return what a file holds now; for what is no file, what `linecache` or its loader has."""
    if not name.startswith("<"):
        try:
            with open(name, "rb") as file:
                return file.read()
        except (OSError, ValueError):
            pass
    import linecache

    lines = linecache.getlines(name, globals_)
    return "".join(lines).encode("utf-8", "surrogatepass") if lines else None


def _decoded(content: bytes) -> str | None:
    head = content[:400].split(b"\n", 2)[:2]
    try:
        if any(b"coding" in line for line in head):
            import io
            import tokenize

            # Line ends are left as they are: positions are counted in this very text.
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            return content.decode(encoding)
        # What `utf-8-sig` does, which is a module to load.
        return content.removeprefix(b"\xef\xbb\xbf").decode()
    except (UnicodeDecodeError, SyntaxError, LookupError):
        return None


_rewriting = allocate_lock()


class _Rewriter:
    """What makes other code of a file than the interpreter does: pytest, of the assertions in tests."""

    __slots__ = ("identity", "rewrite")

    def __init__(self, identity: tuple[Any, ...], rewrite: Callable[[str, bytes], CodeType]) -> None:
        self.identity = identity
        #: Returns what it makes of a file.
        self.rewrite = rewrite


def _rewriter(globals_: dict[str, Any]) -> _Rewriter | None:
    """Return what has rewritten a module when it was loaded, if that means the same."""
    loader = getattr(globals_.get("__spec__"), "loader", None) or globals_.get("__loader__")
    module = sys.modules.get("_pytest.assertion.rewrite")
    hook = getattr(module, "AssertionRewritingHook", None)
    if module is None or hook is None or not isinstance(loader, hook):
        return None
    config = getattr(loader, "config", None)

    def rewrite(name: str, content: bytes) -> CodeType:
        import ast

        # Before CPython 3.12, threads that make trees at the same time count their depth together.
        with _rewriting:
            for attempt in range(8):
                try:
                    tree = ast.parse(content, filename=name)
                    module.rewrite_asserts(tree, content, name, config)
                    return compile(tree, name, "exec", dont_inherit=True)
                except SystemError:
                    if attempt == 7:
                        raise
        raise AssertionError("never reached")

    has_hook = bool(config is not None and config.getini("enable_assertion_pass_hook"))
    return _Rewriter(("pytest", getattr(module, "version", ""), has_hook), rewrite)


def _parse(name: str, content: bytes, flags: int, rewriter: _Rewriter | None) -> SourceTable | None:
    """Return the table of a file, with what the interpreter compiles it to; nothing if it is no Python."""
    import warnings

    text = _decoded(content)
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = compile(content, name, "exec", flags=flags, dont_inherit=True)
            modules = [module] if rewriter is None else [module, rewriter.rewrite(name, content)]
        table = SourceTable.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return None
    for module in modules:
        table = table.with_codes(_codes_in(module))
    return table


def _codes_in(module: CodeType) -> list[tuple[str, int, list[str], bytes]]:
    """Return the code of all functions of a module: names, lines, parameters, digests."""
    codes = []
    pending = [module]
    while pending:
        code = pending.pop()
        pending.extend(const for const in code.co_consts if isinstance(const, type(module)))
        # The rest are classes, comprehensions and the module.
        if code.co_flags & _OWN_LOCALS:
            digest = bytes(fingerprint(code, mode="lenient"))
            codes.append((code.co_name, code.co_firstlineno, parameters_of(code), digest))
    return codes


#: `CO_OPTIMIZED | CO_NEWLOCALS`: functions, and comprehensions, which no line of a table names.
_OWN_LOCALS: Final = 0x1 | 0x2


def parameters_of(code: CodeType) -> list[str]:
    """Return the names of the parameters, in the order of the source."""
    ordinary, named = code.co_argcount, code.co_kwonlyargcount
    names = list(code.co_varnames)
    parameters = names[:ordinary]
    at = ordinary + named
    if code.co_flags & 0x4:
        parameters.append(names[at])
        at += 1
    parameters += names[ordinary : ordinary + named]
    if code.co_flags & 0x8:
        parameters.append(names[at])
    return parameters
