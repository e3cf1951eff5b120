"""Where a source computes a softmax, told by how values are made, not by what they are called.

A maximum is what a maximum function, or `if (x > m) m = x`, is assigned to; an exponential of the difference of two
maxima rescales, any other one weighs a score; a sum is what weights are added to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.model import Call, Function, SourceModel, Span, Statement, Token, Variable

EXPONENTIALS = frozenset(
    {"expf", "__expf", "exp2f", "exp", "exp2", "hexp", "__exp2f", "exp10f", "h2exp", "h2exp2", "hexp2"}
)
MAXIMA = frozenset({"fmaxf", "fmax", "max", "__hmax", "__hmax2", "fminf", "min", "fmin"})
SHUFFLES = frozenset({"__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync", "__shfl_sync"})
_FLOATING = frozenset({"float", "double", "half", "__half", "auto", "T", "__nv_bfloat16"})
_INTEGERS = frozenset({"int", "unsigned", "long", "short", "size_t", "uint32_t", "int32_t", "int64_t", "bool"})
_COMPARISONS = frozenset({"<", ">", "<=", ">="})
_SMALL = 5  # calls in a helper that reduces, or wraps an instruction


@dataclass(frozen=True, slots=True)
class Softmax:
    """The parts of a softmax; lines are 1-based, in the order of the source.

    Attributes:
        weights: exponentials of scores.
        factors: exponentials of the difference of two maxima.
        maxima: lines that raise a maximum.
        sums: lines that add to a sum of weights.
        shuffles: lines that reduce over threads: exchanges between lanes, trees in shared memory, and their loops.
        divisions: lines that divide by a sum.
        masks: lines that decide which scores count, by a comparison.
        sum_names: where sums are kept, blanks removed; maximum_names: where maxima are.
        online: whether weights may be computed between products, tile by tile; False where all scores are there first.
    """

    weights: tuple[Call, ...]
    factors: tuple[Call, ...]
    maxima: tuple[int, ...]
    sums: tuple[int, ...]
    shuffles: tuple[int, ...]
    divisions: tuple[int, ...]
    masks: tuple[int, ...]
    sum_names: frozenset[str]
    maximum_names: frozenset[str]

    online: bool = True

    def __bool__(self) -> bool:
        return bool(self.weights)


@dataclass(frozen=True, slots=True)
class _Made:
    """A value given a name: by an assignment, or where it is declared (operator "=")."""

    target: str
    operator: str
    value: Span
    line: int


def softmax(model: SourceModel) -> Softmax:
    """The parts of the softmax that a source computes; without weights where none is recognised."""
    made = tuple(_made(model))
    raising = MAXIMA | _helpers(model, MAXIMA)
    maxima = _maxima(model, made, raising)
    exponential = EXPONENTIALS | _helpers(model, EXPONENTIALS)
    weights: list[Call] = []
    factors: list[Call] = []
    for call in model.calls:
        if call.name in exponential and call.arguments and not _inside(model, call, exponential):
            (factors if _rescales(model, call.arguments[0], maxima) else weights).append(call)
    sums = _sums(model, made, weights, maxima)
    return Softmax(
        tuple(weights),
        tuple(factors),
        _lines(one.line for one in made if one.target in maxima and _mentions(model, one.value, raising)),
        _lines(one.line for one in made if one.target in sums and _adds(model, one)),
        _lines(_shuffles(model)),
        _lines(_divisions(model, sums)),
        _lines(_masks(model, weights, maxima)),
        frozenset(sums),
        maxima,
        _online(model, weights),
    )


def _online(model: SourceModel, weights: list[Call]) -> bool:
    """Whether a loop holds a weight and a tensor-core product, or that cannot be told."""
    wrappers = {f.name for f in model.functions if not f.kernel and "mma.sync" in model.text[f.start : f.end]}
    products = [c for c in model.calls if c.name in ("mma_sync", *wrappers)]
    for call in weights:
        function = model.function_at(call.start)
        if function is None or not any(function.start <= one.start < function.end for one in products):
            return True
        for index in model.enclosing(model.statement_at(call.start)):
            loop = model.statements[index]
            if loop.loop and any(loop.start <= one.start < loop.end for one in products):
                return True
    return False


def key_step(model: SourceModel, parts: Softmax) -> int:
    """How many keys the loop over the keys of an online softmax takes at a time; 0 where that cannot be told.

    It is the outermost loop around a weight with a constant step, or one that counts tiles of a constant width.
    """
    if not parts.online:
        return 0
    for call in parts.weights:
        loops = [model.statements[at] for at in model.enclosing(model.statement_at(call.start))]
        for loop in (one for one in reversed(loops) if one.kind == "for" and one.step is not None):
            assert loop.step is not None
            amount = _amount(model, loop.step)
            if amount == 1:
                names = [v.name for v in model.variables if loop.start <= v.name_at < loop.head_end]
                amount = _width(model, names, loop)
            if amount > 1:
                return amount
    return 0


def _amount(model: SourceModel, step: Span) -> int:
    """What a loop adds to its variable each time, 0 if that is not constant."""
    if "++" in step.text:
        return 1
    at = next((i for i in range(step.first, step.last) if model.tokens[i].text == "+="), -1)
    value = evaluate(model.tokens[at + 1 : step.last], model.constants.get) if at >= 0 else None
    return value if isinstance(value, int) else 0


def _width(model: SourceModel, names: list[str], loop: Statement) -> int:
    """The constant by which a loop's variable is multiplied first in its body."""
    for at in range(loop.first, loop.last - 2):
        name, times, factor = model.tokens[at : at + 3]
        if times.text == "*" and (name.text in names or factor.text in names):
            other = factor if name.text in names else name
            value = evaluate([other], model.constants.get)
            return value if isinstance(value, int) else 0
    return 0


def plain(text: str) -> str:
    """A piece of source without its blanks: what two spellings of one place have in common."""
    return "".join(text.split())


def _lines(found: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(found)))


def _made(model: SourceModel) -> Iterator[_Made]:
    for one in model.assignments:
        if not _whole(model, one.target):
            yield _Made(plain(one.target.text), one.operator.text, one.value, one.line)
    for variable in model.variables:
        if variable.initial is not None and not variable.pointer and not _INTEGERS & set(variable.element.split()):
            yield _Made(variable.name, "=", variable.initial, model.line_of(variable.name_at))


def _whole(model: SourceModel, target: Span) -> bool:
    """Whether a target is an integer variable: a bound or an index, which `max` and `min` make, too."""
    token = model.tokens[target.first]
    variable = model.variable(token.text, token.offset)
    return variable is not None and not variable.dims and bool(_INTEGERS & set(variable.element.split()))


def _helpers(model: SourceModel, names: frozenset[str]) -> frozenset[str]:
    """Short device functions that call one of these: reductions and wrappers."""
    found = set()
    for function in model.functions:
        called = [call.name for call in model.calls if function.start <= call.start < function.end]
        if names is EXPONENTIALS and "ex2.approx" in model.text[function.start : function.end]:
            called.append("exp2f")
        if not function.kernel and names & set(called) and len(called) <= _SMALL and _returns(model, function):
            found.add(function.name)
    return frozenset(found)


def _returns(model: SourceModel, function: Function) -> bool:
    return any(
        statement.kind == "return" and function.start <= statement.start < function.end
        for statement in model.statements
    )


def _inside(model: SourceModel, call: Call, names: frozenset[str]) -> bool:
    """Whether a call stands in a helper that is itself called by one of these names."""
    function = model.function_at(call.start)
    return function is not None and function.name in names


def _mentions(model: SourceModel, piece: Span, names: Iterable[str]) -> bool:
    wanted = frozenset(names)
    return any(model.tokens[at].text in wanted for at in range(piece.first, piece.last))


def _maxima(model: SourceModel, made: tuple[_Made, ...], raising: frozenset[str]) -> frozenset[str]:
    """Where maxima are kept, blanks removed; of an array whose every element is one, also its name."""
    found = {one.target for one in made if one.operator == "=" and _mentions(model, one.value, raising)}
    found -= {one.target for one in made if one.operator == "+="}  # of a helper that may add, too
    found.update(one.target for one in made if _picks_larger(one))
    raised = set()  # `m = x` under `if (x > m)`: x is no maximum
    for statement in model.statements:
        compared = _compared(statement.condition) if statement.kind == "if" else None
        for one in model.assignments if compared else ():
            pair = {plain(one.target.text), plain(one.value.text)}
            if statement.head_end <= one.target.start < statement.end and pair == compared:
                found.add(plain(one.target.text))
                raised.add(one.value.start)
    copies = [m for m in made if m.operator == "=" and _is_place(model, m.value) and m.value.start not in raised]
    grown = True
    while grown:  # what is copied from a maximum, or to where one is kept, is a maximum
        pairs = [{one.target, plain(one.value.text)} for one in copies]
        more = set().union(*(pair for pair in pairs if pair & found)) - found
        found |= more
        grown = bool(more)
    return frozenset(found)


def _picks_larger(one: _Made) -> bool:
    """`m = x > m ? x : m`."""
    head, _, rest = one.value.text.partition("?")
    yes, _, no = rest.partition(":")
    sides = {plain(part) for part in head.strip(" (").replace("<", ">").split(">")}
    return bool(rest) and sides == {plain(yes), plain(no)}


def _compared(condition: Span | None) -> set[str] | None:
    if condition is None:
        return None
    sides = [plain(part) for part in condition.text.replace("<", ">").split(">")]
    return set(sides) if len(sides) == 2 else None


def _is_place(model: SourceModel, piece: Span) -> bool:
    """Whether an expression is a variable or an element of an array, not a number."""
    tokens = model.tokens[piece.first : piece.last]
    if not tokens or tokens[0].kind != "id":
        return False
    return len(tokens) == 1 or _one_subscript(model, piece)


def _one_subscript(model: SourceModel, piece: Span) -> bool:
    return any(one.start == piece.start and one.end == piece.end for one in model.subscripts)


def _rescales(model: SourceModel, argument: Span, maxima: frozenset[str]) -> bool:
    """Whether an exponent is the difference of two maxima, scaled or not."""
    tokens = model.tokens[argument.first : argument.last]
    if not any(token.text == "-" for token in tokens):
        return False
    seen = [name for name in _places(model, argument) if name not in _scalars(model, tokens)]
    return len([name for name in seen if name in maxima]) >= 2


def _scalars(model: SourceModel, tokens: Iterable[Token]) -> frozenset[str]:
    """Parameters of the kernel: scales."""
    kinds = {token.text: model.variable(token.text, token.offset) for token in tokens if token.kind == "id"}
    return frozenset(name for name, variable in kinds.items() if variable is not None and variable.kind == "parameter")


def _places(model: SourceModel, piece: Span) -> Iterator[str]:
    """Variables and array elements that an expression reads, blanks removed, indices left out."""
    at = piece.first
    while at < piece.last:
        token = model.tokens[at]
        if token.kind == "id":
            longest = max(
                (one for one in model.subscripts if one.start == token.offset and one.end <= piece.end),
                key=lambda one: one.end,
                default=None,
            )
            if longest is not None:
                yield plain(model.text[longest.start : longest.end])
                at = model.token_at(longest.end)
                continue
            yield token.text
        at += 1


def _sums(model: SourceModel, made: tuple[_Made, ...], weights: list[Call], maxima: frozenset[str]) -> frozenset[str]:
    """Where weights are added up, and what is made of that by adding and rescaling."""
    holders = {
        one.target
        for one in made
        if one.operator == "=" and any(one.value.start <= call.start < one.value.end for call in weights)
    }

    def adds(one: _Made, names: set[str]) -> bool:
        places = set(_places(model, one.value))
        whole = {name.split("[")[0] for name in names} - {name.split("[")[0] for name in maxima}
        return (
            _adds(model, one)
            and one.target not in maxima
            and bool(names & places or whole & {place.split("[")[0] for place in places if "[" in place})
        )

    found = {one.target for one in made if adds(one, holders)}
    found |= {
        one.target
        for one in made
        if one.operator == "+=" and any(one.value.start <= call.start < one.value.end for call in weights)
    }
    grown = True
    while grown:
        more = {one.target for one in made if adds(one, found)} | {
            plain(one.value.text)
            for one in made
            if one.target in found and one.operator == "=" and _is_place(model, one.value)
        }
        more |= {one.target for one in made if one.operator == "=" and plain(one.value.text) in found}
        more -= found
        found |= more
        grown = bool(more)
    return frozenset(found - holders)


def _adds(model: SourceModel, one: _Made) -> bool:
    """Whether a value is a sum; indices are none, nor are quotients."""
    at, added = one.value.first, one.operator == "+="
    while at < one.value.last:
        if model.tokens[at].text == "[" and model.match[at] > at:
            at = model.match[at]
        added = added or model.tokens[at].text == "+"
        if model.tokens[at].text == "/":
            return False
        at += 1
    return added


def _shuffles(model: SourceModel) -> Iterator[int]:
    for call in model.calls:
        if call.name in SHUFFLES:
            yield call.line
            loop = loop_of(model, call)
            if loop >= 0:
                yield model.statements[loop].line
    for index in trees(model):
        yield from range(model.statements[index].line, model.statements[index].last_line + 1)


def trees(model: SourceModel) -> Iterator[int]:
    """Loops that halve or double a distance, and combine elements of an array that are so far apart."""
    for index, statement in enumerate(model.statements):
        if statement.kind != "for" or statement.step is None or statement.init is None:
            continue
        if not any(mark in statement.step.text for mark in (">>", "<<", "/", "*")):
            continue
        names = [
            v.name for v in model.variables if v.kind == "loop" and statement.start <= v.name_at < statement.head_end
        ]
        apart = [s for s in model.subscripts if statement.head_end <= s.start < statement.end]
        if any("+" in i.text and _mentions(model, i, names) for s in apart for i in s.indices):
            yield index


def loop_of(model: SourceModel, call: Call) -> int:
    """The loop whose variable is the distance of a shuffle, -1 if there is none."""
    if len(call.arguments) < 3:
        return -1
    names = {model.tokens[at].text for at in range(call.arguments[2].first, call.arguments[2].last)}
    for index in model.enclosing(model.statement_at(call.start)):
        statement = model.statements[index]
        if statement.loop and any(
            piece is not None and _mentions(model, piece, names) for piece in (statement.init, statement.step)
        ):
            return index
    return -1


def _divisions(model: SourceModel, sums: frozenset[str]) -> Iterator[int]:
    bases = {name.split("[")[0] for name in sums}
    for at, token in enumerate(model.tokens[:-1]):
        if token.text in ("/", "/="):
            end = min(at + 8, len(model.tokens))
            if any(following.text in bases for following in model.tokens[at + 1 : end]):
                yield token.line


def _masks(model: SourceModel, weights: list[Call], maxima: frozenset[str]) -> Iterator[int]:
    """Comparisons that choose between a score or weight and a constant, and truth values that such a choice uses."""
    chosen = []
    for ternary in model.ternaries:
        if any(_constant(branch) for branch in (ternary.yes, ternary.no)) and (
            any(ternary.yes.start <= call.start < ternary.no.end for call in weights)
            or any(_lowest(branch) for branch in (ternary.yes, ternary.no))
        ):
            yield ternary.line
            chosen.append(ternary.condition)
    for one in model.assignments:
        around = next((model.statements[i] for i in model.enclosing(one.statement) if not _block(model, i)), None)
        masked = _lowest(one.value) and plain(one.target.text) not in maxima
        if masked and around is not None and around.kind == "if" and around.condition is not None:
            yield one.line
            yield around.line
            chosen.append(around.condition)
    for variable in model.variables:
        truth = variable.element == "bool"
        if truth and any(_mentions(model, condition, (variable.name,)) for condition in chosen):
            yield variable.line
            yield from _set_later(model, variable)


def _set_later(model: SourceModel, truth: Variable) -> Iterator[int]:
    """Where a truth value is changed after its declaration: `masked |= key > row`."""
    low, high = truth.visible
    for one in model.assignments:
        if plain(one.target.text) == truth.name and low <= one.target.start < high:
            yield one.line
            around = next((model.statements[i] for i in model.enclosing(one.statement) if not _block(model, i)), None)
            if around is not None and around.kind == "if":
                yield around.line


def _block(model: SourceModel, index: int) -> bool:
    return model.statements[index].kind == "block"


def _constant(branch: Span) -> bool:
    return branch.last - branch.first <= 2 or "INF" in branch.text.upper()


def _lowest(branch: Span) -> bool:
    """Whether an expression is a mask value: minus infinity, or a large negative number."""
    text = plain(branch.text).upper()
    return branch.last - branch.first <= 4 and (
        "INF" in text or "FLT_MAX" in text or "HUGE" in text or (text[:2] in ("-1", "-6", "-3", "-9") and len(text) > 3)
    )
