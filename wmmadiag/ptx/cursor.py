"""A position in a token stream, with the errors that point at it."""

from __future__ import annotations

from wmmadiag.compile.languages import is_ptx
from wmmadiag.errors import PtxSyntaxError
from wmmadiag.place import Place
from wmmadiag.ptx.lexer import MALFORMED, Tokens, parse_integer


class Cursor:
    """Where the parser stands.

    Attributes:
        text: the tokens, with "" at the end.
        index: of the current token.
        place: the current place in the user's source, None while unknown.
        name: of the PTX, for messages.
    """

    __slots__ = ("_lines", "_tokens", "index", "name", "place", "text")

    def __init__(self, tokens: Tokens, name: str) -> None:
        self.text = tokens.text
        self._tokens = tokens
        self._lines = tokens.line
        self.index = 0
        self.place: Place | None = None
        self.name = name

    @property
    def line(self) -> int:
        """The current token's 1-based line in the PTX text."""
        return self._lines[self.index]

    def line_of(self, index: int) -> int:
        """The 1-based line of a token."""
        return self._lines[index]

    @property
    def token(self) -> str:
        """The current token; "" at the end."""
        return self.text[self.index]

    def take(self) -> str:
        """The current token, moving past it."""
        token = self.text[self.index]
        if not token:
            raise self.error("unexpected end of the PTX text")
        self.index += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether the current token is this one; if so, move past it."""
        if self.text[self.index] == token:
            self.index += 1
            return True
        return False

    def skip_past(self, token: str) -> None:
        """Move past the next such token.

        Raises:
            PtxSyntaxError: there is none.
        """
        while self.take() != token:
            pass

    def expect(self, token: str) -> None:
        """Move past this token.

        Raises:
            PtxSyntaxError: another token stands there.
        """
        if self.text[self.index] != token:
            raise self.error(f"expected {token!r}, found {self.text[self.index] or 'the end'!r}")
        self.index += 1

    def identifier(self, what: str) -> str:
        """Take an identifier."""
        token = self.text[self.index]
        if not token or not (token[0].isalpha() or token[0] in "_$%") or token[-1] == ":":
            raise self.error(f"expected {what}, found {token or 'the end'!r}")
        self.index += 1
        return token

    def integer(self, what: str, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """Take a plain integer literal in a range."""
        token = self.text[self.index]
        value = parse_integer(token) if token[:1].isdigit() else None
        if value is None or not low <= value <= high:
            raise self.error(f"expected {what} ({low} to {high}), found {token or 'the end'!r}")
        self.index += 1
        return value

    def error(self, message: str, *, index: int | None = None) -> PtxSyntaxError:
        """A syntax error at a token (the current one by default).

        In PTX that the user wrote, or has, it is shown there, and what it was made from beside it; in PTX that was
        compiled just now at the user's source line, where that is known.
        """
        at = min(self.index if index is None else index, len(self._lines) - 1)
        line = self._lines[at]
        if self.place is None or is_ptx(self.name):
            made = f"this PTX was made from {self.place}" if self.place is not None and self.place.line else ""
            return PtxSyntaxError(
                message, place=Place(self.name, line, self._tokens.column(at)), detail=made, hint=MALFORMED
            )
        return PtxSyntaxError(f"{message} (PTX line {line})", place=self.place, hint=MALFORMED)
