"""The debugger's figures: time to the first prompt, of steps forwards and backwards, memory; and wrong kernels.

python benchmarks/debugger.py            # on kernels/attention, S = 512, two heads of two batches and more
python benchmarks/debugger.py --wrong    # how near `departure` and `why` come to the fault of each wrong kernel
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import wmmadiag
from wmmadiag.debugger import Session
from wmmadiag.errors import ConfigurationError, WmmadiagError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KERNELS = Path(__file__).parents[1] / "kernels"
CARD = KERNELS / "attention" / "kernel.toml"


def timed(action: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """Median and longest wall time of an action, milliseconds."""
    seen = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seen.append((time.perf_counter() - start) * 1e3)
    return statistics.median(seen), max(seen)


def show(what: str, measured: tuple[float, float]) -> None:
    """One row."""
    print(f"{what:<52} {measured[0]:>9.2f} ms, longest {measured[1]:>9.2f} ms")


def first_prompt() -> None:
    """Start the command and leave again."""
    words = [sys.executable, "-m", "wmmadiag", "debug", str(CARD), "--case", "batched", "-e", "quit", "--batch"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def figures() -> None:
    """The table."""
    first_prompt()
    show("command to its first prompt and out, compiled before", timed(first_prompt, 5))
    session = wmmadiag.debug(CARD, case="batched")
    show("the whole launch (S = 512, 16 heads)", timed(lambda: session.run_to(end=True)))
    print(f"  {session.time:,} warp instructions in {len(session.machine.block_starts)} blocks")
    end = session.time
    show("step back one instruction from the end", timed(lambda: session.reverse_step("instruction")))
    for unit in ("instruction", "line", "tensor", "barrier"):
        session.seek(end // 2)
        show(f"step by {unit}", timed(partial(session.step, unit), 50))
        show(f"reverse-step by {unit}", timed(partial(session.reverse_step, unit), 50))
    session.seek(end - 1000)
    show(
        "reverse-continue to the first store of the launch", timed(lambda: session.reverse_continue(watch="o[0,0,0,0]"))
    )
    session.seek(end // 2)
    session.run_to(tensor_op=1)
    show("the operands of a multiplication", timed(session.multiplication, 10))
    show("... with provenance and the oracle's values", timed(lambda: session.multiplication()["d"].difference, 10))
    show("who wrote an element of shared memory last", timed(lambda: session.last_writer("sKV[72]"), 10))
    use = session.machine.memory_use
    print(f"snapshots: {use.snapshots}, {use.bytes / 2**20:.1f} of {use.limit / 2**20:.0f} MiB")
    deep(session)


def deep(session: Session) -> None:
    """One block that runs long: snapshots inside it."""
    del session
    long = wmmadiag.debug(KERNELS / "attention_fused" / "kernel.toml", case="batched")
    long.run_to(end=True)
    show("fused kernel: reverse-step from the end", timed(lambda: long.reverse_step("instruction"), 20))


def wrong() -> None:
    """How `departure` and `why` meet the truth about each wrong kernel."""
    counts: Counter[str] = Counter()
    read: list[int] = []
    started = time.perf_counter()
    for path in sorted(KERNELS.glob("*/wrong/*.truth.toml")):
        facts = tomllib.loads(path.read_text("utf-8"))
        lines = {*facts["lines"], *facts.get("second", {}).get("lines", [])}
        where, lines_read = _reached(path.with_name(path.name.replace(".truth.toml", ".toml")), lines)
        counts[where] += 1
        if lines_read is not None:
            read.append(lines_read)
    for where, count in counts.most_common():
        print(f"{where:<48} {count:>4}")
    print(
        f"lines that `why` lists before it, where it names it: median {statistics.median(read):.0f}, most {max(read)}"
    )
    print(f"{sum(counts.values())} kernels in {time.perf_counter() - started:.0f} s")


def _reached(card: Path, lines: set[int]) -> tuple[str, int | None]:
    """Which command names one of the lines, and how many lines `why` lists before it."""
    try:
        for name in wmmadiag.open_card(card).cases:
            session = wmmadiag.debug(card, case=name.name)
            try:
                found = session.to_departure()
            except ConfigurationError:
                continue
            if found.line in lines:
                return "departure stops at the fault", None
            if {place.line for place in found.others} & lines:
                return "departure names its line", None
            for looks, depth in enumerate((2, 3, 4), 1):
                order = [one.line for one in session.behind(depth)]
                if lines & set(order):
                    return f"why names it, typed {looks}×", min(order.index(one) for one in lines & set(order))
            return "farther away", None
    except WmmadiagError as error:
        named = {int(one) for one in re.findall(r"\.cuh?:(\d+)", str(error))} & lines
        return ("refused at once, naming its line" if named else "refused at once"), None
    return "no case departs", None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrong", action="store_true", help="the wrong kernels instead")
    if parser.parse_args().wrong:
        wrong()
    else:
        figures()
