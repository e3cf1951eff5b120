"""What the checks find in `tests/checks/corpus/`, as a table: `python benchmarks/check_table.py [--write]`.

Flagged: a finding (an error or a warning) names a marked line of a planted kernel. Missed: none does. False: a finding
in a right kernel. `--write` puts the table into docs/checks.md.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tabulate import tabulate

sys.path += [str(Path(__file__).parent.parent / one) for one in ("tests/checks", "scripts/pages")]
import check_corpus
from checks_page import PAGE, with_table


def table() -> tuple[str, list[str]]:
    """The table as Markdown, and the names of what was missed or falsely flagged."""
    counts: dict[str, Counter[str]] = {}
    surprises = []
    for sample in check_corpus.samples():
        row = counts.setdefault(check_corpus.heading(sample.file), Counter())
        found = check_corpus.findings(sample)
        flagged = check_corpus.names_a_marked_line(sample, found) if sample.planted else bool(found)
        row["planted" if sample.planted else "right"] += 1
        word = {(True, True): "flagged", (True, False): "missed", (False, True): "false"}.get(
            (bool(sample.planted), flagged)
        )
        if word is not None:
            row[word] += 1
        if word in ("missed", "false"):
            surprises.append(f"{word}: {sample.file}, {sample.name}: {sample.planted or 'right'}")
    total: Counter[str] = sum(counts.values(), Counter())
    columns = ("planted", "flagged", "missed", "right", "false")
    rows = [[name, *(row[column] for column in columns)] for name, row in (*counts.items(), ("**all**", total))]
    return tabulate(rows, headers=["kernels", *columns], tablefmt="github"), surprises


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put it into docs/checks.md")
    options = parser.parse_args()
    text, surprises = table()
    print("\n".join([text, *surprises]))
    if options.write:
        path = Path(__file__).parent.parent / PAGE
        path.write_text(
            with_table(path.read_text("utf-8"), "\n".join([text, "", *(f"- {one}" for one in surprises)]).strip())
        )


if __name__ == "__main__":
    main()
