"""Cards from a source alone: `wmmadiag init`, and `wmmadiag check kernel.cu --entry …` without a card."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.guess import Parameter
from wmmadiag.subject.drafts.host_scope import Ask, Launched
from wmmadiag.subject.drafts.model import Draft, Wishes
from wmmadiag.subject.drafts.python_reference import python_card
from wmmadiag.subject.drafts.text import draft_text
from wmmadiag.subject.suggest import did_you_mean

_NOT_SQUARE = (
    "matrices that are not square are meant, too, although the source itself launches with {} alone; "
    "--symbol M=… --symbol N=… says otherwise"
)


def draft_card(
    entry: str,
    parameters: Sequence[Parameter],
    launches: Sequence[Launched],
    source_path: Path,
    *,
    text: str = "",
    operation: str = "attention",
    remarks: Sequence[str] = (),
    card_path: Path | None = None,
    ask: Ask | None = None,
) -> str:
    """A commented card for a kernel, as TOML text; what is unknown says TODO.

    Args:
        entry: the kernel's name or name expression.
        parameters: of the kernel, in order.
        launches: of this kernel in the source's host code, the best one first.
        source_path: the source; read for its constants.
        text: in place of what is read, empty to read it.
        operation: what the kernel computes; "python" for a reference that the user writes.
        remarks: assumptions that came before.
        card_path: where the card will stand; beside the source if None.
        ask: for constants that only the compiler knows.

    Raises:
        ConfigurationError: the source cannot be read, or the operation is unknown.
    """
    if operation != "python":
        check_operation(operation)
    folder = (card_path or source_path).parent
    relative = Path(os.path.relpath(source_path, folder)).as_posix()
    text = text or _read(source_path)
    if operation == "python":
        return python_card(entry, parameters, launches, text, relative, source_path.stem)
    drafted = draft(entry, parameters, launches, text, operation, ask=ask)
    drafted.remarks[:0] = remarks
    return draft_text(drafted, relative, source_path.stem)


def card_from_options(
    entry: str,
    parameters: Sequence[Parameter],
    launches: Sequence[Launched],
    source_path: Path,
    *,
    operation: str,
    text: str = "",
    grid: Sequence[str] = (),
    block: Sequence[str] = (),
    shared: str = "",
    symbols: Mapping[str, str] | None = None,
    macros: Mapping[str, str] | None = None,
    ask: Ask | None = None,
) -> Card:
    """A card derived from a source and command-line options alone.

    Args:
        text: the source's, with that of headers; empty to read the source.
        grid, block, shared: expressions in place of the source's own launch; empty to derive them.
        symbols: values such as S = 256 in place of the usual cases'.
        macros: for the compiler.
        ask: for constants that only the compiler knows.

    Raises:
        ConfigurationError: something cannot be derived; the message says what, and how to give it.
    """
    check_operation(operation)
    source = text or _read(source_path)
    drafted = draft(entry, parameters, launches, source, operation, Wishes(grid, block, shared), ask)
    drafted.open += [
        (symbol, f"nothing tells the {meaning} that the kernel is made for; give it as --symbol {symbol}=…")
        for symbol, meaning in drafted.untold.items()
        if not {symbol, f"{symbol}q"} & set(symbols or {})
    ]
    if drafted.open:
        raise _not_derived(drafted, source_path)
    toml = draft_text(drafted, source_path.name, source_path.stem, dict(symbols or {}))
    card = parse_card(toml, source_path, shown=f"card derived from {source_path}")
    words = ["wmmadiag", "check", str(source_path), "--entry", entry, "--computes", operation]
    for option, values in (("--grid", grid), ("--block", block), ("--shared", [shared] if shared else [])):
        if values:
            words += [option, ",".join(values)]
    for name, value in (macros or {}).items():
        words += ["--define", f"{name}={value}" if value else name]
    for name, value in (symbols or {}).items():
        words += ["--symbol", f"{name}={value}"]
    assumed = _NOT_SQUARE.format(drafted.square) if drafted.square and not {"M", "N"} <= set(symbols or {}) else ""
    return replace(
        card,
        assumed=(assumed,) if assumed else (),
        macros={**card.macros, **(macros or {})},
        command=shlex.join(words),
        open_conventions=True,
    )


def check_operation(operation: str) -> None:
    """Refuse what is no operation, and the one that needs a card.

    Raises:
        ConfigurationError: names those that there are.
    """
    if operation == "python":
        raise ConfigurationError(
            "a Python reference needs a card", hint="write one with `wmmadiag init KERNEL.cu --computes python`"
        )
    known = [name for name in OPERATIONS if name != "python"]
    if operation not in known:
        raise ConfigurationError(f"unknown operation '{operation}'", hint=did_you_mean(operation, known))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"cannot read the source {path}: {error.strerror or error}") from None


def _not_derived(drafted: Draft, path: Path) -> ConfigurationError:
    options = [f"--{what} …" for what, _ in drafted.open if what in ("grid", "block", "shared")]
    options += [f"--symbol {what}=…" for what, _ in drafted.open if what in drafted.untold]
    write = f"wmmadiag init {shlex.quote(str(path))} --entry {shlex.quote(drafted.entry)}"
    hint = f"give {' '.join(options)}, or " if options and len(options) == len(drafted.open) else ""
    return ConfigurationError(
        f"{path}: not everything about the kernel '{drafted.entry}' can be derived from its source",
        detail="\n".join(f"  {what}: {why}" for what, why in drafted.open),
        hint=f"{hint}write a card with `{write}` and fill in its TODOs",
    )
