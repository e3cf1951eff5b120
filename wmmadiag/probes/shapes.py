"""Asked first: people lose hours on a shape or type that their architecture does not have, or never had.

Every combination of shape, operand type and accumulator is compiled by the compiler that is installed, for the
architecture, and those that compile are run on one tile and compared with sums in Python. The rows at the end are
shapes that people try and that `wmma` has on no architecture: m16n8k16 is `mma.sync`'s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import CompileError
from wmmadiag.fragments import wmma_shapes
from wmmadiag.numerics.tensor_core_forms import parse_shape
from wmmadiag.probes.answer import Answered, ProbeAnswer
from wmmadiag.probes.machine import DTYPES, Platform
from wmmadiag.probes.registry import Probe
from wmmadiag.subject import shipped

_SOURCE = "shapes.cu"
_BITS = {"s4": 4, "u4": 4, "b1": 1}


@cache
def forms() -> tuple[tuple[str, str, str], ...]:
    """(shape, type of A and B, type of the accumulator) of each kernel in the source, by its bit."""
    text = (shipped.probes() / _SOURCE).read_text("utf-8")
    return tuple((m[1], m[2], m[3]) for m in re.finditer(r"^WMMA\((\w+)_(\w+)_(\w+),", text, re.MULTILINE))


@cache
def _lines() -> tuple[int, ...]:
    """The line of each form's kernel."""
    text = (shipped.probes() / _SOURCE).read_text("utf-8").splitlines()
    return tuple(number for number, line in enumerate(text, 1) if re.match(r"WMMA\(\w+,", line))


def compiled_forms(machine: Platform) -> tuple[int, dict[int, str]]:
    """Bit mask of the forms that compile together, and the first error of each other one, by its bit.

    Raises:
        CompileError: an error that belongs to no form.
    """
    mask, refused = (1 << len(forms())) - 1, {}
    while mask:
        try:
            machine.compiled(_SOURCE, {"FORMS": hex(mask)})
        except CompileError as error:
            found = re.findall(rf"{re.escape(_SOURCE)}\((\d+)\): error: (.*)", error.detail)
            bad = {_lines().index(int(line)): text for line, text in reversed(found) if int(line) in _lines()}
            if not bad or len(bad) < len({line for line, _ in found}):
                raise
            refused.update(bad)
            for bit in bad:
                mask &= ~(1 << bit)
        else:
            break
    return mask, refused


def _operands(form: tuple[str, str, str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Small whole numbers, A (m, k) and B (n, k), exact in every type."""
    m, n, k = parse_shape(form[0])
    low, count = {"u8": (0, 5), "u4": (0, 5), "b1": (0, 2)}.get(form[1], (-2, 5))
    a = (np.arange(m * k) * 7 // 3).reshape(m, k) % count + low
    b = (np.arange(n * k) * 11 // 4).reshape(n, k) % count + low
    return a, b


def _stored(values: NDArray[Any], kind: str) -> NDArray[Any]:
    if kind not in _BITS:
        return np.ascontiguousarray(values.astype(DTYPES[kind]))
    bits = _BITS[kind]
    shifts = np.arange(32 // bits, dtype=np.uint64) * np.uint64(bits)
    words = (values.reshape(-1, 32 // bits).astype(np.int64) & (2**bits - 1)).astype(np.uint64) << shifts
    return np.asarray(words.sum(axis=1, dtype=np.uint64).astype(np.uint32))


def _product(form: tuple[str, str, str], machine: Platform, mask: int) -> str:
    """ "right", "wrong", or the kind of fault."""
    a, b = _operands(form)
    # bmma_sync counts the bits of A xor B
    want = (a[:, None, :] != b[None, :, :]).sum(axis=2) if form[1] == "b1" else a @ b.T
    d = np.zeros(want.shape, DTYPES[form[2]])
    entry = "_".join(form)
    fault = machine.run(_SOURCE, entry, [_stored(a, form[1]), _stored(b, form[1]), d], macros={"FORMS": hex(mask)})
    return fault or ("right" if np.array_equal(d.astype(np.float64), want.astype(np.float64)) else "wrong")


def run(machine: Platform) -> ProbeAnswer:
    """Compile every form, run those that compile."""
    mask, _ = compiled_forms(machine)
    expected = set(wmma_shapes(machine.arch))
    results: dict[str, str] = {}
    strange: list[str] = []
    for bit, form in enumerate(forms()):
        name = " ".join(form)
        results[name] = _product(form, machine, mask) if mask >> bit & 1 else "does not compile"
        meant = form[:2] in expected and (form[1], form[2]) != ("bf16", "bf16")
        if results[name] != ("right" if meant else "does not compile"):
            strange.append(f"{name}: {results[name]}")
    right = [name for name, what in results.items() if what == "right"]
    kinds: dict[str, list[str]] = {}
    for name in right:
        shape, operand, total = name.split()
        kinds.setdefault(f"{operand} into {total}", []).append(shape)
    lines = [
        f"{machine.arch}: {len(right)} of {len(results)} combinations compile, run and are exact: "
        + "; ".join(f"{kind}: {', '.join(shapes)}" for kind, shapes in kinds.items())
    ]
    lines += [f"not as documented: {'; '.join(strange)}"] if strange else []
    table = tuple(f"{name:<24} {what}" for name, what in results.items())
    return ProbeAnswer("wrong" if strange else "right", tuple(lines), table, {"forms": results})


def across(answers: Sequence[Answered]) -> str:
    """A table: one row per form, one column per architecture."""
    names = [" ".join(form) for form in forms()]
    width = max(map(len, names))
    marks = {"right": "yes", "does not compile": "-"}
    heads = [one.arch.removeprefix("sm_") for one in answers]
    lines = [f"{'shape, A and B, sum':<{width}}  " + " ".join(f"{head:>4}" for head in heads)]
    for name in names:
        cells = [one.answer.data.get("forms", {}).get(name, "?") for one in answers]
        shown = [marks.get(cell, "?" if cell == "?" else "BAD") for cell in cells]
        lines.append(f"{name:<{width}}  " + " ".join(f"{mark:>4}" for mark in shown))
    lines.append("yes: compiles, runs, every element exact; -: does not compile; BAD: compiles, and is not right")
    return "\n".join(lines)


PROBE = Probe(
    "shapes", "which WMMA shapes and types compile, and run exactly, on each architecture?", _SOURCE, run, across
)
