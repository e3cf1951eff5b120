"""Inputs made of others: each is a function of a target's seeds, a seed and a number, and of nothing else."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(rb"[A-Za-z_.$%][\w.$%]*|\d+|\S")
_BEGINNING = re.compile(rb"%\w[a-z]?|[\w.$]{1,3}")
_NUMBER = re.compile(rb"\d+")
_NUMBERS = [b"0", b"1", b"-1", b"2", b"7", b"31", b"32", b"33", b"255", b"65536", b"2147483648", b"4294967295",
            b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"1e308", b"nan"]  # fmt: skip
_MOST = 1 << 20


def made(seeds: Sequence[bytes], seed: int, number: int) -> bytes:
    """The input of a number; number 0 to len(seeds) - 1 are the seeds themselves."""
    if number < len(seeds):
        return seeds[number]
    chance = random.Random(f"{seed}/{number}")
    data = chance.choice(seeds)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = chance.choice(_MUTATIONS)(data, chance, seeds)[:_MOST]
    return data


def _span(data: bytes, chance: random.Random, most: int) -> slice:
    start = chance.randrange(len(data) + 1)
    return slice(start, min(len(data), start + chance.randint(1, most)))


def _flip(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    if not data:
        return bytes([chance.randrange(256)])
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    span = _span(data, chance, 40)
    return data[: span.start] + data[span.stop :]


def _end(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _repeat(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    span = _span(data, chance, 60)
    return data[: span.stop] + data[span] * chance.choice((1, 2, 50)) + data[span.stop :]


def _splice(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    other = chance.choice(seeds)
    return data[: _span(data, chance, 1).start] + other[_span(other, chance, 1).start :]


def _tokens(pattern: re.Pattern[bytes], data: bytes, chance: random.Random) -> re.Match[bytes] | None:
    found = list(pattern.finditer(data))
    return chance.choice(found) if found else None


def _token(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    here, there = _tokens(_TOKEN, data, chance), _tokens(_TOKEN, chance.choice(seeds), chance)
    return data if here is None or there is None else data[: here.start()] + there[0] + data[here.end() :]


def _kin(data: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A word in place of one that begins alike: a register for a register, an operation for an operation."""
    here = _tokens(_TOKEN, data, chance)
    if here is None:
        return data
    kin = _BEGINNING.match(here[0])
    alike = [found for found in _TOKEN.findall(data) if kin and found.startswith(kin[0])]
    return data[: here.start()] + chance.choice(alike or [here[0]]) + data[here.end() :]


def _number(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    here = _tokens(_NUMBER, data, chance)
    return data if here is None else data[: here.start()] + chance.choice(_NUMBERS) + data[here.end() :]


def _lines(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(3)
    if how == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif how == 1:
        lines.insert(other, lines[one])
    else:
        del lines[one]
    return b"".join(lines)


def _noise(data: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    return (
        data[:at] + chance.choice((b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n" * 9, b"{", b"}", b'"')) + data[at:]
    )


_EVEN = (_flip, _cut, _end, _repeat, _splice, _noise)
_WORDS = (_token, _token, _token, _kin, _kin, _kin, _kin, _kin, _number, _number, _lines, _lines)
_MUTATIONS: Sequence[Callable[[bytes, random.Random, Sequence[bytes]], bytes]] = (*_EVEN, *_WORDS)
