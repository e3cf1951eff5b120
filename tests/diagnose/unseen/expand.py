"""Kernels that the diagnosis was not tuned on, right and with one bug each: `python expand.py DIR` writes them out.

`python expand.py DIR public_style` those of a folder beside this one: whole files as people publish them, with host
code; `python expand.py DIR SET --pairs` kernels with two of these bugs at once.

NAME.cu is right, NAME.toml its card; NAME.bugs.toml holds bugs: what to replace, and which cause is the truth;
"at": pieces of other lines where the same mistake may be named; "edits": replacements at several places, of which
"lines" are then the truth's; "kind" (edit, two edits, statement) tells readers how far apart right and wrong are.
`python benchmarks/diagnosis.py --kernels DIR` then scores them. Nothing may be tuned on one of these: what fails here
is mended in general, or stays.
"""

from __future__ import annotations

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
            truth = [f'cause = "{what["cause"]}"', f"lines = {lines}", f"one_edit = {one}"]
            (wrong / f"{bug}.cu").write_text(after, "utf-8")
            (wrong / f"{bug}.toml").write_text(card.replace(f'"{name}.cu"', f'"{bug}.cu"'), "utf-8")
            (wrong / f"{bug}.truth.toml").write_text("\n".join(truth).replace("'", '"') + "\n", "utf-8")


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
        spans = {bug: (source.index(what["old"]), len(what["old"])) for bug, what in bugs.items()}
        pairs = [
            pair for pair in itertools.combinations(sorted(bugs, key=lambda bug: spans[bug]), 2)
            if source.count("\n", 0, spans[pair[1]][0]) > source.count("\n", 0, sum(spans[pair[0]]))
        ]  # fmt: skip
        wrong = target / name / "wrong"
        for pair in sorted(chance.sample(pairs, min(most, len(pairs)))):
            wrong.mkdir(parents=True, exist_ok=True)
            for reference in folder.glob(f"{name}_reference.py"):
                shutil.copy(reference, wrong)
            text, lines = source, []
            for bug in pair:
                old, new = bugs[bug]["old"], bugs[bug]["new"]
                first = text.count("\n", 0, text.index(old)) + 1
                lines.append(list(range(first, first + max(1, new.rstrip("\n").count("\n") + 1))))
                text = text.replace(old, new)
            one, other = (f'cause = "{bugs[bug]["cause"]}", lines = {at}' for bug, at in zip(pair, lines, strict=True))
            both = "_and_".join(pair)
            truth = [*one.split(", ", 1), "one_edit = false", f"second = {{ {other} }}"]
            (wrong / f"{both}.cu").write_text(text, "utf-8")
            (wrong / f"{both}.toml").write_text(card.replace(f'"{name}.cu"', f'"{both}.cu"'), "utf-8")
            (wrong / f"{both}.truth.toml").write_text("\n".join(truth) + "\n", "utf-8")


if __name__ == "__main__":
    folder = HERE.parent / sys.argv[2] if len(sys.argv) > 2 else HERE  # an absolute path stays one
    if not any(folder.glob("*.bugs.toml")):
        sys.exit(f"{folder} has no kernels (*.bugs.toml)")
    if sys.argv[3:] == ["--pairs"]:
        expand_pairs(Path(sys.argv[1]), folder)
    else:
        expand(Path(sys.argv[1]), folder)
