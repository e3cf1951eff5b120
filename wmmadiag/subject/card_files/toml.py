"""TOML as it stands in a file: its values with the lines of their keys, and what is none refused by its line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place
from wmmadiag.subject.card import Places
from wmmadiag.subject.card_files.places import key_lines
from wmmadiag.subject.card_files.table import Table

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


def parsed(text: str, name: str, message: str, hint: str) -> dict[str, Any]:
    """The values of a TOML text.

    Args:
        name: of its file.
        message, hint: of what is said where it is none.

    Raises:
        ConfigurationError: it is no TOML; with the place.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = re.search(r"\(at line (\d+), column (\d+)\)", said)
        line, column = (int(found[1]), int(found[2])) if found else (text.count("\n") + 1, 0)
        cause = re.sub(r"\s*\(at [^)]*\)\Z", "", said)
        raise ConfigurationError(f"{message}: {cause}", place=Place(name, line, column), hint=hint) from None
    except (RecursionError, ValueError):
        raise ConfigurationError(message, place=Place(name, 1), hint=hint) from None


def read_table(path: Path, what: str, hint: str, mend: str) -> Table:
    """The table of a TOML file.

    Args:
        what: the file is, "the plan". hint, mend: the next step where it cannot be read, and where it is no TOML.

    Raises:
        ConfigurationError: it cannot be read, or is no TOML.
    """
    try:
        text = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigurationError(f"cannot read {what} {path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{what} {path} is no TOML: {error}", hint=mend) from None
    content = parsed(text, str(path), f"{what} {path} is no TOML", mend)
    return Table(content, Places(str(path), key_lines(text)))
