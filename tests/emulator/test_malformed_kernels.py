"""Mutated PTX of real kernels: an error meant for the user or a run, never anything else."""

from __future__ import annotations

import random
import re
from functools import cache

import numpy as np
import pytest
from test_compiled_sources import LANGUAGE, PRINTF, WMMA, compiled

from wmmadiag.emulator import Budget, EmulatedKernel, EmulatorOptions, lower
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch
from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import PtxParameter

SOURCES = {
    "language": (LANGUAGE, False),
    "debug": (LANGUAGE, True),
    "wmma": (WMMA, False),
    "printf": (PRINTF, False),
}
TOKEN = re.compile(r"[%$.]?[A-Za-z_][\w$]*(?:\.\w+|::\w+)*|\d\w*|[^\s\w]")
STRANGE = [
    "0",
    "-1",
    "4294967295",
    "18446744073709551615",
    "0x80000000",
    "99999999999999999999",
    "%r0",
    "%p1",
    "%rd1",
    "%f1",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    "!",
    "_",
    ".v4",
    ".s8",
    "bra",
    "ret",
    "exit",
    "%tid.x",
    "$L__BB0_1",
]


@cache
def text(name: str) -> str:
    source, debug = SOURCES[name]
    ptx = compiled(source, "sm_90", debug)
    return "\n".join(line for line in ptx.splitlines() if not line.lstrip().startswith((".file", ".loc", "//")))


def mutate(ptx: str, rng: random.Random) -> str:
    start = ptx.index("{")
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        tokens = list(TOKEN.finditer(ptx, start))
        token, other = rng.choice(tokens), rng.choice(tokens)
        kind = rng.randrange(6)
        if kind == 0:
            new = ""
        elif kind == 1:
            new = other.group()
        elif kind == 2:
            new = rng.choice(STRANGE)
        elif kind == 3:
            new = token.group() + " " + rng.choice(STRANGE)
        elif kind == 4 and token.group()[0].isdigit():
            new = str(rng.choice([0, 1, 2, 3, 7, 31, 32, 33, 255, 2**31, 2**32 - 1]))
        else:  # a register of the same kind, or a whole line twice
            digits = re.sub(r"\d+$", lambda m: str(max(0, int(m.group()) + rng.choice([-1, 1, 5]))), token.group())
            new = digits if digits != token.group() else "\n" + other.string[other.start() :].split("\n", 1)[0] + "\n"
        ptx = ptx[: token.start()] + new + ptx[token.end() :]
    return ptx


def arguments(kernel: EmulatedKernel) -> list:
    values: list = []
    for parameter in kernel.kernel.entry.parameters:
        assert isinstance(parameter, PtxParameter)
        values.append(np.zeros(4096, np.uint8) if parameter.size == 8 else b"\x20" + bytes(parameter.size - 1))
    return values


def attempt(ptx: str) -> None:
    try:
        module = parse(ptx, name="mutated")
        for entry in module.entries:
            kernel = EmulatedKernel(
                lower(module, entry, "sm_90"),
                EmulatorOptions(threads=1, budget=Budget(instructions=20_000, seconds=5)),
            )
            kernel.launch(Launch((1, 1, 1), (64, 1, 1), arguments(kernel), 256))
    except WmmadiagError as error:
        assert str(error)


@pytest.mark.parametrize("name", SOURCES)
def test_mutations(name):
    rng = random.Random(f"seed of {name}")
    ptx = text(name)
    attempt(ptx)
    for _ in range(60):
        attempt(mutate(ptx, rng))
