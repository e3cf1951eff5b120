"""Compiling what is tried next while the present trial runs: NVRTC needs no Python meanwhile."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.compile.precompiled import IN_USE
from wmmadiag.subject.compiling import Texts

if TYPE_CHECKING:
    from wmmadiag.compile import Compilation, CompileOptions

_Key: TypeAlias = "tuple[str, tuple[tuple[str, str], ...], str]"


@dataclass
class Ahead:
    """Compilations of one source with some files' texts replaced, begun before they are asked for."""

    _pool: ThreadPoolExecutor | None = None
    _begun: dict[_Key, Future[Compilation]] = field(default_factory=dict)

    @cached_property
    def _headers(self) -> Path:
        """Where NVRTC keeps precompiled headers, 10 to 20 MB each: gone with this."""
        folder = Path(tempfile.mkdtemp(prefix="wmmadiag-headers-"))
        weakref.finalize(self, _remove, folder)
        return folder

    def begin(self, path: Path, options: CompileOptions, texts: Texts) -> None:
        """Begin one, on a thread of its own."""
        key = _key(path, options, texts)
        if key not in self._begun:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "wmmadiag-compile")
            self._begun[key] = self._pool.submit(compile_changed, path, self._kept(options), texts)

    def take(self, path: Path, options: CompileOptions, texts: Texts) -> Compilation:
        """The compilation, now.

        Raises:
            CompileError: the changed text does not compile.
            ConfigurationError: a part of the installation is missing.
        """
        begun = self._begun.pop(_key(path, options, texts), None)
        if begun is None or begun.cancel():
            return compile_changed(path, self._kept(options), texts)
        return begun.result()

    def _kept(self, options: CompileOptions) -> CompileOptions:
        return replace(options, precompiled=self._headers)

    def drop(self) -> None:
        """Forget what was begun and not taken; what runs ends by itself."""
        for begun in self._begun.values():
            begun.cancel()
        self._begun.clear()

    def close(self) -> None:
        """Wait for what runs, and remove the precompiled headers; usable again afterwards."""
        self.drop()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        folder = self.__dict__.pop("_headers", None)
        if folder is not None:
            _remove(folder)


def compile_changed(path: Path, options: CompileOptions, texts: Texts) -> Compilation:
    """Compile a source with some files' texts replaced; what is tried is not worth a cache on disk.

    Args:
        texts: resolved path → text; of the source itself, or of headers that it includes.

    Raises:
        CompileError: it does not compile.
        ConfigurationError: a part of the installation is missing.
    """
    from wmmadiag.compile import compile_source, compile_text

    own = texts.get(path.resolve())
    headers = {file.as_posix(): text for file, text in texts.items() if file != path.resolve()}
    if own is None and not headers:
        return compile_source(path, options)
    text = own if own is not None else path.read_text("utf-8", "surrogateescape")
    return compile_text(text, str(path), options, use_cache=False, headers=headers)


def _remove(folder: Path) -> None:
    with IN_USE:
        shutil.rmtree(folder, ignore_errors=True)


def _key(path: Path, options: CompileOptions, texts: Texts) -> _Key:
    return str(path), tuple(sorted((str(file), text) for file, text in texts.items())), repr(options)
