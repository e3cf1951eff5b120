"""Typed reading of a TOML table: each mistake is an error with the key's line, unknown keys included."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.place import Place
from wmmadiag.subject.card import Expression, Places

_TYPE_NAMES: Mapping[type, str] = {
    dict: "a table", list: "an array", str: "a string", bool: "a boolean", int: "an integer", float: "a number"
}  # fmt: skip


def type_name(value: object) -> str:
    """What a TOML value is, in words."""
    return _TYPE_NAMES.get(type(value), "a date or time")


class Table:
    """One TOML table and where it stands.

    Args:
        content: the table as `tomllib` gave it.
        places: of the whole file.
        path: of this table in the file.
        known: its keys; others are refused by `check_keys`.
    """

    def __init__(self, content: Mapping[str, Any], places: Places, path: tuple[str | int, ...] = ()) -> None:
        self.content = content
        self.places = places
        self.path = path

    def place(self, *key: str | int) -> Place:
        """The place of a key of this table, or of the table itself."""
        return self.places.of(*self.path, *key)

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def error(self, key: str | int, message: str, hint: str = "") -> ConfigurationError:
        """An error at a key of this table."""
        return ConfigurationError(message, place=self.place(key), hint=hint)

    def check_keys(self, known: Collection[str]) -> None:
        """Refuse keys that are not known.

        Raises:
            ConfigurationError: at the first unknown key, with the nearest known one.
        """
        for key in self.content:
            if key not in known:
                where = f" in {self.title()}" if self.path else ""
                raise self.error(key, f"unknown key '{key}'{where}", did_you_mean(key, known))

    def title(self) -> str:
        """The table's name in words: "arguments[2]"."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
        return text

    def require(self, key: str, example: str) -> None:
        """Refuse the table when it lacks a key; `example` is a line that would do."""
        if key not in self.content:
            where = self.title() or "the card"
            raise ConfigurationError(f"{where} lacks '{key}'", place=self.place(), hint=f"add, for example: {example}")

    def _typed(self, key: str, kinds: tuple[type, ...], wanted: str) -> Any:
        value = self.content[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(key, f"'{key}' must be {wanted}, but is {type_name(value)}")
        return value

    def string(self, key: str, default: str = "") -> str:
        """A string."""
        return str(self._typed(key, (str,), "a string")) if key in self.content else default

    def flag(self, key: str) -> bool:
        """Whether a key is there and true."""
        return key in self and bool(self._typed(key, (bool,), "true or false"))

    def word(self, key: str, words: Sequence[str], default: str) -> str:
        """One of some words."""
        value = self.string(key, default)
        if key in self.content and value not in words:
            raise self.error(key, f"'{key}' cannot be '{value[:60]}'", did_you_mean(value, words))
        return value

    def integer(self, key: str, default: int, minimum: int = 0, maximum: int = 2**63 - 1) -> int:
        """A literal integer in a range."""
        if key not in self.content:
            return default
        value = int(self._typed(key, (int,), "an integer"))
        if not minimum <= value <= maximum:
            raise self.error(key, f"'{key}' must lie between {minimum} and {maximum}")
        return value

    def number(self, key: str) -> float:
        """A literal number that is finite and not negative."""
        value = float(self._typed(key, (int, float), "a number"))
        if not 0 <= value < float("inf"):
            raise self.error(key, f"'{key}' must be finite and not negative")
        return value

    def expression(self, key: str) -> Expression:
        """A number or the text of an expression; booleans become 0 and 1."""
        return self.as_expression(self.content[key], key)

    def as_expression(self, value: object, key: str | int) -> Expression:
        """A value as an expression; `key` is for the error."""
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, str) and "TODO" in value:
            raise self.error(key, f"'{key}' is still to be filled in", f"replace the TODO in {key}")
        if isinstance(value, str | int | float):
            return value
        raise self.error(key, f"'{key}' must be a number or an expression in quotes, but is {type_name(value)}")

    def expressions(self, key: str) -> tuple[Expression, ...]:
        """A list of expressions; a single one counts as a list of one."""
        if key not in self.content:
            return ()
        value = self.content[key]
        return tuple(self.as_expression(item, key) for item in (value if isinstance(value, list) else [value]))

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings; a single one counts as a list of one."""
        value = self.content.get(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self.error(key, f"'{key}' must be a string or a list of strings")
        return tuple(items)

    def table(self, key: str) -> Table:
        """A table; an empty one when absent."""
        value = self._typed(key, (dict,), "a table") if key in self.content else {}
        return Table(value, self.places, (*self.path, key))

    def tables(self, key: str) -> list[Table]:
        """A list of tables; empty when absent."""
        if key not in self.content:
            return []
        value = self._typed(key, (list,), f"a list of tables: [[{key}]]")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise ConfigurationError(
                    f"'{key}[{index}]' must be a table, but is {type_name(item)}",
                    place=self.places.of(*self.path, key, index),
                    hint="write each as { key = value, … }",
                )
        return [Table(item, self.places, (*self.path, key, index)) for index, item in enumerate(value)]

    def expression_table(self, key: str) -> dict[str, Expression]:
        """A table of expressions by name."""
        inner = self.table(key)
        return {name: inner.as_expression(value, name) for name, value in inner.content.items()}
