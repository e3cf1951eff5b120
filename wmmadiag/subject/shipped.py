"""The kernels that come with wmmadiag: right ones, and wrong ones that say what is wrong with them."""

from __future__ import annotations

import shutil
from pathlib import Path

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.find_cards import cards_below


def kernels() -> Path:
    """The folder of shipped kernels: in the installed package, or in the checkout of an editable installation.

    Raises:
        ConfigurationError: the installation lacks it.
    """
    return _folder("kernels")


def probes() -> Path:
    """The folder of the probes' kernels, found likewise.

    Raises:
        ConfigurationError: the installation lacks it.
    """
    return _folder("probes")


def _folder(name: str) -> Path:
    package = Path(__file__).parents[1]
    for folder in (package / "shipped" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise ConfigurationError(f"no {name} were installed with {package}", hint="reinstall wmmadiag")


def cards() -> list[tuple[str, str]]:
    """(path below `kernels()`, what it is) of every shipped card, sorted."""
    folder = kernels()
    return [(card.relative_to(folder).as_posix(), _head(card)) for card in sorted(cards_below(folder))]


def copy(target: Path) -> None:
    """Copy all shipped kernels to a new folder.

    Raises:
        ConfigurationError: the folder exists, or cannot be written.
    """
    if target.exists():
        raise ConfigurationError(f"{target} exists already", hint="name a folder that does not exist yet")
    try:
        shutil.copytree(kernels(), target, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise ConfigurationError(f"cannot copy to {target}: {error.strerror}", hint="name another folder") from None


def _head(card: Path) -> str:
    """A card's first comment line, without its mark."""
    first = card.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""
