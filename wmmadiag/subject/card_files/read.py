"""Reading a card: TOML text → `Card`, every mistake with its line."""

from __future__ import annotations

import re
from pathlib import Path

from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.ops import OPERATIONS
from wmmadiag.place import Place
from wmmadiag.subject import card_keys
from wmmadiag.subject.card import (
    FORMAT,
    Card,
    Case,
    Computes,
    Expression,
    FromRole,
    FromSymbols,
    Keyword,
    LaunchShape,
    Places,
    Tolerance,
    Variant,
)
from wmmadiag.subject.card_files.arguments import changed_arguments, read_arguments
from wmmadiag.subject.card_files.places import key_lines
from wmmadiag.subject.card_files.table import Table, type_name
from wmmadiag.subject.card_files.toml import parsed
from wmmadiag.subject.distributions import DISTRIBUTIONS

MAX_CARD_BYTES = 1 << 20
MAX_CASES = 1000

_OF_USER = next(name for name, operation in OPERATIONS.items() if operation.of_user)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_STANDARDS = ("c++11", "c++14", "c++17", "c++20")


def load_card(path: str | Path) -> Card:
    """Read and check a card.

    Args:
        path: the TOML file.

    Raises:
        ConfigurationError: with the file, the line of the offending key and the next step.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the card {path}: {error.strerror or error}", hint="check the name, and who may read it"
        ) from None
    if len(raw) > MAX_CARD_BYTES:
        raise ConfigurationError(
            f"the card {path} is larger than {MAX_CARD_BYTES} bytes", hint="a card describes a kernel; give its file"
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            "the card is not UTF-8 text", place=Place(str(path), line), hint="save it as UTF-8"
        ) from None
    return parse_card(text, path)


def parse_card(text: str, path: Path, shown: str = "") -> Card:
    """Like `load_card`, from text.

    Args:
        path: the card's file; paths in the card are relative to its folder.
        shown: what messages call the file; its path if empty.
    """
    text = text.replace("\r\n", "\n")
    mend = "mend the line; `wmmadiag init` writes a card that is right to compare with"
    content = parsed(text, str(path), "this is not valid TOML", mend)
    card = Table(content, Places(shown or str(path), key_lines(text)))
    if "format" not in card and "arguments" not in card and "source" not in card:
        raise ConfigurationError(
            "this TOML file is not a kernel card",
            place=card.place(),
            hint="a card begins with `format = 1`; `wmmadiag init kernel.cu` writes one",
        )
    version = card.integer("format", FORMAT)
    if version != FORMAT:
        raise card.error(
            "format", f"this is a card of format {version}; this wmmadiag reads format {FORMAT}", "update wmmadiag"
        )
    card.check_keys(card_keys.CARD)
    card.require("source", 'source = "kernel.cu"')
    card.require("entry", 'entry = "my_kernel"')
    card.require("arguments", '[[arguments]] with name = "q", role = "q", dtype = "f16"')
    card.require("launch", '[launch] with grid = "B*H" and block = 128')
    card.require("computes", '[computes] with operation = "attention"')
    computes = _computes(card.table("computes"))
    symbols = _symbols(card.table("symbols"))
    return Card(
        name=card.string("name") or path.parent.name or path.stem,
        path=path,
        source=_source(card, path),
        entry=_filled(card, "entry"),
        arguments=read_arguments(card, computes.operation),
        launch=read_launch(card.table("launch")),
        cases=_cases(card, (*card_keys.CASE, *OPERATIONS[computes.operation].symbols)),
        computes=computes,
        places=card.places,
        macros=_macros(card),
        variants=_variants(card, path, computes.operation),
        include_paths=tuple(path.parent / item for item in card.strings("include_paths")),
        std=card.word("std", _STANDARDS, "c++17"),
        symbols=symbols,
        inputs=card.word("inputs", tuple(DISTRIBUTIONS), ""),
        seed=card.integer("seed", 0, 0, 2**63 - 1),
        tolerance=_tolerance(card),
    )


def _filled(table: Table, key: str) -> str:
    value = table.string(key)
    if not value.strip():
        raise table.error(key, f"'{key}' is empty")
    if "TODO" in value:
        raise table.error(key, f"'{key}' is still to be filled in", f"replace the TODO in {key}")
    return value


def _source(table: Table, path: Path) -> Path:
    source = path.parent / _filled(table, "source")
    try:
        found = source.is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        raise table.error("source", f"there is no source file {source}", "give `source` relative to the card's folder")
    return source


def _computes(table: Table) -> Computes:
    implied = _OF_USER if any(key in table for key in card_keys.FUNCTION) else ""
    if not implied:
        table.require("operation", 'operation = "attention"')
    name = table.word("operation", tuple(OPERATIONS), implied)
    operation = OPERATIONS[name]
    of_user = operation.of_user
    table.check_keys(["operation", *operation.parameters, *(card_keys.FUNCTION if of_user else ())])
    parameters: dict[str, Expression | bool] = {}
    for key in table.content:
        parameter = operation.parameters.get(key)
        if parameter is None:
            continue
        parameters[key] = table.word(key, parameter.words, "") if parameter.kind == "word" else table.expression(key)
    if not of_user:
        return Computes(name, table.place(), parameters)
    return _function(table, name)


def _function(table: Table, operation: str) -> Computes:
    """A function of the user's (`python`), or one of a library (`reference`), or a `formula`."""
    python, reference = table.string("python"), table.string("reference")
    if "formula" in table:
        if python or reference:
            raise table.error("formula", "'formula' excludes 'python' and 'reference'", "keep one of them")
        given = table.content["formula"]
        said = (given,) if isinstance(given, str) else table.strings("formula")
        rounding = table.word("rounding", ("f16", "bf16", "tf32"), "")
        return Computes(operation, table.place(), {}, formula=said, rounding=rounding)
    if reference:
        if python:
            raise table.error("reference", "'python' and 'reference' exclude each other", "keep one of them")
        if not re.match(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z", reference):
            raise table.error("reference", "'reference' must look like \"torch.nn.functional.silu\"")
        keywords = table.table("keywords")
        return Computes(
            operation,
            table.place(),
            {},
            reference=reference,
            arguments=table.strings("arguments"),
            keywords={name: _keyword(keywords, name, value) for name, value in keywords.content.items()},
        )
    table.require("python", 'python = "reference.py:attention", or reference = "torch.nn.functional.silu"')
    if not re.match(r"[^:]+\.py:[A-Za-z_]\w*\Z", python):
        raise table.error("python", "'python' must look like \"file.py:function\"")
    return Computes(operation, table.place(), {}, python)


def _keyword(table: Table, name: str, value: object) -> Keyword:
    """What a library's function gets by a name: a value, `{ role = "mask" }` or `{ value = "1/sqrt(D)" }`."""
    if isinstance(value, dict):
        if set(value) == {"role"} and isinstance(value["role"], str):
            return FromRole(value["role"])
        if set(value) == {"value"}:
            return FromSymbols(table.as_expression(value["value"], name))
        raise table.error(name, f"'{name}' is neither {{ role = … }} nor {{ value = … }}")
    if isinstance(value, list):
        return tuple(_keyword(table, name, one) for one in value)
    if isinstance(value, str | int | float):
        return value
    raise table.error(name, f"'{name}' must be a value, a role or an expression, but is {type_name(value)}")


def _symbol_name(table: Table, name: str) -> None:
    if not _NAME.match(name):
        raise table.error(name, f"'{name}' cannot be a symbol", "a symbol is a letter, then letters, digits and _")


def _symbols(table: Table) -> dict[str, Expression]:
    for name in table.content:
        _symbol_name(table, name)
    return {name: table.expression(name) for name in table.content}


def _macros(table: Table) -> dict[str, Expression]:
    macros = table.table("macros")
    for name in macros.content:
        if not _NAME.match(name):
            raise macros.error(name, f"'{name}' cannot be a macro's name")
    return table.expression_table("macros")


def read_launch(table: Table) -> LaunchShape:
    """The `[launch]` table."""
    table.check_keys(card_keys.LAUNCH)
    table.require("grid", 'grid = ["ceil_div(S, 64)", "B*H"]')
    table.require("block", "block = 128")
    dimensions = []
    for key in ("grid", "block"):
        value = table.expressions(key)
        if not 1 <= len(value) <= 3:
            raise table.error(key, f"'{key}' needs one to three dimensions, but has {len(value)}")
        dimensions.append(value)
    shared = table.expression("shared") if "shared" in table else 0
    return LaunchShape(dimensions[0], dimensions[1], shared, table.place())


def _tolerance(table: Table) -> Tolerance | None:
    if "tolerance" not in table:
        return None
    inner = table.table("tolerance")
    inner.check_keys(("atol", "rtol"))
    if not inner.content:
        raise table.error("tolerance", "'tolerance' is empty", "write tolerance = { atol = 1e-3, rtol = 1e-3 }")
    return Tolerance(inner.number("atol") if "atol" in inner else 0.0, inner.number("rtol") if "rtol" in inner else 0.0)


def _looks_misspelt(key: str, meant: tuple[str, ...]) -> bool:
    import difflib

    return len(key) > 2 and key not in meant and bool(difflib.get_close_matches(key, meant, n=1, cutoff=0.8))


def _words(value: object) -> set[str]:
    """Every identifier in the strings of a TOML value."""
    if isinstance(value, dict):
        return set().union(*(_words(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(_words(item) for item in value))
    return set(re.findall(r"[A-Za-z_]\w*", value)) if isinstance(value, str) else set()


def _cases(card: Table, meant: tuple[str, ...]) -> tuple[Case, ...]:
    """`meant`: keys that a case's own may be misspelt for."""
    tables = card.tables("cases")
    if not tables:
        raise ConfigurationError(
            "the card has no cases",
            place=card.place("cases"),
            hint='add, for example: [[cases]] with name = "small", B = 1, H = 2, S = 64, D = 64',
        )
    if len(tables) > MAX_CASES:
        raise card.error("cases", f"more than {MAX_CASES} cases")
    used = _words(dict(card.content))
    cases: list[Case] = []
    for index, table in enumerate(tables):
        symbols: dict[str, Expression] = {}
        for key, value in table.content.items():
            if key in card_keys.CASE:
                continue
            _symbol_name(table, key)
            if isinstance(value, list | dict):
                raise table.error(key, f"unknown key '{key}' in {table.title()}", did_you_mean(key, card_keys.CASE))
            symbols[key] = table.as_expression(value, key)
            if key not in used and _looks_misspelt(key, meant):
                raise table.error(key, f"the symbol '{key}' is used nowhere", did_you_mean(key, meant))
        name = table.string("name") or f"case{index + 1}"
        if any(case.name == name for case in cases):
            raise table.error("name", f"there are two cases named '{name}'")
        seed = table.integer("seed", 0, 0, 2**63 - 1) if "seed" in table else None
        inputs = table.word("inputs", tuple(DISTRIBUTIONS), "")
        cases.append(Case(name, table.place(), symbols, inputs, seed, _tolerance(table)))
    return tuple(cases)


def _variants(card: Table, path: Path, operation: str) -> tuple[Variant, ...]:
    variants = card.table("variants")
    found = []
    for name in variants.content:
        table = variants.table(name)
        table.check_keys(card_keys.VARIANT)
        found.append(
            Variant(
                name,
                table.place(),
                _macros(table),
                _source(table, path) if "source" in table else None,
                _filled(table, "entry") if "entry" in table else None,
                read_launch(table.table("launch")) if "launch" in table else None,
                changed_arguments(card, table.table("arguments"), operation) if "arguments" in table else (),
            )
        )
    return tuple(found) or (Variant("default", card.place()),)
