"""Kernels that the diagnosis was not tuned on, right and with one bug each: `python expand.py DIR` writes them out.

`python expand.py DIR public_style` those of a folder beside this one: whole files as people publish them, with host
code; `python expand.py DIR SET --pairs` kernels with two of these bugs at once.

NAME.cu is right, NAME.toml its card; NAME.bugs.toml holds bugs: what to replace, and which cause is the truth;
"at": pieces of other lines where the same mistake may be named; "edits": replacements at several places, of which
"lines" are then the truth's; "kind" (edit, two edits, statement, two bugs) tells readers how far apart they are.
`python benchmarks/diagnosis.py --kernels DIR` then scores them. Nothing may be tuned on one of these: what fails here
is mended in general, or stays.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent


def expand(target: Path, folder: Path = HERE) -> None:
    """Write family/kernel.cu and .toml, and family/wrong/BUG.cu, .toml and .truth.toml for each.

    Args:
        folder: where the kernels are.

    Raises:
        ValueError: a text that a bug replaces does not stand once in the source.
    """
    for file in sorted(folder.glob("*.bugs.toml")):
        name = file.name.removesuffix(".bugs.toml")
        source, card = (folder / f"{name}.cu").read_text("utf-8"), (folder / f"{name}.toml").read_text("utf-8")
        wrong = target / name / "wrong"
        wrong.mkdir(parents=True)
        for reference in folder.glob(f"{name}_reference.py"):
            shutil.copy(reference, target / name)
            shutil.copy(reference, wrong)
        (target / name / "kernel.cu").write_text(source, "utf-8")
        (target / name / "kernel.toml").write_text(card.replace(f'"{name}.cu"', '"kernel.cu"'), "utf-8")
        for bug, what in tomllib.loads(file.read_text("utf-8")).items():
            edits = what.get("edits", [what])
            for edit in edits:
                if source.count(edit["old"]) != 1:
                    raise ValueError(f"{name}, {bug}: {edit['old']!r} stands {source.count(edit['old'])} times")
            after = source
            for edit in edits:
                after = after.replace(edit["old"], edit["new"])
            at = source.index(edits[0]["old"])
            first = source.count("\n", 0, at) + 1
            lines = list(range(first, first + max(1, edits[0]["new"].rstrip("\n").count("\n") + 1)))
            pieces = [piece.strip() for piece in what.get("at", [])]
            also = {n for n, text in enumerate(after.split("\n"), 1) if any(piece in text for piece in pieces)}
            lines = what.get("lines") or sorted({*lines, *also})
            one = str(what.get("one_edit", len(edits) == 1)).lower()
            second = _second(source, edits) if what.get("kind") == "two bugs" and len(edits) == 2 else []
            lines = [line for line in lines if line not in second]
            truth = [f'cause = "{what["cause"]}"', f"lines = {lines}", f"one_edit = {one}"]
            truth += [f"second = {{ lines = {second} }}"] if second else []
            (wrong / f"{bug}.cu").write_text(after, "utf-8")
            (wrong / f"{bug}.toml").write_text(card.replace(f'"{name}.cu"', f'"{bug}.cu"'), "utf-8")
            (wrong / f"{bug}.truth.toml").write_text("\n".join(truth).replace("'", '"') + "\n", "utf-8")


def _second(source: str, edits: list[dict[str, str]]) -> list[int]:
    """The lines of the second edit, once both are made."""
    first, second = (source.index(edit["old"]) for edit in edits)
    before = edits[0]["new"].count("\n") - edits[0]["old"].count("\n") if first < second else 0
    line = source.count("\n", 0, second) + 1 + before
    return [line + number for number in _changed(edits[1]["old"].split("\n"), edits[1]["new"].rstrip("\n").split("\n"))]


def _changed(old: list[str], new: list[str]) -> range:
    """Lines of `new` between what it has in common with `old` at both ends; the first one behind if there are none."""
    same = [one == other for one, other in zip(old, new, strict=False)]
    first = same.index(False) if False in same else len(same)
    behind = [one == other for one, other in zip(old[first:][::-1], new[first:][::-1], strict=False)]
    return range(first, max(first + 1, len(new) - (behind.index(False) if False in behind else len(behind))))


def expand_pairs(target: Path, folder: Path = HERE, *, most: int = 1, seed: int = 0) -> None:
    """Write family/wrong/ONE_and_OTHER.cu, .toml and .truth.toml: kernels with two of a folder's bugs at once.

    Args:
        folder: where the kernels are.
        most: pairs of each kernel, picked at random by `seed`.
    """
    chance = random.Random(seed)
    for file in sorted(folder.glob("*.bugs.toml")):
        name = file.name.removesuffix(".bugs.toml")
        source, card = (folder / f"{name}.cu").read_text("utf-8"), (folder / f"{name}.toml").read_text("utf-8")
        bugs = tomllib.loads(file.read_text("utf-8"))
        places = {
            bug: sorted((source.index(edit["old"]), edit["old"], edit["new"]) for edit in what.get("edits", [what]))
            for bug, what in bugs.items()
        }
        spans = {
            bug: [(source.count("\n", 0, at), source.count("\n", 0, at + len(old))) for at, old, _ in found]
            for bug, found in places.items()
        }
        pairs = [
            pair for pair in itertools.combinations(sorted(bugs, key=lambda bug: places[bug]), 2)
            if all(a > d or c > b for (a, b), (c, d) in itertools.product(*(spans[bug] for bug in pair)))
        ]  # fmt: skip
        wrong = target / name / "wrong"
        for pair in sorted(chance.sample(pairs, min(most, len(pairs)))):
            wrong.mkdir(parents=True, exist_ok=True)
            for reference in folder.glob(f"{name}_reference.py"):
                shutil.copy(reference, wrong)
            text, moved = source, 0
            lines: dict[str, list[int]] = {bug: [] for bug in pair}
            for at, old, new, whose in sorted((*place, bug) for bug in pair for place in places[bug]):
                first = text.count("\n", 0, at + moved) + 1
                lines[whose] += [first + line for line in _changed(old.split("\n"), new.rstrip("\n").split("\n"))]
                text = text[: at + moved] + new + text[at + moved + len(old) :]
                moved += len(new) - len(old)
            one, other = (f'cause = "{bugs[bug]["cause"]}", lines = {lines[bug]}' for bug in pair)
            both = "_and_".join(pair)
            truth = [*one.split(", ", 1), "one_edit = false", f"second = {{ {other} }}"]
            (wrong / f"{both}.cu").write_text(text, "utf-8")
            (wrong / f"{both}.toml").write_text(card.replace(f'"{name}.cu"', f'"{both}.cu"'), "utf-8")
            (wrong / f"{both}.truth.toml").write_text("\n".join(truth) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, metavar="DIR", help="a folder that is made")
    parser.add_argument("set", nargs="?", default="unseen", help="a folder beside this one")
    parser.add_argument("--pairs", action="store_true", help="two bugs at once in each kernel")
    asked = parser.parse_args()
    folder = HERE.parent / asked.set
    if not any(folder.glob("*.bugs.toml")):
        parser.error(f"{folder} has no kernels (*.bugs.toml)")
    (expand_pairs if asked.pairs else expand)(asked.target, folder)
