"""Drafting a card's file: `wmmadiag init`."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from wmmadiag.compile.languages import is_ptx
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.compiler_first import check_compiles
from wmmadiag.subject.drafts.confirmed import confirmed
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.find_cards import SOURCE_SUFFIXES, check_exists
from wmmadiag.subject.open_subject import SubjectOptions


def new_card(
    source: Path,
    card: Path | None,
    entry: str,
    computes: str,
    macros: Mapping[str, str],
    include_paths: tuple[Path, ...],
) -> tuple[str, int]:
    """The text of a card for a source, and how many places of it are still to be filled in.

    Args:
        card: where it will stand (paths in it are relative to that); None: beside the source.

    Raises:
        ConfigurationError: the source cannot be read, or has no such kernel.
        CompileError: the compiler refuses it.
    """
    check_exists(source)
    if source.is_dir() or source.suffix.lower() not in SOURCE_SUFFIXES:
        raise ConfigurationError(f"{source}: not a CUDA source", hint="give the .cu file that holds the kernel")
    options = SubjectOptions(entry=entry, computes=computes, macros=macros, include_paths=include_paths)
    check_compiles(source, options)  # no card for what cannot run
    target = card or source.with_suffix(".toml")
    own = is_ptx(source) or computes in ("python", "none")
    text = (None if own else confirmed(source, target, options)) or drafted_text(source, target, options)
    if include_paths:
        folders = [Path(os.path.relpath(path, target.parent)).as_posix() for path in include_paths]
        text = text.replace("\nentry = ", f"\ninclude_paths = {json.dumps(folders)}\nentry = ", 1)
    if macros:
        lines = [f"{name} = {json.dumps(value)}" for name, value in macros.items()]
        text += "\n".join(["[macros]", *lines]) + "\n"
    return text, _todos(text)


def _todos(text: str) -> int:
    return len(re.findall(r"^[^#\n]*\bTODO\b", text, re.MULTILINE))


def reference_text(card: str) -> tuple[str, str]:
    """The file that a card's Python reference is to stand in, and its text: what it gets, and what it has to return.

    Returns:
        ("", "") for a card that names no Python function.
    """
    named = re.search(r'^python = "([^":]+):(\w+)"', card, re.MULTILINE)
    if named is None:
        return "", ""
    tables = re.findall(r'^role = "(\w+)"\n(?:.*\n)*?direction = "(\w+)".*\nshape = (\[.*?\])', card, re.MULTILINE)
    read, written = ("in", "inout"), ("out", "inout")
    told = [[f"{role} {shape}" for role, direction, shape in tables if direction in one] for one in (read, written)]
    returned = ", ".join(f'"{role}": …' for role, direction, _ in tables if direction in written)
    lines = [
        '"""What the kernel computes, for its card: in float64, by the textbook formula."""',
        "",
        f"def {named[2]}(inputs, symbols):",
        '    """The outputs by role.',
        "",
        "    Args:",
        f"        inputs: float64 copies by role: {', '.join(told[0])}.",
        "        symbols: the numbers of the case by name.",
        "",
        f"    Returns: {', '.join(told[1])}.",
        '    """',
        f'    raise NotImplementedError("TODO: say what the kernel computes")  # return {{{returned}}}',
    ]
    return named[1], "\n".join(lines) + "\n"


def write_card(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a file whole or not at all.

    Raises:
        ConfigurationError: it exists and must not be overwritten, or cannot be written.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path}: is a folder", hint="give a file name with -o")
    if path.exists() and not overwrite:
        raise ConfigurationError(
            f"{path} exists already", hint="choose another file with -o, or overwrite it with --force"
        )
    draft: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        draft = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(path)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be written: {error.strerror}", hint="choose another file with -o"
        ) from None
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)
