"""Formulas that the user says on the command line: `--computes 'C[m, n] = relu(sum_k A[m, k] * B[k, n] + bias[n])'`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from wmmadiag.errors import ConfigurationError, QuestionError, did_you_mean
from wmmadiag.ops.formulas.syntax import parsed
from wmmadiag.ops.formulas.tree import Equation, FormulaError, Indexed, Summed, Word, nodes
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.stated.comments import CommentFormula, Stated, shapes_in
from wmmadiag.subject.drafts.stated.derived import TriedFormulas, formula_card, is_store_outside
from wmmadiag.subject.drafts.stated.launch_text import written
from wmmadiag.subject.drafts.stated.names import array_named

_INDEXED = re.compile(r"\b([A-Za-z]\w*)(?=\s*\[|_[a-z]{1,2}\b)")
_EXAMPLE = "C[m, n] = relu(sum_k A[m, k] * B[k, n] + bias[n])"


def given_card(source: GivenSource, kernel: SourceKernel, assumed: Sequence[str]) -> Card:
    """The card by the formulas that the user says.

    A kernel that does not compute them is wrong where nothing but the formulas and the host's launch had to be known to
    say so; else it is asked how they are meant.

    Raises:
        ConfigurationError: they are no formulas, or name no array of the kernel.
        QuestionError: the kernel computes them in no way in which they may be meant.
    """
    texts = source.options.formulas
    arrays = [one for one in kernel.parameters if one.pointer and not one.value]
    told = _parsed(texts, lambda name: array_named(name, arrays, short=False) is not None)
    _check_names(told, kernel)
    tries = TriedFormulas()
    said = "judged by the formula that was given, {}"
    card = formula_card(source, kernel, told, tries, said)
    if card is not None:
        return replace(card, assumed=(*assumed, *card.assumed))
    card = _contradicted(tries, told, arrays) if len(tries.ways) == 1 else None
    if card is not None and _is_plain(source, kernel, told, card):
        return replace(card, assumed=(*assumed, said.format("; ".join(card.computes.formula))), derived=None)
    raise _asked(source, kernel, told, tries)


def _contradicted(tries: TriedFormulas, told: Stated, arrays: Sequence[DraftParameter]) -> Card | None:
    """What the kernel is wrong by where all was tried in which the formulas may be meant; None where nothing is so.

    A store outside of what they say is wrong whatever it stores. A load may be of an array that is larger than what the
    formula takes of it, if nobody said its shape.
    """
    if tries.fault is not None:
        shaped = {one.name for name in told.shapes if (one := array_named(name, arrays, short=False)) is not None}
        return tries.faulty if is_store_outside(tries.fault) or all(one.name in shaped for one in arrays) else None
    return None if tries.died else tries.first


def _parsed(texts: Sequence[str], is_array: Callable[[str], bool]) -> Stated:
    """Statements and shapes: `A [M, K]`."""
    targets = {begun[0] for text in texts if "=" in text and (begun := re.match(r"[A-Za-z_]\w*", text.strip()))}
    indexed = {name for text in texts for name in _INDEXED.findall(text)}
    formulas: list[CommentFormula] = []
    shapes: dict[str, tuple[str, ...]] = {}
    for text in texts:
        if "=" not in text:
            found = list(shapes_in(text, is_array))
            if not found:
                raise _no_formula(text, "it has no '=', and shapes no array")
            shapes |= {name: dims for names, dims in found for name in names}
            continue
        try:
            statement = parsed(text, lambda name: is_array(name) or name in targets | indexed)
        except (FormulaError, RecursionError) as error:
            raise _no_formula(text, str(error)) from None
        formulas.append(CommentFormula(statement, 0))
    return Stated(tuple(formulas), shapes)


def _no_formula(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"--computes '{text.strip()}' is no formula: {why}",
        hint=f"write one such as --computes '{_EXAMPLE}'; several, and shapes such as 'A [M, K]', stand behind ';'",
    )


def _check_names(told: Stated, kernel: SourceKernel) -> None:
    """Refuse formulas that say nothing of what the kernel writes."""
    outputs = [one for one in kernel.parameters if one.pointer and not one.const and not one.value]
    targets = [one.statement.target for one in told.formulas]
    if any(array_named(target, outputs, short=False) is not None for target in targets):
        return
    if len(outputs) == 1 and targets:
        return  # what is said of another name is meant of the one array that it writes
    names = ", ".join(one.own_name for one in outputs) or "none"
    raise ConfigurationError(
        f"no formula says what an array of '{kernel.entry}' holds that it may write: {names}",
        hint=f"begin it with one of them: --computes '{outputs[0].own_name if outputs else 'C'}[m, n] = …'",
    )


def _is_plain(source: GivenSource, kernel: SourceKernel, told: Stated, card: Card) -> bool:
    """Whether host code makes the launch, the formulas say how every array lies, and all sizes are numbers of it."""
    if kernel.launch is None or kernel.commented:
        return False
    arrays = [one for one in kernel.parameters if one.pointer and not one.value]
    laid: set[str] = {*told.shapes}
    for one in told.formulas:
        laid |= _indexed(one.statement)
    named = {array.name for name in laid if (array := array_named(name, arrays, short=False)) is not None}
    known = written(kernel, source.wishes).names
    return all(one.name in named for one in arrays) and all(one.symbols.keys() <= known for one in card.cases)


def _indexed(statement: Equation) -> set[str]:
    own = {statement.target} if statement.items else set()
    return own | {one.base for one in nodes(statement) if isinstance(one, Indexed)}


def _unknown(told: Stated, kernel: SourceKernel) -> list[str]:
    """What the formulas and shapes name that is no parameter, no index and no result of another formula; of shapes what
    is nearly a parameter's name, since axes may be called anything. Each in words."""
    arrays = [one for one in kernel.parameters if one.pointer and not one.value]
    own = [one.own_name for one in kernel.parameters]
    statements = [one.statement for one in told.formulas]
    parts = [part for one in statements for part in nodes(one)]
    indices = {item.id for part in parts if isinstance(part, Indexed) for item in part.items if isinstance(item, Word)}
    indices |= {label for part in parts if isinstance(part, Summed) for label in part.labels}
    indices |= {item.id for one in statements for item in one.items or () if isinstance(item, Word)}
    named = [part.base if isinstance(part, Indexed) else part.id for part in parts if isinstance(part, Indexed | Word)]
    axes = [name for dims in told.shapes.values() for name in dims if name.isidentifier()]
    found = []
    for name in dict.fromkeys([*named, *axes]):
        known = name in own or name in indices or name in {one.target for one in statements}
        near = did_you_mean(name, own, " ").strip()
        if not known and array_named(name, arrays, short=False) is None and (near or name in named):
            found.append(f"'{name}' is no parameter of it{f': {near}' if near else ''}")
    return found


def _asked(source: GivenSource, kernel: SourceKernel, told: Stated, tries: TriedFormulas) -> QuestionError:
    detail = [f"it does not compute {text}" for text in dict.fromkeys(tries.wrong.values())]
    if not tries.runs:
        detail = _unknown(told, kernel)
        detail += ["nothing tells how large its arrays are, or what its numbers are in the formula"]
    elif not detail:
        detail = ["it does not run to its end at the sizes that were tried"]
        if tries.fault is not None:
            detail = [" ".join(filter(None, [tries.fault.place and f"{tries.fault.place}:", tries.fault.message]))]
    elif tries.ways:
        detail.append(f"ways in which its names and extents may be meant, of which all were tried: {len(tries.ways)}")
    words = shlex.join(["wmmadiag", "init", str(source.path), "--computes", source.options.computes])
    return QuestionError(
        f"{source.path}: is '{kernel.entry}' wrong, or is the formula meant otherwise?",
        detail="\n".join(detail),
        hint="index every array as it lies in memory, and say its shape by the kernel's numbers behind ';', "
        f"--computes 'C[m, n] = sum_k A[m, k] * B[k, n]; A [M, K]; B [K, N]; C [M, N]'; or write a card: {words}",
    )
