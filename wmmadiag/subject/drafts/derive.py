"""Cards from a source alone: `wmmadiag init`, and `wmmadiag check kernel.cu` without a card."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wmmadiag.compile.languages import is_ptx
from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.alternatives import Nearest, right_alternative
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.asking import (
    NotDerived,
    asked,
    check_macros,
    check_operation,
    check_symbols,
    not_derived,
    opinion,
)
from wmmadiag.subject.drafts.completed import with_given
from wmmadiag.subject.drafts.deciding import deciding
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.host_read import read_host
from wmmadiag.subject.drafts.kernel import SourceKernel, read_kernel
from wmmadiag.subject.drafts.launched_elsewhere import launched_elsewhere
from wmmadiag.subject.drafts.launched_together import launched_together, names_function
from wmmadiag.subject.drafts.left_alone import without_others_members
from wmmadiag.subject.drafts.numbers import ask_reaches
from wmmadiag.subject.drafts.plain_card import plain_card, todos
from wmmadiag.subject.drafts.recognise import WITHIN_ANY, Recognised, against, by_code, recognised
from wmmadiag.subject.drafts.sizes import cases
from wmmadiag.subject.drafts.stated.derived import stated_card
from wmmadiag.subject.drafts.text import draft_text, parsed_card, quoted
from wmmadiag.subject.drafts.tried_meanings import card_of, stages_of, tried_card
from wmmadiag.subject.drafts.which_kernel import several_instantiations, several_parts
from wmmadiag.subject.open_subject import SubjectOptions


def kernel_of(source: GivenSource, *, comments: bool = True) -> SourceKernel:
    """The kernel of a source that is meant.

    Args:
        comments: as `read_kernel` takes it.

    Raises:
        ConfigurationError: there is no kernel, no such kernel, or several and none is named.
    """
    if not source.text.strip():
        raise ConfigurationError(
            f"{source.path}: the file is empty", hint="give CUDA source with a __global__ function"
        )
    kernel = read_kernel(source, comments=comments)
    check_macros(source.options.macros, kernel.machine.program if kernel.machine is not None else None)
    return without_others_members(source, kernel)


def where_launched(source: GivenSource, kernel: SourceKernel) -> tuple[GivenSource, SourceKernel]:
    """The file of a project that launches a kernel which its own does not, and the kernel as it does."""
    found = None if source.options.grid or source.options.block else launched_elsewhere(source, kernel)
    return found or (source, kernel)


def recognised_operation(kernel: SourceKernel) -> Recognised:
    """What a kernel seems to compute."""
    from wmmadiag.compile.kernel_code import multiplies

    return recognised(kernel.entry, kernel.parameters, kernel.code, multiplies(kernel.code))


def derived_card(path: Path, options: SubjectOptions, *, together: bool = False) -> Card:
    """A card derived from a source and options alone.

    Where names leave open what arguments mean, every meaning is tried, and one that is right is taken.

    Args:
        path, options: the source, and what the user said.
        together: whether kernels that a host function launches one after the other may be judged as one.

    Raises:
        ConfigurationError: something cannot be derived; the message says what, and how to say it.
        SeveralKernelsError: several may be meant.
    """
    check_symbols(options.symbols)
    source = GivenSource(path, options)
    if together and (whole := _together(source)) is not None:
        return whole
    kernel = kernel_of(source)
    if kernel.stages and not options.entry:
        raise several_instantiations(path, kernel.stages)
    if kernel.commented:
        return _as_commented(source, kernel)
    return _derived_card(*where_launched(source, kernel))


def _together(source: GivenSource) -> Card | None:
    """The card of what a host function computes by several kernels, if they are right so, or it is plain what it is.

    Raises:
        ConfigurationError: the user named such a function, and no card can be derived.
        SeveralKernelsError: nobody can say what they compute together; each of them is judged alone.
    """
    options = source.options
    if not source.text.strip() or options.grid or options.block:
        return None
    host = read_host(source)
    named = bool(options.entry) and names_function(host, options.entry)
    if options.entry and not named:
        return None
    kernel = launched_together(source, host)
    if kernel is None or kernel.together is None:
        return None
    parts = list(dict.fromkeys(one.entry for one in kernel.together.stages))
    try:
        card = _derived_card(source, kernel)
    except ConfigurationError:
        if not kernel.together.own and not named:
            return None
        if named or len(parts) == 1:
            raise
        raise several_parts(source.path, kernel.entry, _names(parts), kernel.beside) from None
    said = bool(options.computes) and not options.formulas
    sure = not said and card.derived is not None and not card.derived.doubt and not card.derived.near
    if named or sure or (len(parts) == 1 and kernel.together.own) or right_alternative(card) is not None:
        return card
    if not kernel.together.own:  # launches that have no more in common than inputs are seldom meant as one
        return None
    # What somebody says of a source's kernels is said of what they compute together, if none of them does so alone.
    if options.computes and not any(_is_right_alone(source.of(one)) for one in _names(parts)):
        return card
    raise several_parts(source.path, kernel.entry, _names(parts), kernel.beside)


def _names(parts: Sequence[str]) -> list[str]:
    """The names by which kernels are judged alone: of a template that is launched once, no instantiation is chosen."""
    counts = Counter(one.partition("<")[0] for one in parts)
    return [one if counts[one.partition("<")[0]] > 1 else one.partition("<")[0] for one in parts]


def _is_right_alone(source: GivenSource) -> bool:
    """Whether one kernel of several, which is named, computes what the user says."""
    try:
        return right_alternative(_derived_card(*where_launched(source, kernel_of(source)))) is not None
    except WmmadiagError:
        return False


def _as_commented(source: GivenSource, kernel: SourceKernel) -> Card:
    """The card by the launch in a comment; by none of it where that makes the kernel right, as comments grow old."""
    plain = kernel_of(source, comments=False)
    made: list[Card | WmmadiagError] = []
    for one in (kernel, plain):
        try:
            card = _derived_card(source, one)
        except WmmadiagError as error:
            made.append(error)
            continue
        made.append(card)
        with contextlib.suppress(WmmadiagError):
            if right_alternative(card) is not None:
                return card
    found, without = made
    if isinstance(found, ConfigurationError):
        found = without
    if isinstance(found, WmmadiagError):
        raise found
    return found


def _derived_card(source: GivenSource, kernel: SourceKernel) -> Card:
    options, assumed = source.options, kernel.remarks
    beside = source.path.with_suffix(".toml")
    if beside.is_file():
        assumed += (f"what its source tells; it has a card: wmmadiag check {shlex.quote(str(beside))}",)
    if options.formulas:
        from wmmadiag.subject.drafts.stated.given import given_card

        return given_card(source, kernel, assumed)
    if options.computes:
        check_operation(options.computes)
        if not OPERATIONS[options.computes].judged:
            return _unjudged(source, kernel, assumed)
        return _card_or_tried(source, kernel, [options.computes], assumed)
    found = recognised_operation(kernel)
    tried: tuple[str, ...] = ()
    # What any operation may have as a part is told by little: a formula of the source's own tells more.
    if not found.sure or found.operation in WITHIN_ANY:
        said, tried = stated_card(source, kernel, assumed)
        if said is not None:
            return said
    if found.promised or not found.likely:
        operations = [found.operation] if found.promised else operations_of(found, kernel)
        card = tried_card(source, kernel, operations, assumed, found.promised)
        if card is None:
            raise asked(source.path, kernel.entry, found, tried, named=bool(options.entry))
        return card
    conjunction = "because" if found.sure else "although"
    taken = f"taken as {found.operation}, {conjunction} {found.because}; --computes says otherwise"
    operations = [found.operation] if found.sure else operations_of(found, kernel)
    if found.spoken:  # by name it is another operation than by its arrays: one of them is right, or nobody knows
        spoken = tried_card(source, kernel, [*found.spoken, found.operation], assumed)
        if spoken is not None:
            return spoken
    try:
        # What runs under no launch as what names and code tell may be another: an activation of its own, or of a gate.
        others = operations_of(found, kernel)[1:] if found.sure and kernel.launch is None else ()
        card = _card_or_tried(source, kernel, operations, assumed, taken, others, first=found.operation)
    except NotDerived as error:
        said = stated_card(source, kernel, assumed)[0] if found.sure else None
        if said is not None:
            return said
        # What an array is to an operation is no question where it is open whether that is the operation.
        if found.sure or all(one.option for one in error.drafted.open):
            raise
        refused = asked(source.path, kernel.entry, found, tried, named=bool(options.entry))
        refused.unfit = error.unfit
        raise refused from None
    return replace(card, derived=replace(card.derivation, doubt="" if found.sure else found.because))


def operations_of(found: Recognised, kernel: SourceKernel) -> list[str]:
    """The operations that a kernel may compute, the likeliest first."""
    from wmmadiag.compile.kernel_code import multiplies

    count = multiplies(kernel.code)
    # Arrays called input and output are those of many an operation: where the code is of another, that comes first.
    likely = found.likely and not against(found.operation, kernel.code, count)
    first = [*found.spoken, *([found.operation] if likely else [])]
    return list(dict.fromkeys([*first, *by_code(kernel.code, count)]))


def _card_or_tried(
    source: GivenSource,
    kernel: SourceKernel,
    operations: Sequence[str],
    assumed: tuple[str, ...],
    taken: str = "",
    others: Sequence[str] = (),
    first: str = "",
) -> Card:
    """The card by one operation; where that leaves something open, the one by which the kernel is right.

    Args:
        operations: that are tried, in their order. first: the likeliest, "" for the first of them.
        taken: why it is taken as the likeliest. others: operations that are tried where it is right by none of these.
    """
    first = first or operations[0]
    kernel, _ = with_given(source, kernel, first)
    drafted = draft(kernel, first, source.wishes)
    try:
        return card_of(source, kernel, drafted, (*assumed, *[taken] * bool(taken)))
    except ConfigurationError as error:
        nearest = Nearest()
        card = tried_card(source, kernel, operations, assumed, nearest=nearest, drafted_before=True)
        if card is None and not nearest.seen:  # it does not even run as what it seems to be
            card = tried_card(source, kernel, others, assumed) if others else None
        card = card or (nearest.best() if operations == [first] else None)
        if card is not None:
            return card
        if not isinstance(error, NotDerived):
            raise
        question = deciding(kernel, error.drafted, source.wishes)
        ran = f"of {len(nearest.seen)} meanings and launches with which it runs to its end none makes it right"
        assumed += (ran,) * bool(nearest.seen)
        assumed += (taken,) * bool(taken)
        refused = not_derived(error.drafted, source.path, assumed, stages_of(kernel), question)
        refused.unfit = operations[0] if nearest.telling else ""
        raise refused from None


def _unjudged(source: GivenSource, kernel: SourceKernel, assumed: tuple[str, ...]) -> Card:
    """The card of a kernel of which nothing is expected: as host code launches it, arrays as long as it makes them."""
    path, operation = source.path, source.options.computes
    text = plain_card(kernel, path.name, path.stem, source.wishes, operation)
    missing = todos(text)
    if missing:
        raise ConfigurationError(
            f"{path}: host code does not tell {', '.join(missing)} of the kernel '{kernel.entry}'",
            detail="\n".join(f"  {one}" for one in assumed),
            hint=f"write a card with `wmmadiag init {shlex.quote(str(path))} --computes {operation}` and fill in its "
            "TODOs",
        )
    return parsed_card(text, source, assumed)


def drafted_text(path: Path, card_path: Path, options: SubjectOptions) -> str:
    """The text of a card for a source, to be completed by the user; what is unknown says TODO.

    Raises: as `derived_card`.
    """
    if is_ptx(path):
        from wmmadiag.subject.drafts.from_ptx import ptx_draft

        return ptx_draft(path, card_path, options)
    from wmmadiag.compile.kernel_code import multiplies

    kernel = kernel_of(GivenSource(path, options))
    remarks = list(kernel.remarks)
    operation = options.computes
    if options.formulas:
        said = f"formula = [{', '.join(quoted(one.strip()) for one in options.formulas if '=' in one)}]"
        relative = Path(os.path.relpath(path, card_path.parent)).as_posix()
        return plain_card(kernel, relative, path.stem, operation="none").replace('operation = "none"', said)
    if operation and operation != "python":
        check_operation(operation)
    relative = Path(os.path.relpath(path, card_path.parent)).as_posix()
    if not operation:
        found = recognised_operation(kernel)
        if not found.likely and not multiplies(kernel.code):  # any operation would be a guess
            return plain_card(kernel, relative, path.stem)
        taken = f"taken as {found.operation}, because" if found.sure else opinion(found)
        remarks.append(f"{taken} {found.because}; --computes says otherwise")
        operation = found.operation
    if operation == "python":
        return plain_card(kernel, relative, path.stem)
    if not OPERATIONS[operation].judged:
        return plain_card(kernel, relative, path.stem, operation=operation)
    drafted = draft(kernel, operation)
    drafted.remarks[:0] = remarks
    ask_reaches(drafted)
    return draft_text(drafted, relative, path.stem, cases(drafted, {}))
