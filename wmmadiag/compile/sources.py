"""The source and every header it can include, read once: what is compiled is exactly what was read.

NVRTC cannot list the files it read, so it is never left to read the user's headers: each `#include` that leads to one
is resolved here, whatever the conditions around it, and handed over in memory under its absolute path. A directive
that this scan did not see therefore fails to compile and cannot go stale in the cache.

Headers are of two sorts. The user's own stand beside the source, and are read as it is. Those that only an include
path leads to are some library's, and are left whole; so are those of a path below the source's folder that leads to
more than a project has, as of a library that lies in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from wmmadiag.compile.host_headers import is_host_header
from wmmadiag.compile.read import is_file
from wmmadiag.compile.read import read_bytes as read_bytes
from wmmadiag.compile.read import read_text as read_text
from wmmadiag.csource import lexical
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.errors import CompileError

_INCLUDE = re.compile(r'(?:<([^>\n]+)>|"([^"\n]+)")')
_HAS_INCLUDE = re.compile(r'__has_include\s*\(\s*(?:<([^>\n]+)>|"([^"\n]+)")\s*\)')
_CALLED = re.compile(r"([A-Za-z_]\w*)(?:\s*\((.*)\))?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASKS_INCLUDE = re.compile(r"__has_include\w*\s*\(")
_MAX_BESIDE = 24
_MAX_OWN = 32  # headers of one include path below the source's folder: more are a library's
_MAX_FILES = 4000


@dataclass(frozen=True)
class SourceFile:
    """One file as read."""

    key: str  # absolute path: the name under which the compiler gets it
    name: str  # the path to show, as the user would write it
    data: bytes  # its content
    own: bool = True  # whether it is the user's own: the source, or a header beside it

    @cached_property
    def text(self) -> str:
        """The content; bytes that are not UTF-8 as surrogates."""
        return self.data.decode("utf-8", "surrogateescape")

    @cached_property
    def directives(self) -> tuple[lexical.Directive, ...]:
        """Its preprocessor directives; of a library's header those that include, and conditions."""
        # A literal may hold what looks like a directive, in a raw string alone; finding those takes longer.
        exact = self.own or b'R"' in self.data
        return tuple(lexical.directives(self.data) if exact else lexical.directives_at_line_starts(self.data))


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A source with its headers."""

    root: SourceFile  # the source itself
    headers: Mapping[str, SourceFile]  # key → header of the user's own, in the order of discovery
    # (key of the including file, offset of the directive) → key of the header that it includes
    targets: Mapping[tuple[str, int], str]
    probed: tuple[tuple[str, bool], ...] = ()  # paths asked for by `__has_include`, with whether they exist
    # whether some `#include` takes its name from a macro, so that the compiler must search by itself
    computed: bool = False
    # names in directives that lead to no file of the user's and to no stub or CUDA header
    unresolved: tuple[str, ...] = ()
    outside: Mapping[str, SourceFile] = field(default_factory=dict)  # key → header that an include path led to

    def files(self) -> tuple[SourceFile, ...]:
        """The user's own: the source, then its headers."""
        return (self.root, *self.headers.values())

    def with_kernels(self) -> tuple[SourceFile, ...]:
        """The user's own; where none of them defines a kernel, and some that they include by a search path do, those
        and what lies beside them, too, each behind what includes it."""
        own = self.files()
        if any(b"__global__" in one.data for one in own):
            return own
        found = {one.key: one for each in own for one in self._included(each) if b"__global__" in one.data}
        waiting = list(found.values())
        while waiting and len(found) < _MAX_BESIDE:
            one = waiting.pop(0)
            folder = one.key.rpartition("/")[0]
            for other in self._included(one):
                if other.key not in found and other.key.rpartition("/")[0] == folder:
                    found[other.key] = other
                    waiting.append(other)
        return (*own, *found.values())

    def _included(self, file: SourceFile) -> Iterator[SourceFile]:
        """Headers of search paths that a file includes."""
        keys = (self.targets.get((file.key, one.start), "") for one in file.directives)
        yield from (self.outside[key] for key in keys if key in self.outside)

    def every(self) -> Iterator[SourceFile]:
        """All files, the user's own first."""
        yield from self.files()
        yield from self.outside.values()


@dataclass(slots=True)
class _SourceReader:
    include_paths: tuple[Path, ...]
    is_provided: Callable[[str], bool]
    replaced: Mapping[str, str]
    home: str
    root_key: str
    own: frozenset[str]
    libraries: tuple[str, ...] = ()
    headers: dict[str, SourceFile] = field(default_factory=dict)
    outside: dict[str, SourceFile] = field(default_factory=dict)
    targets: dict[tuple[str, int], str] = field(default_factory=dict)
    probed: dict[str, bool] = field(default_factory=dict)
    computed: bool = False
    unresolved: dict[str, None] = field(default_factory=dict)
    unnamed: list[tuple[str, Path]] = field(default_factory=list)
    _found: dict[tuple[str, str], tuple[Path, str, bool] | None] = field(default_factory=dict)

    def resolve(self, name: str, quoted: bool, folder: Path) -> tuple[Path, str, bool] | None:
        """The user's header that a directive in `folder` means: its path, its key, and whether it was found beside the
        file that names it; or None."""
        asked = (name, str(folder) if quoted else "")
        if asked not in self._found:
            found = self._resolve(name, quoted, folder)
            self._found[asked] = (found[0], found[0].resolve().as_posix(), found[1]) if found is not None else None
        return self._found[asked]

    def _resolve(self, name: str, quoted: bool, folder: Path) -> tuple[Path, bool] | None:
        if Path(name).is_absolute():
            return (Path(name), False) if is_file(Path(name)) else None
        if quoted and is_file(folder / name):
            return folder / name, True
        # Found or not, a host library's headers are of no use here, and some are thousands of files.
        if is_host_header(name) or self.is_provided(name):
            return None
        for path in self.include_paths:
            if is_file(path / name):
                return path / name, False
        return None

    def scan(self, file: SourceFile, folder: Path) -> Iterable[tuple[SourceFile, Path]]:
        """Note each directive of one file; yield the headers not seen before, with their folders."""
        for one in file.directives:
            if "__has_include" in one.argument:
                self._probe(file, one.argument, folder)
            if one.name not in ("include", "include_next", "import"):
                continue
            target = _INCLUDE.match(one.argument)
            if target is None:
                self.unnamed.append((one.argument, folder))
                continue
            name = target[1] or target[2]
            found = self.resolve(name, target[2] is not None, folder)
            if found is None:
                if is_host_header(name) or not self.is_provided(name):
                    self.unresolved[name] = None
                continue
            path, key, nearby = found
            self.targets[file.key, one.start] = key
            if key not in self.headers and key not in self.outside and key != self.root_key:
                at_home = key.startswith(self.home) and not key.startswith(self.libraries)
                own = key in self.own or (file.own and (nearby or at_home))
                yield self._read(path, key, own, file.name), path.parent

    def name_unnamed(self, files: Sequence[SourceFile]) -> None:
        """Look at the `#include` that take their names from macros: those that can lead to none of the user's files are
        the compiler's alone."""
        called = {argument: _CALLED.fullmatch(argument) for argument, _ in self.unnamed}
        wanted = {match[1] for match in called.values() if match is not None}
        known = lexical.joined(lexical.macros_at_line_starts(file.data, wanted) for file in files) if wanted else {}
        for argument, folder in self.unnamed:
            match = called[argument]
            names = _expansions(known.get(match[1]), match[2]) if match is not None else []
            found = [_INCLUDE.fullmatch(name) for name in names]
            leads = [one is None or self.resolve(one[1] or one[2], one[2] is not None, folder) for one in found]
            self.computed = self.computed or not names or any(leads)

    def _probe(self, file: SourceFile, argument: str, folder: Path) -> None:
        if len(_HAS_INCLUDE.findall(argument)) < len(_ASKS_INCLUDE.findall(argument)):
            self.computed = True
        for match in _HAS_INCLUDE.finditer(argument):
            found = self.resolve(match[1] or match[2], match[2] is not None, folder)
            self.probed[f"{file.key}:{match[0]}"] = found is not None
            self.computed = self.computed or found is not None

    def _read(self, path: Path, key: str, own: bool, includer: str) -> SourceFile:
        if len(self.headers) + len(self.outside) >= _MAX_FILES:
            raise CompileError(
                f"{includer}: more than {_MAX_FILES} headers are included",
                hint="include less: not the whole library, but the headers that the kernel needs",
            )
        text = self.replaced.get(key)
        data = read_bytes(path) if text is None else text.encode("utf-8", "surrogateescape")
        header = SourceFile(key, path.as_posix(), data, own)
        (self.headers if own else self.outside)[key] = header
        return header


def read_tree(
    text: str,
    file_name: str,
    include_paths: Iterable[Path],
    is_provided: Callable[[str], bool],
    replaced: Mapping[str, str] | None = None,
    own: Iterable[str] = (),
) -> SourceTree:
    """Read every header that `text`, under the name `file_name`, can include.

    `is_provided(name)`: whether a stub or a CUDA header of that name stands in for `<name>`. `replaced`: absolute path
    of a header → the text to take in place of the file's. `own`: absolute paths of headers that are the user's wherever
    they lie.

    Raises:
        ConfigurationError: a header cannot be read.
    """
    path = Path(file_name)
    key = path.resolve()
    root = SourceFile(key.as_posix(), file_name, text.encode("utf-8", "surrogateescape"))
    home, paths, named = f"{key.parent.as_posix()}/", tuple(include_paths), frozenset(own)
    reader = _SourceReader(paths, is_provided, replaced or {}, home, root.key, named)
    _read_all(reader, root, path.parent)
    if libraries := _libraries(reader):
        reader = _SourceReader(paths, is_provided, replaced or {}, home, root.key, named, libraries)
        _read_all(reader, root, path.parent)
    reader.name_unnamed([root, *reader.headers.values(), *reader.outside.values()])
    return SourceTree(
        root,
        reader.headers,
        reader.targets,
        tuple(sorted(reader.probed.items())),
        reader.computed,
        tuple(reader.unresolved),
        reader.outside,
    )


def _read_all(reader: _SourceReader, root: SourceFile, folder: Path) -> None:
    queue: list[tuple[SourceFile, Path]] = [(root, folder)]
    while queue:
        file, folder = queue.pop(0)
        queue.extend(reader.scan(file, folder))


def _libraries(reader: _SourceReader) -> tuple[str, ...]:
    """Include paths below the source's folder that lead to more headers than a project of its own has."""
    roots = [f"{path.resolve().as_posix()}/" for path in reader.include_paths]
    below = [root for root in roots if root.startswith(reader.home) and root != reader.home]
    counts = Counter(next((root for root in below if key.startswith(root)), "") for key in reader.headers)
    return tuple(root for root, count in counts.items() if root and count > _MAX_OWN)


def _expansions(macro: lexical.Macro | None, arguments: str | None) -> list[str]:
    """What an invocation of a macro can stand for, by all its definitions; empty where that is not plain."""
    given = [one.strip() for one in arguments.split(",")] if arguments is not None else []
    if macro is None or len(macro.parameters or ()) != len(given) or any("#" in body for body in macro.bodies):
        return []
    values = dict(zip(macro.parameters or (), given, strict=True))
    return [_WORD.sub(lambda word: values.get(word[0], word[0]), body) for body in macro.bodies]


def in_memory(
    tree: SourceTree, texts: Mapping[str, bytes], edits: Mapping[str, Sequence[ByteEdit]] = MappingProxyType({})
) -> tuple[bytes, dict[str, bytes]]:
    """Root text and header texts for the compiler, with each `#include` aimed at the header that it was found to mean.

    Each header starts with a `#line` that gives it its own name, so that messages and line tables show that.

    Args:
        texts: by key, each as long as the file; a file that is not among them is given as it was read.
        edits: by key, what else is changed.
    """
    sources: dict[str, bytes] = {}
    for file in tree.every():
        aimed = [
            ByteEdit(one.start, one.end, f'#include "{target}"' + "\n" * file.data.count(b"\n", one.start, one.end))
            for one in file.directives
            if (target := tree.targets.get((file.key, one.start))) is not None
        ]
        text = lexical.readable_comments(texts.get(file.key, file.data))
        sources[file.key] = applied(text, [*aimed, *edits.get(file.key, ())])
    root = sources.pop(tree.root.key)
    # A header may include the source itself (guarded); it then gets the same text.
    if tree.root.key in set(tree.targets.values()):
        sources[tree.root.key] = root
    names = {file.key: file.name for file in tree.every()}
    return root, {key: named_line(names[key]) + text for key, text in sources.items()}


def named_line(name: str) -> bytes:
    """The directive that gives a file its own name."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{escaped}"\n'.encode("utf-8", "surrogateescape")
