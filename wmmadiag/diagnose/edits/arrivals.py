"""Wait at a barrier object for those that arrive: an arrival whose token is dropped orders nothing for its thread.

`arrive` is `[[nodiscard]]` (libcu++, `cuda::barrier`): who means to drop the token says so by `(void)`.

Bad:
    full.arrive();
    use(tile);

Good:
    full.arrive_and_wait();
    use(tile);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator

_KIND = "arrivals"
_ALL = ("missing-barrier", "async-copy-order", "stale-tile")
_MEANT = re.compile(r"=|\(\s*void\s*\)")


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Statements on wanted lines that are nothing but an arrival."""
    model = view.model
    for call in model.calls:
        statement = model.statements[model.statement_at(call.start)]
        whole = statement.kind == "expression" and call.last >= statement.last - 1
        named = call.name == "arrive" and not call.template and model.text[call.name_at - 1] in ".>"
        before = model.text[statement.start : call.name_at]
        if named and whole and not _MEANT.search(before) and before.count("(") == before.count(")"):
            change = Change(call.name_at, call.name_at + len(call.name), "arrive_and_wait")
            summary = "wait there for all who arrive"
            yield from view.offer(_KIND, _ALL, call.line, summary, (change,), 0.01)
