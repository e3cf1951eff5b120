"""Make the reports in this folder again: `python reports/make.py`. With names: only those. `--check`: are they current?

Each is of a wrong kernel that ships with wmmadiag, checked and diagnosed as it stands, as NAME.txt, .md and .html; all
of them together as all.sarif and all.xml. Times and versions are left out, so that a change here is a change of what
wmmadiag says.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from wmmadiag.gate.batch import Task, run_of, run_task
from wmmadiag.report import html, junit, markdown, sarif, terminal
from wmmadiag.results.json_file import write_whole
from wmmadiag.results.run import KernelRun, Run

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "reports"

STORIES = {
    "leading_dimension": ("kernels/gemm/wrong/blas_ldb_is_n.toml", "odd"),
    "early_exit": ("kernels/gemm/wrong/early_exit_and.toml", "edge"),
    "loop_start": ("kernels/gemm/wrong/k_loop_starts_late.toml", "square"),
}
"""Name of the report → card and case."""

EFFORT = "quick"
"""Of the diagnoses: the same answer on every machine."""


def made(name: str) -> KernelRun:
    """One story, without what differs from run to run. The working directory must be `ROOT`."""
    card, case = STORIES[name]
    task = Task(Path(card), None, (case,), options={"checks": "all"}, record=True, diagnose=True, effort=EFFORT)
    outcome = run_task(task)
    assert outcome.recorded is not None, outcome.error
    recorded = outcome.recorded
    report = recorded.report
    report = replace(
        report,
        seconds=0.0,
        tool_version="",
        cases=tuple(replace(one, seconds=0.0) for one in report.cases),
        compiled=tuple(replace(one, compiler="") for one in report.compiled),
    )
    return replace(recorded, report=report, diagnoses=tuple(replace(one, seconds=0.0) for one in recorded.diagnoses))


def run(*kernels: KernelRun) -> Run:
    """A run of some stories, without time and versions."""
    return replace(run_of([]), kernels=kernels, started="", versions={}, command="")


def texts(name: str, kernel: KernelRun) -> dict[str, str]:
    """One story's files by name."""
    one = run(kernel)
    return {
        f"{name}.txt": terminal.render_run(one),
        f"{name}.md": markdown.render(one),
        f"{name}.html": html.render(one),
    }


def together(kernels: list[KernelRun]) -> dict[str, str]:
    """The files of all stories."""
    return {"all.sarif": sarif.render(run(*kernels)), "all.xml": junit.render(run(*kernels))}


def main(words: list[str]) -> int:
    """Write the reports, or compare them; all of them, if no name is given."""
    os.chdir(ROOT)
    check = "--check" in words
    names = [word for word in words if word != "--check"]
    unknown = [name for name in names if name not in STORIES]
    if unknown:
        print(f"no report '{unknown[0]}'; there are {', '.join(STORIES)}", file=sys.stderr)
        return 2
    kernels = {name: made(name) for name in names or STORIES}
    files = {file: text for name, kernel in kernels.items() for file, text in texts(name, kernel).items()}
    if len(kernels) == len(STORIES):
        files |= together([kernels[name] for name in STORIES])
    if check:
        # Compressed arrays depend on the version of zlib: pages are only looked for.
        stale = [
            file
            for file, text in files.items()
            if not (HERE / file).is_file() or (not file.endswith(".html") and (HERE / file).read_text("utf-8") != text)
        ]
        for file in stale:
            print(f"reports/{file} is not what `python reports/make.py` makes now", file=sys.stderr)
        return 1 if stale else 0
    for file, text in files.items():
        write_whole(HERE / file, text)
        print(f"reports/{file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
