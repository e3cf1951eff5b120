"""The changes that share heads of keys among heads of queries in groups: `h / (H / H_kv)`, not `h % H_kv`.

Bad:
    const int kv = h % heads_kv;

Good:
    const int kv = h / (heads / heads_kv);
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.edits import Edit
from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "heads"
_FAULT = "gqa-"
_ENDS = frozenset({"=", "(", "[", ",", "+", ";", "return"})


def head_mends(model: SourceModel, fault: str, values: Mapping[str, float | int]) -> Iterator[Edit]:
    """Quotients and remainders by the number of heads of keys, for a fault model of grouped heads.

    Args:
        fault: name of the fault model that gives the kernel's output; nothing is made for others.
        values: numbers of the case by the names that the source uses: `heads`, `params.heads`.
    """
    if not fault.startswith(_FAULT):
        return
    for at, token in enumerate(model.tokens):
        if token.text not in ("%", "/") or model.function_at(token.offset) is None:
            continue
        few = _name(model, at + 1)
        number = values.get(few.text)
        if number is None or number < 1:
            continue
        head = _before(model, at)
        for many in _larger(model, values, few, number) if head is not None else ():
            assert head is not None
            whole = model.span(head.first, few.last)
            text = f"({head.text} / ({many} / {few.text}))"
            if text[1:-1] != whole.text:
                yield Edit(
                    _KIND,
                    "tensor-strides",
                    token.line,
                    f"{text[1:-1]} in place of {whole.text}",
                    (replaced(whole, text),),
                    0.0,
                )


def _larger(model: SourceModel, values: Mapping[str, float | int], few: Span, number: float) -> Iterator[str]:
    """Names of multiples of a number that are known there, members of the same struct first."""
    struct = few.text.rpartition(".")[0]
    found = []
    for name, value in values.items():
        owner = name.partition(".")[0]
        variable = model.variable(owner, few.start) if name.isidentifier() or name.count(".") == 1 else None
        if variable is not None and variable.kind == "parameter" and value > number and value % number == 0:
            found.append(name)
    yield from sorted(found, key=lambda name: (name.rpartition(".")[0] != struct, values[name]))[:3]


def _name(model: SourceModel, first: int) -> Span:
    last = first + 1
    while last + 1 < len(model.tokens) and model.tokens[last].text == ".":
        last += 2
    return model.span(first, last)


def _before(model: SourceModel, at: int) -> Span | None:
    """The name or member before an operator, where it is the whole operand."""
    first = at - 1
    if model.tokens[first].kind != "id":
        return None
    while first >= 2 and model.tokens[first - 1].text == ".":
        first -= 2
    return model.span(first, at) if model.tokens[first - 1].text in _ENDS else None
