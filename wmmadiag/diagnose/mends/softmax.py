"""The changes that undo a known fault of a softmax.

A fault model says what is computed instead. With the parts of the softmax known (`source.softmax`), little is left to
guess: an output that is not rescaled must be rescaled as the sum by which it is divided is; a key past the end must
not count in the weight, by the comparison that the maximum is guarded with.

Bad:
    l = l * alpha + row_sum;
    ...
    for (int d = lane; d < D; d += 32) out[d] = o[row][d] / l;

Good:
    l = l * alpha + row_sum;
    for (int d = lane; d < D; d += 32) o[row][d] *= alpha;
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wmmadiag.diagnose.edits import Change, Edit
from wmmadiag.diagnose.edits.building import after, exchanged, replaced
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.mends.masks import causal_mends
from wmmadiag.diagnose.mends.old_sums import old_sum_mends
from wmmadiag.diagnose.mends.partial_results import partial_mends
from wmmadiag.diagnose.mends.reductions import reduction_mends
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement
from wmmadiag.diagnose.source.softmax import Softmax, plain

_KIND = "softmax-parts"
_COMPARISONS = ("<", "<=", ">", ">=")


def mends(
    model: SourceModel, parts: Softmax, hypothesis: str, fault: str, values: Mapping[str, float | int]
) -> tuple[Edit, ...]:
    """Edits for a hypothesis about a softmax, the likeliest first.

    Args:
        fault: name of the fault model that gives the kernel's output, "" where none does.
        values: numbers of the case by the names that the source uses.
    """
    found: list[Edit] = []
    if hypothesis == "rescale-missing":
        if fault in ("", "alpha-missing", "alpha-missing-of-output") or fault.startswith("tile-maximum"):
            known = factor_names(model, parts)
            found += old_sum_mends(model, {plain(a): b for a, b in _sum_factors(model, parts, known)})
            found += _outputs_rescaled(model, parts)
            found += _other_factor(model, parts, hypothesis)
        if fault.startswith(("alpha-after-tile", "alpha-missing-of-sum")) or not fault:
            found += _factor_first(model, parts)
        if fault.startswith("alpha-inverted") or not fault:
            found += _turned(model, parts)
        if fault in ("", "alpha-missing", "alpha-missing-of-sum") or fault.startswith(
            ("tile-maximum", "alpha-missing")
        ):
            found += _factor_added(model, parts)
        if fault in ("", "alpha-of-tile-maximum", "maximum-not-carried"):
            found += _other_maximum_kept(model, parts)
    if hypothesis == "tail-masking" or (hypothesis == "causal-mask" and fault == "causal-missing"):
        found += _weights_masked(model, parts, hypothesis)
    if hypothesis == "causal-mask":
        found += causal_mends(model, parts, fault, values)
    if hypothesis == "row-statistic":
        found += _other_factor(model, parts, hypothesis)
    if hypothesis == "reduction":
        found += partial_mends(model, parts)
        found += reduction_mends(model, parts)
    return tuple(found)


def _edit(hypothesis: str, line: int, summary: str, changes: Iterable[Change], rank: float) -> Edit:
    return Edit(_KIND, hypothesis, line, summary, tuple(changes), rank)


# --- an output that is not rescaled -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Division:
    """`element / divisor`; `statement` holds it."""

    element: Span
    divisor: Span
    statement: int


def _outputs_rescaled(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """Multiply what is divided by a sum by the factor with which that sum is rescaled, in the same loop."""
    known = factor_names(model, parts)
    per_sum = dict(_sum_factors(model, parts, known))
    groups: dict[int, list[tuple[_Division, str]]] = {}
    for one in _divisions(model, parts):
        factor = per_sum.get(plain(one.divisor.text)) or _of_row(model, one.divisor, per_sum, known)
        if not factor:
            yield from _along_row(model, one, per_sum, known)
        loops = [i for i in model.enclosing(one.statement) if model.statements[i].loop]
        if factor:
            groups.setdefault(loops[0] if loops else -1, []).append((one, factor))
    for loop, pairs in groups.items():
        code, own = _repeated(model, loop, pairs)
        for index, shared in _places(model, {factor for _, factor in pairs}, known):
            closing = "\n__syncthreads();" if shared else ""
            if not code or not _known_there(model, code, own, model.statements[index].end - 1):
                continue
            change = after(model, index, code + closing)
            if change is not None:
                names = " and ".join(dict.fromkeys(factor for _, factor in pairs))
                first = pairs[0][0].element.text
                line = model.statements[index].line
                yield _edit("rescale-missing", line, f"rescale {first} by {names}", (change,), 0.0)


def factor_names(model: SourceModel, parts: Softmax) -> dict[str, int]:
    """Where factors are kept, blanks removed → offset behind which they are known; copies, too."""
    found: dict[str, int] = {}
    for call in parts.factors:
        for variable in model.variables:
            if variable.initial is not None and variable.initial.start <= call.start < variable.initial.end:
                found[variable.name] = variable.end
        for one in model.assignments:
            if one.operator.text == "=" and one.value.start <= call.start < one.value.end:
                found[plain(one.target.text)] = model.statements[one.statement].end
    for one in model.assignments:
        if one.operator.text == "=" and plain(one.value.text) in found:
            found.setdefault(plain(one.target.text), model.statements[one.statement].end)
    return found


def _sum_factors(model: SourceModel, parts: Softmax, known: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(sum, factor) of `l *= f`, `l = l * f + s` and `float l = sum[row] * f`."""
    pieces = [(one.target.text, one.operator.text, one.value) for one in model.assignments]
    pieces += [(v.name, "=", v.initial) for v in model.variables if v.initial is not None and not v.dims]
    for target, operator, value in pieces:
        if operator == "*=" and plain(target) in parts.sum_names and plain(value.text) in known:
            yield plain(target), value.text
        for term in terms(model, value) if operator == "=" else ():
            split = factors(model, term)
            inside = [one for part in split for one in _opened(model, part)]
            own = [part for part in inside if plain(part.text) in parts.sum_names]
            own = [part for part in own if plain(part.text) == plain(target)] or own
            factor = [part for part in split if plain(part.text) in known]
            if own and len(factor) == 1:
                yield plain(own[0].text), factor[0].text


def _opened(model: SourceModel, part: Span) -> list[Span]:
    """The terms in brackets; what is not in brackets itself."""
    whole = part and model.tokens[part.first].text == "(" and model.match[part.first] == part.last - 1
    return terms(model, model.span(part.first + 1, part.last - 1)) if whole else [part]


def _of_row(model: SourceModel, divisor: Span, per_sum: Mapping[str, str], known: Mapping[str, int]) -> str:
    """The factor of another thread's row: what one keeps in shared memory, indexed as the divisor is."""
    here = _words(model, divisor)
    for name, factor in per_sum.items():
        there = next((_words(model, one.target) for one in model.assignments if plain(one.target.text) == name), [])
        if here[:1] != there[:1] or "[" not in there:
            continue
        head = next(i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b)
        tail = next(i for i, (a, b) in enumerate(zip(here[::-1], there[::-1], strict=False)) if a != b)
        old, new = there[head : len(there) - tail], " ".join(here[head : len(here) - tail])
        for one in model.assignments if len(old) == 1 else ():
            copy, value = _words(model, one.target), plain(one.value.text)
            kept = plain(one.target.text) in known and plain(factor) in (value, plain(one.target.text))
            if kept and "[" in copy and old[0] in copy:
                return "".join(
                    f"({new})" if word == old[0] and len(here) > len(there) else new if word == old[0] else word
                    for word in copy
                )
    return ""


def _along_row(
    model: SourceModel, one: _Division, per_sum: Mapping[str, str], known: Mapping[str, int]
) -> Iterator[Edit]:
    """What all threads divide, `o[i / D][i % D] / l[i / D]`, rescaled along a row by the thread that keeps its sum."""
    here = _words(model, one.divisor)
    for name, factor in per_sum.items():
        place = next((a for a in model.assignments if plain(a.target.text) == name), None)
        there = _words(model, place.target) if place is not None else []
        pairs = [(a, b) for a, b in zip(here, there, strict=False) if a != b]
        end = known.get(plain(factor))
        if len(here) != len(there) or len(pairs) != 1 or end is None:
            continue
        row, own = pairs[0]
        index = model.statement_at(end - 1)
        used = dict.fromkeys(word for word in _words(model, one.element) if word != row)
        columns = [model.variable(word, one.element.start) for word in used]
        for column in columns:
            if column is None or column.initial is None or "%" not in column.initial.text:
                continue
            extent = column.initial.text.rpartition("%")[2].strip()
            element = re.sub(rf"\b{re.escape(row)}\b", own, one.element.text)
            head = f"for (int {column.name} = 0; {column.name} < {extent}; ++{column.name})"
            code = f"{head} {element} *= {factor};"
            change = after(model, index, code)
            if change is not None and _known_there(model, code, frozenset({column.name}), end - 1):
                line = model.statements[index].line
                yield _edit("rescale-missing", line, f"rescale {element} by {factor}", (change,), 0.0)


def _words(model: SourceModel, piece: Span) -> list[str]:
    return [model.tokens[at].text for at in range(piece.first, piece.last)]


def _divisions(model: SourceModel, parts: Softmax) -> Iterator[_Division]:
    """Elements of arrays and fragments that are divided by a sum, or multiplied by its reciprocal."""
    bases = {name.split("[")[0] for name in parts.sum_names}
    inverse = {
        v.name: _right(model, at)
        for v in model.variables
        if v.initial is not None and not v.dims
        for at in range(v.initial.first, v.initial.last)
        if model.tokens[at].text == "/" and _first_word(model, _right(model, at)) in bases
    }
    for at, token in enumerate(model.tokens):
        if token.text in ("/", "/=") and _first_word(model, _right(model, at)) in bases:
            element, divisor = _left(model, at), _right(model, at)
        elif token.text in ("*", "*=") and at + 1 < len(model.tokens) and model.tokens[at + 1].text in inverse:
            element, divisor = _left(model, at), inverse[model.tokens[at + 1].text]
        else:
            continue
        if element is not None and divisor is not None and "[" in element.text:
            yield _Division(element, divisor, model.statement_at(token.offset))


def _first_word(model: SourceModel, piece: Span | None) -> str:
    return model.tokens[piece.first].text if piece is not None and piece else ""


def _left(model: SourceModel, at: int) -> Span | None:
    """The array element that ends before a token, converted or multiplied by something else or not."""
    if at == 0:
        return None
    end = model.tokens[at - 1].end
    found = next((model.span(model.token_at(s.start), at) for s in model.subscripts if s.end == end), None)
    opened = model.match[at - 1] if model.tokens[at - 1].text == ")" else -1
    if found is not None or opened < 0:
        return found
    inner = _left(model, at - 1)
    if inner is not None and inner.first == opened + 1:
        return inner
    while opened > 0 and model.tokens[opened - 1].kind == "id":
        opened -= 1
    return _left(model, opened - 1) if model.tokens[opened - 1].text == "*" else None


def _right(model: SourceModel, at: int) -> Span | None:
    """The variable or array element behind a token."""
    if at + 1 >= len(model.tokens) or model.tokens[at + 1].kind != "id":
        return None
    start = model.tokens[at + 1].offset
    ends = [s.end for s in model.subscripts if s.start == start]
    return model.span(at + 1, model.token_at(max(ends)) if ends else at + 2)


def _repeated(model: SourceModel, loop: int, pairs: list[tuple[_Division, str]]) -> tuple[str, frozenset[str]]:
    """Loops over the elements, with the declarations that their indices need, and the names that these declare."""
    used = {word for one, _ in pairs for word in _words(model, one.element)}
    lines = dict.fromkeys(f"{one.element.text} *= {factor};" for one, factor in pairs)
    if loop < 0:
        return " ".join(lines), frozenset()
    head = model.statements[loop]
    if head.kind != "for":
        return "", frozenset()
    own = _declared_in(model, head)
    declared: dict[str, None] = {}
    grown = True
    while grown:
        grown = False
        for variable in model.variables:
            inside = head.head_end <= variable.start < head.end and variable.kind == "local"
            if inside and variable.name in used and variable.initial is not None:
                text = model.text[variable.start : variable.end]
                own |= {v.name for v in model.variables if v.start == variable.start}
                if text not in declared:
                    declared[text] = None
                    used |= set(_words(model, variable.initial))
                    grown = True
    code = f"{model.text[head.start : head.head_end]} {{ {' '.join([*reversed(declared), *lines])} }}"
    outer = [i for i in model.enclosing(loop) if model.statements[i].kind == "for"]
    for index in outer:
        statement = model.statements[index]
        counted = _declared_in(model, statement)
        if not counted & used or _holds_mma(model, statement):
            break
        own |= counted
        code = f"{model.text[statement.start : statement.head_end]} {code}"
    return code, frozenset(own)


def _declared_in(model: SourceModel, loop: Statement) -> set[str]:
    """The variables of a loop's head."""
    return {v.name for v in model.variables if v.kind == "loop" and loop.start <= v.name_at < loop.head_end}


def _holds_mma(model: SourceModel, statement: Statement) -> bool:
    return any(c.name == "mma_sync" and statement.start <= c.start < statement.end for c in model.wmma_calls)


def _places(model: SourceModel, used: set[str], known: Mapping[str, int]) -> Iterator[tuple[int, bool]]:
    """Statements behind which factors are known: their own; for those in shared memory the next block barrier."""
    ends = [known[plain(name)] for name in used if plain(name) in known]
    if len(ends) == len(used) and ends:
        yield model.statement_at(max(ends) - 1), False
        return
    copies = [end for name, end in known.items() if "[" in name]
    for barrier in model.barriers:
        if copies and barrier.kind == "block" and barrier.start > max(copies):
            yield barrier.statement, True
            return


def _known_there(model: SourceModel, code: str, own: frozenset[str], offset: int) -> bool:
    """Whether every variable of the source that a piece of code uses, and does not declare, is known at an offset."""
    declared = {v.name for v in model.variables}
    names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", code)) & declared
    return all(model.variable(name, offset) is not None for name in names - own)


# --- the factor of the sum ----------------------------------------------------------------------------------------


def _factor_first(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """`(l + s) * f` becomes `l * f + s`."""
    known = factor_names(model, parts)
    for one in model.assignments:
        if plain(one.target.text) not in parts.sum_names or one.operator.text != "=":
            continue
        split = factors(model, one.value)
        if len(split) != 2:
            continue
        for bracket, factor in (split, split[::-1]):
            added = _opened(model, bracket)
            if len(added) == 2 and (plain(factor.text) in known or "exp" in factor.text):
                old, new = sorted(added, key=lambda part: plain(part.text) != plain(one.target.text))
                text = f"{old.text} * {factor.text} + {new.text}"
                summary = f"rescale {old.text} before adding {new.text}"
                yield _edit("rescale-missing", one.line, summary, (replaced(one.value, text),), 0.0)


def _factor_added(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """`l = f * l + s` where both must be relative to one maximum: another term multiplied by a factor."""
    known = factor_names(model, parts)
    calls = [model.text[call.start : call.end] for call in parts.factors]
    choices = dict.fromkeys([*(name for name in known if "[" not in name), *calls])
    number = 0
    for one in model.assignments:
        rescaled = any(one.value.start <= call.start < one.value.end for call in parts.factors)
        if not rescaled and not (one.line in parts.sums and one.operator.text == "="):
            continue
        for term in _inner_terms(model, one.value):
            for factor in choices:
                changes = (Change(term.end, term.end, f" * {factor}"),)
                edit = _edit("rescale-missing", one.line, f"multiply {term.text} by {factor}", changes, 0.003 * number)
                if plain(factor) not in plain(term.text) and _known_there(model, factor, frozenset(), one.target.start):
                    yield edit
                    number += 1


def _inner_terms(model: SourceModel, piece: Span) -> Iterator[Span]:
    """The terms of a sum, in brackets or not; none of what is no sum."""
    split = terms(model, piece)
    if len(split) > 1:
        yield from split
        return
    for factor in factors(model, split[0]) if split else ():
        if factor.first < len(model.tokens) and model.match[factor.first] == factor.last - 1 and factor.text[:1] == "(":
            yield from _inner_terms(model, model.span(factor.first + 1, factor.last - 1))


def _other_maximum_kept(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """`row_max[r] = tile_max` becomes `row_max[r] = new_max`."""
    names = [name for name in sorted(parts.maximum_names) if name.isidentifier()]
    for one in model.assignments:
        target, value = plain(one.target.text), plain(one.value.text)
        if one.operator.text != "=" or target not in parts.maximum_names or value not in names:
            continue
        for name in names:
            if name not in (target, value) and model.variable(name, one.value.start) is not None:
                summary = f"keep {name}, not {value}"
                yield _edit("rescale-missing", one.line, summary, (replaced(one.value, name),), 0.0)


def _other_factor(model: SourceModel, parts: Softmax, hypothesis: str) -> Iterator[Edit]:
    """`o[2] *= f0, o[3] *= f0` becomes `o[2] *= f1, o[3] *= f1`: rows have factors of their own."""
    names = [name for name in factor_names(model, parts) if name.isidentifier()]
    lines: dict[tuple[int, str], list[Span]] = {}
    for one in model.assignments:
        if one.operator.text == "*=" and one.value.text in names and plain(one.target.text) not in parts.sum_names:
            lines.setdefault((one.line, one.value.text), []).append(one.value)
    for (line, value), spans in lines.items():
        for name in names:
            if name != value and all(model.variable(name, span.start) is not None for span in spans):
                changes = tuple(replaced(span, name) for span in spans)
                yield _edit(hypothesis, line, f"multiply by {name}, not {value}", changes, 0.004)


def _turned(model: SourceModel, parts: Softmax) -> Iterator[Edit]:
    """exp(new - old) becomes exp(old - new)."""
    for call in parts.factors:
        found = terms(model, call.arguments[0])
        if len(found) == 2:
            summary = f"exponent {found[1].text} - {found[0].text}"
            yield _edit("rescale-missing", call.line, summary, exchanged(found[0], found[1]), 0.01)


# --- weights that must be zero ------------------------------------------------------------------------------------


def _weights_masked(model: SourceModel, parts: Softmax, hypothesis: str) -> Iterator[Edit]:
    """A weight is zero where its key does not count, by a comparison that guards other uses of such an index."""
    for call in parts.weights:
        inner = _index_of(model, call.start)
        if not inner:
            continue
        whole = model.span(call.first, call.last)
        for number, condition in enumerate(dict.fromkeys(_comparisons(model, call.start, inner))):
            changes = (replaced(whole, f"({condition} ? {whole.text} : 0.0f)"),)
            yield _edit(hypothesis, call.line, f"weigh only where {condition}", changes, 0.005 * number)


def _index_of(model: SourceModel, offset: int) -> str:
    """The variable of the innermost loop around an offset."""
    for index in model.enclosing(model.statement_at(offset)):
        statement = model.statements[index]
        if statement.kind == "for" and statement.init is not None:
            return next(
                (
                    v.name
                    for v in model.variables
                    if v.kind == "loop" and statement.start <= v.name_at < statement.head_end
                ),
                "",
            )
    return ""


def _comparisons(model: SourceModel, offset: int, index: str) -> Iterator[str]:
    """Comparisons of the source with this loop's variable; else of another loop's, in its place. Nearest first."""
    pieces = [t.condition for t in model.ternaries]
    pieces += [s.condition for s in model.statements if s.kind == "if" and s.condition is not None]
    pieces += [v.initial for v in model.variables if v.element == "bool" and v.initial is not None]
    own = model.function_at(offset)
    near = sorted(pieces, key=lambda piece: (model.function_at(piece.start) is not own, abs(piece.start - offset)))
    later = []
    for piece in near:
        for part in _conjuncts(model, piece):
            names = [w for w in dict.fromkeys(_words(model, part)) if model.variable(w, part.start) is not None]
            if not any(word in _COMPARISONS for word in _words(model, part)):
                continue
            unknown = [n for n in names if model.variable(n, offset) is None or n == index]
            if unknown == [index]:
                yield part.text
            elif len(unknown) == 1 and model.function_at(part.start) is own:
                text = "".join(index if w == unknown[0] else f" {w} " for w in _words(model, part))
                later.append(" ".join(text.replace("  ", " ").split()))
    yield from later[:2]


def _conjuncts(model: SourceModel, piece: Span) -> Iterator[Span]:
    start = piece.first
    at = piece.first
    while at < piece.last:
        if model.tokens[at].text in ("(", "[") and model.match[at] > at:
            at = model.match[at]
        elif model.tokens[at].text == "&&":
            yield model.span(start, at)
            start = at + 1
        at += 1
    yield model.span(start, piece.last)
