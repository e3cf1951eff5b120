"""Keep the parts of an online softmax together: maximum, rescaled sum, rescaled output, one division by the sum.

Bad:
    row_sum = row_sum + tile_sum;                    // sums taken against different maxima
    row_max = new_max;

Good:
    row_sum = row_sum * __expf(row_max - new_max) + tile_sum;
    row_max = new_max;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import after, bracketed, exchanged, mentions, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Variable

_KIND = "running-softmax"
_RESCALE, _NORM, _STAT, _MASKED = "rescale-missing", "normalisation", "row-statistic", "masked-row"
_MAXIMA = frozenset({"fmaxf", "fmax", "max", "__hmax", "fminf", "min", "fmin"})
_EXPONENTIALS = frozenset({"expf", "__expf", "exp2f", "exp", "exp2", "hexp", "__exp2f"})


@generator(_KIND, _RESCALE, _NORM, _STAT, _MASKED, "p-precision")
def generate(view: View) -> Iterator[Edit]:
    """Factors on sums and outputs, divisions, maxima, order of statements."""
    yield from _rescaling(view)
    yield from _divisions(view)
    yield from _maxima(view)
    yield from _order(view)
    yield from _guarded_exponentials(view)


def _floats(view: View, offset: int) -> list[Variable]:
    return [
        v
        for v in view.model.visible(offset)
        if v.element in ("float", "double", "auto") and not v.pointer and v.kind != "global"
    ]


def rescales(view: View, offset: int) -> list[tuple[str, float]]:
    """What may be the factor: a local made by an exponential of a difference; or that exponential of two maxima."""
    model = view.model
    found: dict[str, float] = {}
    for variable in _floats(view, offset):
        if variable.initial is not None and not variable.dims:
            tokens = [t.text for t in model.tokens[variable.initial.first : variable.initial.last]]
            if any(t in _EXPONENTIALS for t in tokens):
                found[variable.name] = 0.0 if "-" in tokens and not any(t == "[" for t in tokens) else 0.05
    for one in model.assignments:
        tokens = [t.text for t in model.tokens[one.value.first : one.value.last]]
        if (
            any(t in _EXPONENTIALS for t in tokens)
            and model.variable(model.tokens[one.target.first].text, offset) is not None
        ):
            found.setdefault(one.target.text, 0.03)
    exponential = next((c.name for c in model.calls if c.name in _EXPONENTIALS), "__expf")
    maxima = [v for v in _floats(view, offset) if not v.dims and _is_maximum(model, v)]
    for new in maxima:
        for old in _floats(view, offset):
            if (
                old.name != new.name
                and not old.dims
                and new.initial is not None
                and mentions(model, new.initial, old.name)
            ):
                found[f"{exponential}({old.name} - {new.name})"] = 0.04
    return sorted(found.items(), key=lambda item: item[1])[:6]


def _is_maximum(model: SourceModel, variable: Variable) -> bool:
    return variable.initial is not None and any(
        model.tokens[i].text in _MAXIMA for i in range(variable.initial.first, variable.initial.last)
    )


def _rescaling(view: View) -> Iterator[Edit]:
    """`l = l + s` and `l += s` become `l = l * alpha + s`; stores and running tiles are multiplied first."""
    model = view.model
    for one in model.assignments:
        if not view.wanted(one.target.start, one.value.end):
            continue
        for factor, extra in rescales(view, one.target.start):
            if factor == one.target.text:
                continue
            if one.operator.text == "+=":
                text = f"{one.target.text} = {one.target.text} * {factor} + {bracketed(one.value.text)}"
                change = Change(one.target.start, one.value.end, text)
                summary = f"rescale {one.target.text} by {factor} before adding"
                yield Edit(_KIND, _RESCALE, one.line, summary, (change,), 0.05 + extra)
            elif one.operator.text == "=" and not mentions(model, one.value, factor):
                for term in terms(model, one.value):
                    if term.text == one.target.text or any(f.text == one.target.text for f in factors(model, term)):
                        change = Change(term.end, term.end, f" * {factor}")
                        summary = f"rescale {one.target.text} by {factor}"
                        yield Edit(_KIND, _RESCALE, one.line, summary, (change,), 0.04 + extra)
                for call in model.calls:
                    if (
                        one.value.start <= call.start
                        and call.end <= one.value.end
                        and one.target.text in call.arguments[0].text
                        if call.arguments
                        else False
                    ):
                        change = Change(call.end, call.end, f" * {factor}")
                        yield Edit(_KIND, _RESCALE, one.line, f"rescale by {factor}", (change,), 0.14 + extra)
        if "*" in one.value.text and one.operator.text in ("=", "*="):
            for factor, extra in rescales(view, one.target.start):
                for term in terms(model, one.value):
                    for part in factors(model, term):
                        variable = model.variable(part.text, part.start)
                        if (
                            variable is not None
                            and part.text != factor
                            and variable.element == "float"
                            and part.text != one.target.text
                        ):
                            summary = f"multiply by {factor}, not {part.text}"
                            yield Edit(_KIND, _RESCALE, one.line, summary, (replaced(part, factor),), 0.14 + extra)
    for call in model.wmma_calls:
        if call.name != "load_matrix_sync" or len(call.arguments) < 4 or not view.wanted(call.start, call.end):
            continue
        for factor, extra in rescales(view, call.start):
            name, index = call.arguments[0].text, model.statement_at(call.start)
            code = f"for (int t = 0; t < {name}.num_elements; ++t) {name}.x[t] *= {factor};"
            change_after = after(model, index, code)
            if change_after is not None:
                yield Edit(_KIND, _RESCALE, call.line, f"rescale {name} by {factor}", (change_after,), 0.1 + extra)
    yield from _exponents(view)


def _exponents(view: View) -> Iterator[Edit]:
    """The difference in an exponential: turned round, or of other statistics."""
    model = view.model
    for call in model.calls:
        if call.name not in _EXPONENTIALS or len(call.arguments) != 1 or not view.wanted(call.start, call.end):
            continue
        argument = call.arguments[0]
        found = terms(model, argument)
        if len(found) == 2 and model.tokens[found[1].first - 1].text == "-":
            summary = f"exponent {found[1].text} - {found[0].text}"
            yield Edit(_KIND, _RESCALE, call.line, summary, exchanged(found[0], found[1]), 0.1)
        for term in found:
            present = model.variable(model.tokens[term.first].text, term.start)
            for other in _floats(view, call.start):
                alike = present is not None and bool(other.dims) == bool(present.dims) and other.name != present.name
                if present is not None and alike and not mentions(model, argument, other.name):
                    change = replaced(model.tokens[term.first], other.name)
                    summary = f"{other.name} in place of {present.name}"
                    yield from view.offer(_KIND, (_STAT, _RESCALE), call.line, summary, (change,), 0.14)
        if len(found) == 1:
            for other in _floats(view, call.start):
                if (
                    not other.dims
                    and not mentions(model, argument, other.name)
                    and (_is_maximum(model, other) or _updated(model, other))
                ):
                    change = Change(argument.end, argument.end, f" - {other.name}")
                    summary, faults = f"subtract {other.name} in the exponent", (_RESCALE, "p-precision", _STAT)
                    yield from view.offer(_KIND, faults, call.line, summary, (change,), 0.1)


def _updated(model: SourceModel, variable: Variable) -> bool:
    return any(a.target.text == variable.name and any(m in a.value.text for m in _MAXIMA) for a in model.assignments)


def _divisions(view: View) -> Iterator[Edit]:
    """A division by the row's sum that is missing, doubled, or by another quantity."""
    model = view.model
    if view.lines is None:
        return
    sums = {a.target.text for a in model.assignments if a.operator.text == "+=" or a.target.text in a.value.text}
    pieces = [a.value for a in model.assignments if view.wanted(a.target.start, a.value.end)]
    pieces += [
        v.initial
        for v in model.variables
        if v.initial is not None and view.wanted(v.start, v.end) and v.element in ("float", "half")
    ]
    for call in model.calls:
        if view.wanted(call.start, call.end) and call.name in (
            "__float2half",
            "__float2half_rn",
            "__float2bfloat16",
            "__floats2half2_rn",
        ):
            pieces += call.arguments
    for piece in pieces:
        function = model.function_at(piece.start)
        for variable in _floats(view, piece.start):
            if function is None or (variable.dims and not variable.shared):
                continue
            text = variable.name
            if variable.dims:
                text = _element_text(model, variable, piece)
            if not text or text in piece.text or (variable.name not in sums and text not in sums and not variable.dims):
                continue
            inner = _converted(model, piece)
            change = replaced(inner, f"{bracketed(inner.text)} / {text}")
            yield Edit(
                _KIND, _NORM, piece.line, f"divide by {text}", (change,), 0.08 if variable.name in sums else 0.16
            )
    for index, token in enumerate(model.tokens):
        if token.text not in ("/", "/=") or not view.wanted(token.offset) or index + 1 >= len(model.tokens):
            continue
        following = model.tokens[index + 1]
        if following.text == "(" and model.match[index + 1] > index:
            inside = model.span(index + 2, model.match[index + 1])
            parts = factors(model, inside)
            for part in parts if len(parts) > 1 else ():
                whole = Change(following.offset, model.tokens[model.match[index + 1]].end, part.text)
                yield Edit(_KIND, _NORM, token.line, f"divide by {part.text} alone", (whole,), 0.07)
        present = model.variable(following.text, following.offset)
        if present is None or present.element not in ("float", "double"):
            continue
        end = index + 2
        if end < len(model.tokens) and model.tokens[end].text in ("[", "(") and model.match[end] > end:
            end = model.match[end] + 1
        divisor = model.span(index + 1, end)
        if token.text == "/":
            gone = Change(token.offset, divisor.end, "")
            yield Edit(_KIND, _NORM, token.line, f"without the division by {divisor.text}", (gone,), 0.08)
        else:
            yield Edit(
                _KIND, _NORM, token.line, f"without the division by {divisor.text}", (replaced(divisor, "1.0f"),), 0.08
            )
        yield Edit(
            _KIND,
            _NORM,
            token.line,
            "multiply in place of dividing",
            (replaced(token, token.text.replace("/", "*")),),
            0.16,
        )
        for other in _floats(view, token.offset):
            if other.name != present.name and bool(other.dims) == bool(present.dims):
                summary = f"divide by {other.name}, not {present.name}"
                yield from view.offer(
                    _KIND, (_NORM, _STAT), token.line, summary, (replaced(following, other.name),), 0.12
                )
        guarded = f"({divisor.text} > 0.0f ? {divisor.text} : 1.0f)"
        yield Edit(
            _KIND, _MASKED, token.line, f"divide by 1 where {divisor.text} is zero", (replaced(divisor, guarded),), 0.06
        )
    yield from _reciprocals(view)


def _element_text(model: SourceModel, array: Variable, piece: Span) -> str:
    """The element of a row's array that code nearby uses, with an index that is known here; "" if there is none."""
    found = []
    for one in model.subscripts:
        if one.name != array.name or len(one.indices) != 1 or len(array.dims) > 1:
            continue
        names = [t.text for t in model.tokens[one.indices[0].first : one.indices[0].last] if t.kind == "id"]
        if all(model.variable(name, piece.start) is not None or name in ("threadIdx", "x", "y") for name in names):
            found.append((abs(one.line - piece.line), f"{array.name}[{one.indices[0].text}]"))
    return min(found)[1] if found else ""


def _reciprocals(view: View) -> Iterator[Edit]:
    """`1.0f / l` becomes zero where l is."""
    model = view.model
    for variable in model.variables:
        initial = variable.initial
        if initial is None or not view.wanted(variable.start, variable.end):
            continue
        parts = initial.text.split("/")
        if len(parts) == 2 and parts[0].strip() in ("1.0f", "1.f", "1.0", "1"):
            divisor = parts[1].strip()
            text = f"{divisor} > 0.0f ? {initial.text} : 0.0f"
            yield Edit(_KIND, _MASKED, variable.line, f"zero where {divisor} is zero", (replaced(initial, text),), 0.05)


def _converted(model: SourceModel, piece: Span) -> Span:
    """The argument of a conversion to half, or the piece itself."""
    name, opened = model.tokens[piece.first].text, piece.first + 1
    whole = piece.last - piece.first > 3 and model.tokens[opened].text == "(" and model.match[opened] == piece.last - 1
    if whole and ("2half" in name or "2bfloat16" in name):
        return model.span(opened + 1, piece.last - 1)
    return piece


def _maxima(view: View) -> Iterator[Edit]:
    """The old maximum missing from the new one; max for min, and a maximum where a sum was meant."""
    model = view.model
    for one_line, target, value in _values(view):
        inside = any(model.tokens[i].text in _MAXIMA for i in range(value.first, value.last))
        for variable in _floats(view, value.start):
            if (
                variable.dims
                or variable.name == target
                or mentions(model, value, variable.name)
                or (variable.initial is None and variable.kind != "parameter")
            ):
                continue
            rank = 0.1 if _named_maximum(model, variable) else 0.2
            summary = f"not less than {variable.name}"
            change = replaced(value, f"fmaxf({variable.name}, {value.text})")
            yield Edit(_KIND, _RESCALE, one_line, summary, (change,), rank + 0.06 * (not inside))
        if target and not mentions(model, value, target) and inside:
            change = replaced(value, f"fmaxf({target}, {value.text})")
            yield Edit(_KIND, _RESCALE, one_line, f"keep the larger {target}", (change,), 0.08)


def _named_maximum(model: SourceModel, variable: Variable) -> bool:
    text = "" if variable.initial is None else variable.initial.text
    return "INF" in text or "-1e" in text or "0xff800000" in text or "FLT_MAX" in text or _is_maximum(model, variable)


def _values(view: View) -> Iterator[tuple[int, str, Span]]:
    """Right-hand sides of plain floats on wanted lines: line, target, value."""
    model = view.model
    if view.lines is None:
        return
    for one in model.assignments:
        target = model.variable(one.target.text, one.target.start)
        if (
            one.operator.text == "="
            and target is not None
            and target.element == "float"
            and view.wanted(one.target.start, one.value.end)
        ):
            yield one.line, one.target.text, one.value
    for variable in model.variables:
        plain = variable.element == "float" and not variable.dims and not variable.pointer and variable.kind == "local"
        if plain and variable.initial is not None and view.wanted(variable.start, variable.end):
            yield variable.line, variable.name, variable.initial


def _order(view: View) -> Iterator[Edit]:
    """Exchange two neighbouring statements: a maximum that is replaced before the old one was used."""
    model = view.model
    if view.lines is None:
        return
    by_parent: dict[int, list[int]] = {}
    for index, statement in enumerate(model.statements):
        if statement.simple:
            by_parent.setdefault(statement.parent, []).append(index)
    for group in by_parent.values():
        for position, a in enumerate(group):
            for b in group[position + 1 : position + 3]:
                one, two = model.statements[a], model.statements[b]
                if not (view.wanted(one.start, one.end) or view.wanted(two.start, two.end)):
                    continue
                if (
                    one.kind == "declaration"
                    or two.kind in ("declaration", "return", "jump")
                    or one.kind in ("return", "jump")
                ):
                    continue
                line = one.line if view.wanted(one.start, one.end) else two.line
                pieces = model.span(one.first, one.last), model.span(two.first, two.last)
                summary = f"exchange line {one.line} and line {two.line}"
                yield from view.offer(_KIND, (_RESCALE, _STAT, _NORM), line, summary, exchanged(*pieces), 0.16)


def _guarded_exponentials(view: View) -> Iterator[Edit]:
    """exp(-inf - -inf) is NaN: zero where nothing was visible yet."""
    model = view.model
    for call in model.calls:
        if call.name not in _EXPONENTIALS or len(call.arguments) != 1 or not view.wanted(call.start, call.end):
            continue
        whole = model.text[call.start : call.end]
        for term in terms(model, call.arguments[0]):
            token = model.tokens[term.first]
            variable = model.variable(token.text, token.offset)
            if variable is None or variable.element not in ("float", "auto", "double"):
                continue
            text = f"({term.text} == -INFINITY ? 0.0f : {whole})"
            change = Change(call.start, call.end, text)
            yield Edit(_KIND, _MASKED, call.line, f"zero where {term.text} is -infinity", (change,), 0.05)
