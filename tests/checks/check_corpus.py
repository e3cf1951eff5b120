"""The kernels of `corpus/`: which the checks must flag, and which they must leave alone.

A comment before each kernel says what it is: `// planted block=64 grid=2: what is wrong`, or `// right block=64`.
`alias=N`: `x` lies N elements behind `out` in one array. In a planted kernel, `//!` marks the lines that a finding must
name, at least one of them. Arrays: `out` and all others begin as zeros, `x` as small numbers that differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks import native_names, select
from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.launched import check_launch
from wmmadiag.emulator import EmulatorOptions
from wmmadiag.launch import Launch

FOLDER = Path(__file__).parent / "corpus"
_HEAD = re.compile(
    r"^// (planted|right)((?: \w+(?:=\w+)?)*)(?:: (.*))?\n"
    r"extern \"C\" __global__ [^{]*?void (\w+)\(([^)]*)\)",
    re.MULTILINE,
)
_ELEMENTS = 4096
_TYPES = {"float": np.float32, "int": np.int32, "unsigned": np.uint32, "half": np.float16, "double": np.float64,
          "char": np.int8}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """One kernel.

    Attributes:
        file: the source's name.
        name: of the kernel.
        planted: what is wrong with it; "" for a right one.
        how: block, grid, alias, by name.
        parameters: (name, dtype) of its arrays.
    """

    file: str
    name: str
    planted: str
    how: tuple[tuple[str, int], ...]
    parameters: tuple[tuple[str, type], ...]

    def option(self, name: str, usual: int) -> int:
        return dict(self.how).get(name, usual)


def _parameter(text: str) -> tuple[str, type]:
    name = re.search(r"(\w+)\s*$", text)
    assert name is not None, text
    return name[1], next((kind for word, kind in _TYPES.items() if re.search(rf"\b{word}\b", text)), np.float32)


def samples() -> Iterator[Sample]:
    """Every kernel of the folder."""
    for path in sorted(FOLDER.glob("*.cu")):
        text = path.read_text("utf-8")
        found = list(_HEAD.finditer(text))
        assert len(found) == text.count("__global__"), f"{path.name}: a kernel without its comment"
        for one in found:
            how = tuple((key, int(value or 1)) for key, _, value in (word.partition("=") for word in one[2].split()))
            parameters = tuple(map(_parameter, one[5].split(",")))
            yield Sample(path.name, one[4], (one[3] or "?") if one[1] == "planted" else "", how, parameters)


@cache
def _ptx(file: str) -> str:
    return wmmadiag.compile_cuda(FOLDER / file, arch="sm_80").ptx


def _arrays(sample: Sample) -> list[np.ndarray]:
    values = np.random.default_rng(5).integers(1, 50, _ELEMENTS)
    arrays = [(values if name == "x" else np.zeros(_ELEMENTS)).astype(kind) for name, kind in sample.parameters]
    alias = sample.option("alias", 0)
    if alias:
        whole = np.concatenate([np.zeros(alias), values]).astype(sample.parameters[0][1])
        arrays[0], arrays[1] = whole[:-alias], whole[alias:]
    short = sample.option("elements", 0)
    return [array[:short].copy() for array in arrays] if short else arrays


def findings(sample: Sample) -> tuple[Finding, ...]:
    """What the checks that run by default find, a fault as one of them; without advice."""
    checks = select("default")
    arrays = _arrays(sample)
    kernel = emulator.load(
        _ptx(sample.file), sample.name, arch="sm_80", options=EmulatorOptions(checks=native_names(checks), threads=2)
    )
    fresh = [
        (index, range(array.nbytes))
        for index, ((name, _), array) in enumerate(zip(sample.parameters, arrays, strict=True))
        if name == "out" and sample.option("fresh", 0)
    ]
    names = tuple(name for name, _ in sample.parameters)
    launch = Launch(
        (sample.option("grid", 1), 1, 1),
        (sample.option("block", 32), 1, 1),
        arrays,
        sample.option("shared", 0),
        names,
        fresh,
    )
    return tuple(one for one in check_launch(kernel, launch, checks) if one.level is not Level.ADVICE)


@cache
def _functions(file: str) -> dict[str, tuple[str, frozenset[int]]]:
    """Text and marked lines of each function of a source, by name; they begin and end at the margin."""
    found: dict[str, tuple[str, frozenset[int]]] = {}
    lines = (FOLDER / file).read_text("utf-8").split("\n")
    starts = [n for n, line in enumerate(lines) if re.match(r"(?!//).*__(?:global|device)__.*\b\w+\(", line)]
    for start in starts:
        name = re.search(r"(\w+)\(", lines[start].partition("__launch_bounds__")[0])
        end = start if lines[start].rstrip("/! ").endswith("}") else next(
            n for n in range(start + 1, len(lines)) if lines[n].startswith("}")
        )  # fmt: skip
        assert name is not None, lines[start]
        marks = frozenset(n + 1 for n in range(start, end + 1) if lines[n].rstrip().endswith("//!"))
        found[name[1]] = ("\n".join(lines[start : end + 1]), marks)
    return found


def marked(sample: Sample) -> set[int]:
    """The lines that a finding in a planted kernel may name: the marked ones of it and of what it calls."""
    functions = _functions(sample.file)
    called, queue = {sample.name}, [sample.name]
    while queue:
        words = set(re.findall(r"\w+", functions[queue.pop()][0]))
        queue += (new := words & functions.keys() - called)
        called |= new
    return {line for name in called for line in functions[name][1]}


def names_a_marked_line(sample: Sample, found: tuple[Finding, ...]) -> bool:
    lines = marked(sample)
    return any(place is not None and place.line in lines for one in found for place in (one.place, one.other))


def heading(file: str) -> str:
    """What a source's first comment says its kernels are about."""
    first = (FOLDER / file).read_text("utf-8").split("\n", 1)[0]
    return first.removeprefix("// ").rstrip(".")
