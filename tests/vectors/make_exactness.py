"""Writes docs/exactness.md and wmmadiag/cli/exactness.json: how many recorded outputs the emulator repeats bit for bit.

    python tests/vectors/make_exactness.py

Every record in this folder is replayed, which takes about a minute; what a run on fresh operands counted on a GPU
(`fidelity_sm_XX.json`, by `wmmadiag campaign --fidelity --json`) is taken over as it stands. Earlier runs, and what was
found in them, are rows of `fidelity_runs.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from compare_approximations import FILES as APPROXIMATION_FILES
from families import FAMILIES, recorded_cases
from kept import digests

from wmmadiag.emulator import EmulatorOptions, load
from wmmadiag.errors import WmmadiagError
from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.fidelity.families import FAMILIES as COMPARED
from wmmadiag.fragments import wmma_map
from wmmadiag.numerics.tensor_core import mma_rule

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from native_parts import matrix_dtype, mma, pack_a, pack_b

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TITLES = {
    "cvt": "conversions",
    "set": "comparisons (`set`)",
    "setp": "comparisons (`setp`)",
    "atom": "atomic operations",
    "red": "atomic operations without a result",
    "exchange": "shuffles, votes, matches, reductions, election",
    "program": "random programs",
}


@dataclass(frozen=True)
class Line:
    """One line of the table: outputs compared and differing."""

    arch: str
    group: str
    what: str
    outputs: int
    differing: int


def read(path: Path) -> Mapping[str, Array]:
    """All arrays of a file."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def sums(arch: str, arrays: Mapping[str, Array]) -> Iterator[Line]:
    """Tensor-core results, one line per instruction, shape and types."""
    counts: dict[str, list[int]] = {}
    for name, outputs in arrays.items():
        if not name.startswith("outputs/"):
            continue
        _, instruction, shape, form, case = name.split("/")
        d, a_type, b_type, c_type = form.split(".")[:4]
        bit_op = next((op for op in ("xor_popc", "and_popc") if op.replace("_", ".") in form), "")
        rule = mma_rule(arch, instruction, shape, a_type, b_type, c_type, d, ".satfinite" in form, bit_op)
        a, b, c = (arrays[f"inputs/{instruction}/{shape}/{form}/{role}/{case}"] for role in "abc")
        wrong = 0
        for tile in np.ndindex(outputs.shape[:2]):
            got = mma(rule, pack_a(a[tile], a_type), pack_b(b[tile], b_type), c[tile])
            found = np.asarray(got).view(matrix_dtype(d)).reshape(rule.m, rule.n)
            wrong += int((found != outputs[tile]).sum())
        count = counts.setdefault(f"`{instruction}` {shape} {form}", [0, 0])
        count[0] += outputs.size
        count[1] += wrong
    for what, (total, wrong) in counts.items():
        yield Line(arch, "tensor cores", what, total, wrong)


def layouts(arch: str, arrays: Mapping[str, Array]) -> Iterator[Line]:
    """Fragment layouts, in one line."""
    total = wrong = 0
    for name, ids in arrays.items():
        if name.startswith("layouts/"):
            _, shape, matrix, type_, _ = name.split("/")
            fragment = wmma_map(shape, matrix, type_, arch)
            found = fragment.row.astype(int) * fragment.shape[1] + fragment.col
            total += ids.size
            wrong += int((found != ids).sum())
    yield Line(arch, "tensor cores", "layouts of `wmma` fragments, elements", total, wrong)


def replayed(arch: str, family: str, arrays: Mapping[str, Array]) -> Iterator[Line]:
    """A family of cases, one line per opcode. A row whose digest differs counts as wholly different."""
    counts: dict[str, list[int]] = {}
    for case in recorded_cases(family, arch):
        if not any(name.startswith(f"{case.key}/") for name in arrays):
            continue
        outputs = _outputs(case, arch)
        opcode = case.key.split(" ")[0].split(".")[0]
        count = counts.setdefault(TITLES.get(opcode, f"`{opcode}`"), [0, 0])
        for name, array in case.outputs.items():
            own = outputs.get(name)
            kept = arrays[f"{case.key}/{name}/sample"]
            count[0] += array.size
            if own is None:
                count[1] += array.size
            elif case.sample:
                differs = digests(own) != arrays[f"{case.key}/{name}/digest"]
                count[1] += int(differs.sum()) * array.shape[1]
            else:
                count[1] += int((kept != own).sum())
    for what, (total, wrong) in sorted(counts.items()):
        yield Line(arch, family, what, total, wrong)


def _outputs(case: FidelityCase, arch: str) -> Mapping[str, Array]:
    try:
        return case.run(load(case.ptx, "k", arch=arch, options=EmulatorOptions(threads=1)))
    except WmmadiagError as error:
        print(f"{case.key}: {error.message}")
        return {}


def lines() -> list[Line]:
    """The whole table."""
    found: list[Line] = []
    for path in sorted(HERE.glob("sm_*.npz")):
        arrays = read(path)
        found += [*sums(path.stem, arrays), *layouts(path.stem, arrays)]
    for family in FAMILIES:
        for path in sorted(HERE.glob(f"{family}_sm_*.npz")):
            found += replayed(path.stem.removeprefix(f"{family}_"), family, read(path))
    return found


def document(found: list[Line]) -> str:
    """docs/exactness.md."""
    total, wrong = sum(one.outputs for one in found), sum(one.differing for one in found)
    parts = [
        "# Exactness",
        "",
        "What the emulator computes, compared bit for bit with what a GPU answered, signs of zero, subnormals and the",
        "bits of NaN included. Made by `python tests/vectors/make_exactness.py` from the records in `tests/vectors/`,",
        "which `python tests/vectors/record.py` makes on a GPU; the tests replay all of them without one.",
        "",
        f"**{total:,} outputs compared, {wrong:,} differ.**",
        "",
        "Approximate functions (`ex2`, `lg2`, `rcp`, `rsqrt`, `sqrt`, `sin`, `cos`, `tanh`): every argument compared,",
        f"see [approximations.md](approximations.md) ({', '.join(path.stem for path in APPROXIMATION_FILES)}).",
        "No function is known to be inexact on a recorded architecture.",
        "",
        "An assembler is free in some things, and a kernel's bits then depend on it and not on the chip:",
        "",
        "- products and sums without a rounding modifier may be fused. The emulator fuses them by the rule that ptxas",
        "  follows (`wmmadiag/emulator/contraction.py`), within a basic block of the PTX; ptxas may see other blocks",
        "  after unrolling or predication;",
        "- the bits of a NaN: `min(x, x)` and a pair of `neg` are folded to x, which leaves a NaN as it was; in f64",
        "  the operands of a sum may change places, and which NaN is kept with them. Random programs are therefore",
        "  recorded as assembled without optimisation;",
        "- ptxas (13.0 to 13.5) sign-extends the destination of a `set` of two f16 or bf16 values from its lower half",
        "  where its guard is false, and, without optimisation, converts the amount of a 64-bit shift to an integer",
        "  where a float instruction wrote it. The emulator does as the PTX ISA says; random programs are written so",
        "  that both are the same (`wmmadiag/fidelity/programs.py`).",
        "",
        "`mma.m8n8k4` with f16 operands has no tensor core from sm_80 on. What ptxas writes in its place (SASS of",
        "ptxas 13.0 for sm_80, 90, 100 and 120): for an f32 result a chain of FFMA from +0 over k, then FADD with C;",
        "for an f16 result (C + pair of k 0 and 1) + pair of k 2 and 3 in f32, each pair an FMUL and an FFMA, and one",
        "conversion at the end.",
        "",
        "All of this is sm_90 (NVIDIA H200, driver 580.159, CUDA 13.0). Tensor cores of other architectures follow",
        "published models and are compared with MMA-Sim (`tests/numerics/test_mmasim_vectors.py`).",
    ]
    group = ""
    for one in found:
        heading = f"{one.arch}: {one.group}"
        if heading != group:
            group = heading
            inside = [line for line in found if f"{line.arch}: {line.group}" == heading]
            compared, differ = sum(line.outputs for line in inside), sum(line.differing for line in inside)
            parts += ["", f"## {heading.replace('_', ' ')}", "", f"{compared:,} outputs, {differ:,} differ.", ""]
            parts += ["| what | outputs compared | differing |", "|---|---|---|"]
        parts.append(f"| {one.what} | {one.outputs:,} | {one.differing:,} |")
    for path in sorted(HERE.glob("fidelity_sm_*.json")):
        parts += fresh(path)
    parts += earlier(json.loads((HERE / "fidelity_runs.json").read_text("utf-8")))
    return "\n".join(parts) + "\n"


def fresh(path: Path) -> list[str]:
    """The part about a run on fresh operands."""
    run = json.loads(path.read_text("utf-8"))
    parts = [
        "",
        f"## {run['arch'].replace('_', ' ')}: fresh operands",
        "",
        f"`wmmadiag campaign --fidelity --first-seed {run['seed']}` on an {run['gpu']}, {run['date']}, 16 cores:",
        f"**{run['outputs']:,} outputs compared, {run['differing']:,} differ**, in {run['seconds']:,.0f} s.",
        "Operands are drawn anew: over all magnitudes, near the subnormals, with Inf and NaN, with cancellation,",
        "and all codes alike.",
        "",
        "| what | cases | outputs compared | differing |",
        "|---|---|---|---|",
    ]
    rows: dict[str, list[int]] = {}
    for one in run["counts"]:
        family = str(one["family"])
        what = f"`{one['key'].split('/')[0]}` {' '.join(one['key'].split('/')[1:])}" if family == "tensor" else family
        row = rows.setdefault(what if family == "tensor" else COMPARED[family].title, [0, 0, 0])
        for index, number in enumerate((1, one["outputs"], one["differing"])):
            row[index] += number
    parts += [f"| {what} | {cases:,} | {total:,} | {wrong:,} |" for what, (cases, total, wrong) in rows.items()]
    left_out = sum(bool(one["left_out"]) for one in run["counts"])
    if left_out:
        parts += ["", f"{left_out} further cases are not compared: the assembler made no code of them."]
    return parts


def earlier(runs: list[dict[str, str | int]]) -> list[str]:
    """The part about runs before the one that is shown by form."""
    parts = ["", "## Earlier runs on fresh operands", "", "| date | on | first seed | outputs compared | differing |"]
    parts.append("|---|---|---|---|---|")
    for run in runs:
        numbers = f"{run['outputs']:,} | {run['differing']:,}"
        parts.append(f"| {run['date']} | {run['gpu']} | {run['seed']} | {numbers} |")
    return parts + [f"\n{run['date']}, first seed {run['seed']}: {run['found']}" for run in runs if run["found"]]


def main() -> None:
    """Write both files."""
    found = lines()
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs" / "exactness.md").write_text(document(found), "utf-8")
    groups: dict[tuple[str, str], list[int]] = {}
    for one in found:
        count = groups.setdefault((one.arch, one.group), [0, 0])
        count[0] += one.outputs
        count[1] += one.differing
    summary = [asdict(Line(arch, group, "", total, wrong)) for (arch, group), (total, wrong) in groups.items()]
    for row in summary:
        del row["what"]
    (ROOT / "wmmadiag" / "cli" / "exactness.json").write_text(json.dumps(summary, indent=1) + "\n", "ascii")
    print(f"{sum(one.outputs for one in found):,} outputs, {sum(one.differing for one in found):,} differ")


if __name__ == "__main__":
    main()
