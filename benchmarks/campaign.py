"""What campaigns find and what they cost.

python benchmarks/campaign.py unlisted    wrong kernels whose bug shows only at sizes that their cards do not list
python benchmarks/campaign.py right       right kernels at sizes that their cards do not list
python benchmarks/campaign.py workers     cases a second with one and with two workers
python benchmarks/campaign.py overhead    milliseconds of a case beyond `check`
python benchmarks/campaign.py tasks       processor time of client and scheduler for a case and for a task
python benchmarks/campaign.py million     memory of client and scheduler with 1,000,000 cases that do nothing
"""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from wmmadiag.campaign.cluster import TaskDone, answers, cluster
from wmmadiag.campaign.journal import Journal
from wmmadiag.campaign.plan import Plan, Subjects
from wmmadiag.campaign.points import key_of, points, spaces
from wmmadiag.campaign.run import Campaign, Executor, here, run_campaign
from wmmadiag.campaign.sizes import SizeRange
from wmmadiag.campaign.work import PointResult, WorkSetting, WorkUnit, run_unit, session_of
from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.place import Place
from wmmadiag.subject.card import Card, Case
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.check import run_case
from wmmadiag.subject.find_cards import cards_below, is_declared_wrong
from wmmadiag.subject.symbols import case_scope

KERNELS = Path(__file__).parents[1] / "kernels"
CASES = 60
"""Of each kernel."""
_BLOCK = re.compile(r"^\[\[cases\]\]$", re.MULTILINE)


def run(plan: Plan, workers: int = 2) -> Campaign:
    """A plan on local processes, with a journal that goes with it; no diagnosis."""
    journal = plan.path.with_suffix(".journal")
    journal.unlink(missing_ok=True)
    with cluster(workers=workers) as client, Journal(journal) as opened:
        return run_campaign(plan, opened, partial(answers, client), effort="")


def values_of(card: Card) -> dict[str, list[int]]:
    """What each extent and flag of a card's operation is in its cases, said or derived, where all are whole."""
    operation = OPERATIONS[card.computes.operation]
    texts = [str(text) for role in operation.roles.values() for text in role.shape] + list(operation.symbols.values())
    names = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}
    named = {name for case in card.cases for name in case.symbols}
    names &= {*operation.symbols, *named}
    flags = {name for name, one in operation.parameters.items() if one.kind == "flag"}
    found: dict[str, list[int]] = {}
    for name in sorted(names | named):
        missing = 0 if name in flags else None
        values = [_value(card, case, name, missing) for case in card.cases]
        if all(isinstance(value, int) for value in values):
            found[name] = [value for value in values if isinstance(value, int)]
    return found


def _value(card: Card, case: Case, name: str, missing: object) -> object:
    scope = case_scope(card, case, card.variants[0])
    try:
        return scope.number(name, place=case.place, what=name)
    except WmmadiagError:
        return missing


def taken(card: Card) -> dict[str, SizeRange | tuple[int, ...]]:
    """What a card's kernel takes, as far as its cases say: each size in steps of what all its values share.

    From that step up to the largest; flags with both values. What stands for another symbol in all cases
    (Skv for S) goes with it. What has one value in all cases keeps it.
    """
    values = values_of(card)
    derived = OPERATIONS[card.computes.operation].symbols
    shapes = {str(text) for role in OPERATIONS[card.computes.operation].roles.values() for text in role.shape}
    apart = {text for name, text in derived.items() if name in values and values.get(text) != values[name]} - shapes
    together: set[str] = set()
    for name, text in derived.items():
        if name in values and text not in together | apart and values.get(text) == values[name]:
            together.add(name)
    found: dict[str, SizeRange | tuple[int, ...]] = {}
    for name, each in values.items():
        if len(set(each)) < 2 or name in together or name in apart:
            continue
        if set(each) <= {0, 1}:
            found[name] = (0, 1)
        elif min(each) > 0:
            step = math.gcd(*each)
            found[name] = SizeRange(step, max(each), step)
    return found


def by_sizes(card: Card, bad: set[str]) -> bool:
    """Whether a failing case has sizes or flags that no right one has."""
    values = values_of(card)
    rows = {case.name: tuple(each[at] for each in values.values()) for at, case in enumerate(card.cases)}
    return bool({rows[name] for name in bad} - {row for name, row in rows.items() if name not in bad})


def subjects_of(cards: Mapping[Path, Path]) -> Iterator[Subjects]:
    """Card to try → the card whose cases say what the kernel takes."""
    for path, whole in cards.items():
        sizes = taken(load_card(whole))
        requires = ("H % Hkv == 0",) if "Hkv" in OPERATIONS[load_card(whole).computes.operation].symbols else ()
        yield Subjects((path,), Place(str(path), 1), sizes, requires, (), True)


def unlisted() -> int:
    """Take the failing cases out of copies of cards, and count those whose kernels fail all the same."""
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(folder) / "kernels"
        shutil.copytree(KERNELS, copies)
        cards = cards_below(copies)
        every_card = Subjects(tuple(cards), Place("", 1), {}, wrong=True)
        own = run(Plan(copies / "own.toml", "own", (every_card,), how="full"))
        failing: dict[str, set[str]] = {}
        with Journal(copies / "own.journal") as journal:
            for record in journal.records():
                if "case" in record and record["case"]["status"] != "passed":
                    point = record["case"]["point"]
                    failing.setdefault(point["subject"], set()).add(point["base"])
        shown, right = {}, {}
        for card in cards:
            bad = failing.get(card.relative_to(copies).as_posix(), set())
            names = [case.name for case in load_card(card).cases]
            if not bad and not is_declared_wrong(card):
                right[card] = KERNELS / card.relative_to(copies)
            elif is_declared_wrong(card) and set(names) - bad and by_sizes(load_card(card), bad):
                card.write_text(_without(card.read_text(), names, bad))
                shown[card] = KERNELS / card.relative_to(copies)
        print(f"{own.tally.cases} cases of {len(cards)} cards; {len(shown)} wrong kernels fail in some only")
        for what, these in (("wrong", shown), ("right", right)):
            tried(copies, what, these)
    return 0


def tried(folder: Path, what: str, cards: Mapping[Path, Path]) -> None:
    """Try cards in a folder at sizes that their kernels take, and say which fail, or do not though they are wrong."""
    began = time.perf_counter()
    done = run(Plan(folder / f"{what}.toml", what, tuple(subjects_of(cards)), cases=CASES))
    caught = {name for name, counts in done.tally.subjects.items() if counts["failed"]}
    print(
        f"{what}: {len(caught)} of {len(cards)} kernels fail, {done.tally.cases} cases"
        f" in {time.perf_counter() - began:.0f} s; {dict(done.tally.statuses)}"
    )
    every = {path.relative_to(folder).as_posix() for path in cards}
    other = {group[0] for group in done.tally.groups}
    for name in sorted(every - caught if what == "wrong" else other):
        print(f"  {name}: {sorted(map(str, done.tally.subjects.get(name, {}).items()))}")
        for group, one in done.tally.groups.items():
            if group[0] == name:
                print(f"    {one.smallest.point.name()}: {one.smallest.message}")


def right() -> int:
    """Every right kernel, at sizes that it takes: nothing may fail."""
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(folder) / "kernels"
        shutil.copytree(KERNELS, copies)
        cards = [card for card in cards_below(copies) if not is_declared_wrong(card)]
        tried(copies, "right", {card: KERNELS / card.relative_to(copies) for card in cards})
    return 0


def _without(text: str, names: Sequence[str], bad: set[str]) -> str:
    """A card's text without some of its cases."""
    head, *blocks = _BLOCK.split(text)
    assert len(blocks) == len(names), "every case has a table of its own"
    tail = re.search(r"^\[(?!\[)", blocks[-1], re.MULTILINE)  # what follows the last case
    rest = ""
    if tail is not None:
        blocks[-1], rest = blocks[-1][: tail.start()], blocks[-1][tail.start() :]
    kept = [f"[[cases]]{block}" for name, block in zip(names, blocks, strict=True) if name not in bad]
    return head + "".join(kept) + rest


def _gemm(folder: Path, cases: int) -> Plan:
    sizes = {name: SizeRange(1, 130) for name in "MNK"}
    card = KERNELS / "gemm" / "kernel.toml"
    subjects = Subjects((card,), Place("", 1), sizes)
    return Plan(folder / "gemm.toml", "gemm", (subjects,), how="random", cases=cases)


def workers() -> int:
    """The same cases with one worker and with two in turns, each after a campaign that warms its processes.

    And in as many processes that only check, each its share at one go: more than that the machine does not give. What
    stands in the way of two processes then, caches and memory that they share, is none of the campaign's.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = _gemm(Path(folder), 1600)
        rates: dict[str, dict[int, list[float]]] = {"campaign": {1: [], 2: []}, "checks alone": {1: [], 2: []}}
        for _ in range(4):
            for count in (1, 2):
                took = side_by_side(plan, count)
                for way, one in took.items():
                    rates[way][count].append(plan.cases / one)
                told = ", ".join(f"{way} {plan.cases / one:.0f} cases/s" for way, one in took.items())
                print(f"{count} workers: {told}, load {os.getloadavg()[0]:.1f}")
        for way, of in rates.items():
            ratios = [two / one for one, two in zip(of[1], of[2], strict=True)]
            print(f"{way}, two against one: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0


def side_by_side(plan: Plan, count: int) -> dict[str, float]:
    """Seconds of a campaign with so many workers, and of checks alone in them."""
    with cluster(workers=count) as client:
        timed(replace(plan, cases=64 * count), partial(answers, client))
        seconds, _ = timed(replace(plan, seed=2), partial(answers, client))
        shares = [replace(plan, seed=2 + at, cases=plan.cases // count) for at in range(count)]
        list(answers(client, checked, [replace(one, cases=64) for one in shares]))
        began = time.perf_counter()
        list(answers(client, checked, shares))
        return {"campaign": seconds, "checks alone": time.perf_counter() - began}


def timed(plan: Plan, execute: Executor) -> tuple[float, float]:
    """Seconds that a campaign takes, and seconds of this process's processors."""
    journal = plan.path.with_suffix(".journal")
    journal.unlink(missing_ok=True)
    with Journal(journal) as opened:
        began, used = time.perf_counter(), time.process_time()
        done = run_campaign(plan, opened, execute, effort="")
        took = time.perf_counter() - began, time.process_time() - used
    assert done.tally.cases == plan.cases
    return took


def overhead() -> int:
    """Processor time of a case in a campaign, in one process and with one worker, against `check`'s own loop.

    Processor time and not time, so that what else runs on the machine tells little; client, scheduler and worker
    together, though they work side by side.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = _gemm(Path(folder), 400)
        used: dict[str, list[float]] = {"check": [], "here": [], "one worker": [], "of this, client and scheduler": []}
        with cluster(workers=1) as client:
            for turn in range(8):
                took = {"check": checked(plan), "here": timed(plan, here)[1]}
                before = sum(client.run(time.process_time).values())
                _, took["of this, client and scheduler"] = timed(plan, partial(answers, client))
                worker = sum(client.run(time.process_time).values()) - before
                took["one worker"] = worker + took["of this, client and scheduler"]
                for way, one in took.items() if turn else ():  # the first one warms up
                    used[way].append(one / plan.cases * 1e3)
        for way, each in used.items():
            print(f"{way}: {statistics.median(each):.2f} ms a case ({min(each):.2f} to {max(each):.2f})")
        for way in ("here", "one worker"):
            beyond = [one - base for one, base in zip(used[way], used["check"], strict=True)]
            print(f"{way} beyond check: {statistics.median(beyond):.2f} ms ({min(beyond):.2f} to {max(beyond):.2f})")
        print(f"load {os.getloadavg()[0]:.1f}")
    return 0


def checked(plan: Plan) -> float:
    """Seconds of processors that a check takes for a plan's cases, its card read before."""
    (subjects,) = plan.subjects
    (space,) = spaces(plan, subjects)
    setting = WorkSetting(str(plan.path.parent))
    chosen = list(points(plan, space))
    session = session_of(setting, "", chosen[0])
    began = time.process_time()
    for point in chosen:
        run_case(session, point.case(session.card), session.card.variant(point.variant), None, "")
    return time.process_time() - began


def nothing(unit: WorkUnit) -> list[PointResult]:
    """What a task of cases that do nothing answers."""
    return [PointResult(key_of(point, unit.digest), point, "passed") for point in unit.points]


def idle(plan: Plan, client: Any) -> tuple[float, float]:
    """Seconds of time, and of this process's processors, that a campaign takes whose cases do nothing."""

    def execute(function: Callable[[Any], Any], works: Iterable[WorkUnit]) -> Iterator[TaskDone[Any, Any]]:
        return answers(client, nothing, works) if function is run_unit else iter(())

    return timed(plan, execute)


def million() -> int:
    """Peak memory of this process, in which the scheduler runs, too."""
    with tempfile.TemporaryDirectory() as folder, cluster(workers=2) as client:
        plan = replace(_gemm(Path(folder), 1_000_000), seeds=tuple(range(100)), slice=1000)
        took, used = idle(plan, client)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{plan.cases:,} cases in {took:.0f} s, {used:.0f} s of client's and scheduler's, {peak:.0f} MB at most")
    return 0


def tasks() -> int:
    """Processor time of client and scheduler for a case, and for a task: 20,000 cases in few tasks and in many."""
    with tempfile.TemporaryDirectory() as folder, cluster(workers=2) as client:
        plan = replace(_gemm(Path(folder), 20_000), seeds=tuple(range(100)), slice=1000)
        for turn in range(4):
            (_, few), (_, many) = idle(plan, client), idle(replace(plan, slice=64), client)
            task = (many - few) / (plan.cases / 64 - plan.cases / 1000)
            case = (few - task * plan.cases / 1000) / plan.cases
            if turn:  # the first one warms up
                print(f"{case * 1e6:.0f} µs a case, {task * 1e3:.1f} ms a task, load {os.getloadavg()[0]:.1f}")
    return 0


WHAT = {
    "unlisted": unlisted, "right": right, "workers": workers, "overhead": overhead, "million": million, "tasks": tasks,
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=tuple(WHAT))
    sys.exit(WHAT[parser.parse_args().what]())
