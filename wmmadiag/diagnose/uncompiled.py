"""Looking for what mends a source that does not compile."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.diagnose.bases import Progress
from wmmadiag.diagnose.changes import applied, by_path
from wmmadiag.diagnose.confirm import confirmed
from wmmadiag.diagnose.evidence import ranked_changes
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.card import Case


def look_where_refused(found: Examined, cases: Sequence[Case], tell: Progress) -> None:
    """Search where the source does not compile: each change is compiled by itself, those near the refusal first."""
    bench, ledger = found.bench, found.ledger
    try:
        texts = {str(bench.source): bench.source.read_bytes()}
        sources, order = ranked_changes(bench, found.run, found.traced, texts)
    except (OSError, ValueError, WmmadiagError) as error:
        found.problem = str(error)
        return
    found.sources = sources
    ledger.complete = False
    for one in order[: ledger.effort.singles]:
        tell(f"trying changes of line {one.line[1]}")
        run = bench.run(found.case, by_path(applied(texts, [one.change])))
        ledger.changes += 1
        if run.passed:
            outcome = Outcome(one.change, "right", None, 0, work=run.result.warp_instructions)
            answers = confirmed(bench, cases, found.baseline, [Tried(one, outcome)], texts, ledger.effort.confirmed)
            if any(answer.right for answer in answers):
                found.answers = tuple(answers)
                return
