"""From the paths that a user names to the cards and sources to check."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from wmmadiag.compile.read import near
from wmmadiag.errors import ConfigurationError

SOURCE_SUFFIXES = (".cu", ".cuh", ".ptx", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".inl", ".inc")
"""What may be given in place of a card, with options that say the rest."""

_CARD_KEYS = ("format", "source", "entry", "arguments", "launch", "computes")


def find_subjects(paths: Iterable[str | Path]) -> list[Path]:
    """The files to check, each once, in the order given; a folder stands for all cards below it, sorted.

    Raises:
        ConfigurationError: there is no such path, it is no card and no source, or a folder holds no card.
    """
    found: dict[Path, Path] = {}
    for given in paths:
        path = Path(given)
        check_exists(path)
        for item in cards_below(path) if path.is_dir() else [_known_kind(path)]:
            found.setdefault(Path(os.path.realpath(item)), item)
    return list(found.values())


def one_subject(path: Path) -> Path:
    """The card or source that a path means: a folder stands for the only card in it or below.

    Raises:
        ConfigurationError: there is no such path, or the folder holds several cards.
    """
    found = find_subjects([path])
    if len(found) != 1:
        names = ", ".join(one.as_posix() for one in found[:8])
        raise ConfigurationError(f"{path}: a folder of {len(found)} cards", hint=f"name one: {names}")
    return found[0]


def is_declared_wrong(card: Path) -> bool:
    """Whether a truth file stands beside a card: its kernel is broken on purpose, and that file says how."""
    return card.suffix == ".toml" and card.with_name(f"{card.stem}.truth.toml").is_file()


def without_declared_wrong(found: Sequence[Path], given: Iterable[str | Path]) -> tuple[list[Path], list[Path]]:
    """What to check, and the kernels that are broken on purpose, unless they are named, or there are no others."""
    named = {os.path.realpath(path) for path in given}
    wrong = [path for path in found if is_declared_wrong(path) and os.path.realpath(path) not in named]
    if len(wrong) == len(found):
        return list(found), []
    left_out = set(wrong)
    return [path for path in found if path not in left_out], wrong


def check_exists(path: Path) -> None:
    """Refuse a path that does not exist, with the nearest name that does.

    Raises:
        ConfigurationError: nothing is there, or it cannot be looked at.
    """
    try:
        path.stat()
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file or folder", hint=near(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(
            f"{path}: cannot be read: {reason}", hint="check the name, and who may read it"
        ) from None
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        # Such a name can stand in no card and in no line table.
        raise ConfigurationError(
            f"{path}: the name is not text in this locale's encoding", hint="set PYTHONUTF8=1, or rename the file"
        ) from None


def cards_below(folder: Path) -> list[Path]:
    """Every card in a folder and its subfolders, hidden ones apart; TOML files that are no cards are left out.

    Raises:
        ConfigurationError: there is none, or a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise ConfigurationError(f"{error.filename}: cannot be read: {error.strerror}", hint="check who may read it")

    cards: list[Path] = []
    sources: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            if name.endswith(".toml") and looks_like_card(path):
                cards.append(path)
            elif name.endswith((".cu", ".ptx")):
                sources.append(path)
    if not cards:
        hint = "write one with `wmmadiag init kernel.cu`"
        if sources:
            hint = f"write one with `wmmadiag init {sources[0]}`, or check a source by its own name"
        raise ConfigurationError(f"{folder}: no kernel card (*.toml) in this folder or below", hint=hint)
    return cards


def looks_like_card(path: Path) -> bool:
    """Whether a TOML file means to be a card: broken ones count, so that they are reported and not skipped."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return True  # reading it will say why
    from wmmadiag.subject.card_files.toml import parsed

    try:
        keys = set(parsed(text, str(path), "", ""))
    except ConfigurationError:
        lines = [line.replace("[", " ").replace("]", " ").replace("=", " ").split() for line in text.splitlines()]
        keys = {words[0] for words in lines if words}
    return sum(key in keys for key in _CARD_KEYS) >= 2


def _known_kind(path: Path) -> Path:
    if path.suffix == ".toml" or path.suffix.lower() in SOURCE_SUFFIXES:
        return path
    raise ConfigurationError(
        f"{path}: neither a kernel card (.toml) nor CUDA source (.cu) nor PTX (.ptx)",
        hint="give one of these, or a folder with cards",
    )
