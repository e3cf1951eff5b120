"""The source and every header it can include, read once: what is compiled is exactly what was read.

NVRTC cannot list the files it read, so it is never left to read the user's headers: each `#include` that leads to one
is resolved here, whatever the conditions around it, and handed over in memory under its absolute path. A directive
that this scan did not see therefore fails to compile and cannot go stale in the cache.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wmmadiag.compile.host_headers import is_host_header
from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.lexer import Token, directive, tokenize
from wmmadiag.compile.ptx_file import MOST_BYTES, ptx_text
from wmmadiag.errors import CompileError, ConfigurationError

_INCLUDE = re.compile(r'(?:<([^>\n]+)>|"([^"\n]+)")')
_HAS_INCLUDE = re.compile(r'__has_include\s*\(\s*(?:<([^>\n]+)>|"([^"\n]+)")\s*\)')
_MAX_FILES = 4000


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as read.

    Attributes:
        key: absolute path: the name under which the compiler gets it.
        name: the path to show, as the user would write it.
        text: its content; bytes that are not UTF-8 as surrogates.
        tokens: of the text.
    """

    key: str
    name: str
    text: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A source with its headers.

    Attributes:
        root: the source itself.
        headers: key → header, in the order of discovery.
        targets: (key of the including file, offset of the directive) → key of the header that it includes.
        probed: paths asked for by `__has_include`, with whether they exist.
        unresolved: names in directives that lead to no file of the user's and to no stub or CUDA header.
        computed: whether some `#include` takes its name from a macro, so that the compiler must search by itself.
    """

    root: SourceFile
    headers: Mapping[str, SourceFile]
    targets: Mapping[tuple[str, int], str]
    probed: tuple[tuple[str, bool], ...] = ()
    computed: bool = False
    unresolved: tuple[str, ...] = ()

    def files(self) -> tuple[SourceFile, ...]:
        """The source, then its headers."""
        return (self.root, *self.headers.values())


def read_text(path: Path) -> str:
    """The file's text; line ends are kept, bytes that are not UTF-8 become surrogates.

    Raises:
        ConfigurationError: it cannot be read, or is not text.
        PtxSyntaxError: it is a PTX file with a NUL within its text.
    """
    data = _read_bytes(path)
    if is_ptx(path):
        return ptx_text(data, path)
    if b"\0" in data:
        raise ConfigurationError(f"{path}: not a text file", hint="give CUDA source (.cu) or PTX (.ptx)")
    return data.decode("utf-8-sig", "surrogateescape")


def _read_bytes(path: Path) -> bytes:
    """A regular file's content: a pipe or a device may have no end."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            kind = next((what for test, what in _KINDS if test(about.st_mode)), "no regular file")
            raise ConfigurationError(f"{path}: cannot be read: it is {kind}", hint="write the text to a file")
        if about.st_size > MOST_BYTES:
            raise ConfigurationError(
                f"{path}: {about.st_size >> 20} MiB are more than the {MOST_BYTES >> 20} MiB that are read",
                hint="leave the kernels out that are not checked",
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(slots=True)
class _Reader:
    include_paths: tuple[Path, ...]
    is_provided: Callable[[str], bool]
    replaced: Mapping[str, str]
    headers: dict[str, SourceFile] = field(default_factory=dict)
    targets: dict[tuple[str, int], str] = field(default_factory=dict)
    probed: dict[str, bool] = field(default_factory=dict)
    computed: bool = False
    unresolved: dict[str, None] = field(default_factory=dict)

    def resolve(self, name: str, quoted: bool, folder: Path) -> Path | None:
        """The user's header that a directive in `folder` means, or None."""
        if Path(name).is_absolute():
            return Path(name) if Path(name).is_file() else None
        if quoted and (folder / name).is_file():
            return folder / name
        # Found or not, a host library's headers are of no use here, and some are thousands of files.
        if is_host_header(name) or self.is_provided(name):
            return None
        for path in self.include_paths:
            if (path / name).is_file():
                return path / name
        return None

    def scan(self, file: SourceFile, folder: Path) -> Iterable[tuple[SourceFile, Path]]:
        """Note each directive of one file; yield the headers not seen before, with their folders."""
        for token in file.tokens:
            if token.kind != "directive":
                continue
            what, argument = directive(token)
            if "__has_include" in argument and len(_HAS_INCLUDE.findall(argument)) < argument.count("__has_include"):
                self.computed = True
            for match in _HAS_INCLUDE.finditer(argument):
                found = self.resolve(match[1] or match[2], match[2] is not None, folder)
                self.probed[f"{file.key}:{match[0]}"] = found is not None
                self.computed = self.computed or found is not None
            if what not in ("include", "include_next", "import"):
                continue
            target = _INCLUDE.match(argument)
            if target is None:
                self.computed = True
                continue
            path = self.resolve(target[1] or target[2], target[2] is not None, folder)
            if path is None:
                name = target[1] or target[2]
                if is_host_header(name) or not self.is_provided(name):
                    self.unresolved[name] = None
                continue
            key = path.resolve().as_posix()
            self.targets[file.key, token.start] = key
            if key not in self.headers and key != file.key:
                if len(self.headers) >= _MAX_FILES:
                    raise CompileError(f"{file.name}: more than {_MAX_FILES} headers are included")
                text = self.replaced[key] if key in self.replaced else read_text(path)
                header = SourceFile(key, path.as_posix(), text, tuple(tokenize(text)))
                self.headers[key] = header
                yield header, path.parent


def read_tree(
    text: str,
    file_name: str,
    include_paths: Iterable[Path],
    is_provided: Callable[[str], bool],
    replaced: Mapping[str, str] | None = None,
) -> SourceTree:
    """Read every header that `text`, under the name `file_name`, can include.

    `is_provided(name)`: whether a stub or a CUDA header of that name stands in for `<name>`. `replaced`: absolute path
    of a header → the text to take in place of the file's.

    Raises:
        ConfigurationError: a header cannot be read.
    """
    path = Path(file_name)
    root = SourceFile(path.resolve().as_posix(), file_name, text, tuple(tokenize(text)))
    reader = _Reader(tuple(include_paths), is_provided, replaced or {})
    queue: list[tuple[SourceFile, Path]] = [(root, path.parent)]
    while queue:
        file, folder = queue.pop(0)
        queue.extend(reader.scan(file, folder))
    return SourceTree(
        root,
        reader.headers,
        reader.targets,
        tuple(sorted(reader.probed.items())),
        reader.computed,
        tuple(reader.unresolved),
    )


def in_memory(tree: SourceTree, texts: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Root text and header texts for the compiler: `texts` (by key, as many characters as read) with directives aimed.

    Each header starts with a `#line` that gives it its own name, so that messages and line tables show that.
    """
    sources: dict[str, str] = {}
    for file in tree.files():
        text, pieces, position = texts[file.key], [], 0
        for token in file.tokens:
            target = tree.targets.get((file.key, token.start))
            if target is None:
                continue
            pieces += [text[position : token.start], f'#include "{target}"', "\n" * token.text.count("\n")]
            position = token.end
        pieces.append(text[position:])
        sources[file.key] = "".join(pieces)
    root = sources.pop(tree.root.key)
    # A header may include the source itself (guarded); it then gets the same text.
    if tree.root.key in set(tree.targets.values()):
        sources[tree.root.key] = root
    names = {file.key: file.name for file in tree.files()}
    return root, {key: f'#line 1 "{_escape(names[key])}"\n{text}' for key, text in sources.items()}


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
