"""What the compiler refuses in a source is told first, whatever else cannot be derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.compile.languages import is_ptx
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.subject.open_subject import SubjectOptions


@contextmanager
def compiler_first(path: Path, options: SubjectOptions) -> Iterator[None]:
    """Around what derives something from a CUDA source; nothing for other files.

    Raises:
        CompileError: the source is beyond what a compiler could be asked (before anything is derived), or could not be
            derived from because the compiler refuses it.
        ConfigurationError: it cannot be read.
    """
    if not _is_cuda(path):
        yield
        return
    _check_limits(path, options)
    try:
        yield
    except ConfigurationError:
        check_compiles(path, options)
        raise


def check_compiles(path: Path, options: SubjectOptions) -> None:
    """Compile a source, where there is a compiler; nothing for files that are no CUDA source.

    Raises:
        CompileError: the compiler refuses it.
    """
    from wmmadiag.compile.driver import compile_source

    if _is_cuda(path):
        with suppress(ConfigurationError):
            compile_source(path, options.compilation())


def _is_cuda(path: Path) -> bool:
    return path.suffix != ".toml" and not is_ptx(path)


def _check_limits(path: Path, options: SubjectOptions) -> None:
    from wmmadiag.compile.limits import check_limits
    from wmmadiag.compile.own_files import OwnFiles
    from wmmadiag.compile.sources import read_text, read_tree

    # The user's own headers alone: what a library's macros expand to is asked with the compilation.
    tree = read_tree(read_text(path), path.as_posix(), (), lambda _: True)
    check_limits(OwnFiles(tree, options.defines))
