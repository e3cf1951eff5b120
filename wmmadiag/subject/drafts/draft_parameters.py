"""What an operation's parameters are in a draft: numbers that the kernel gets, formulas in its code, types of sums."""

from __future__ import annotations

from collections.abc import Collection

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.code_facts import accumulator_types, told_by_formulas
from wmmadiag.subject.drafts.guess import number_behind, value_for
from wmmadiag.subject.drafts.in_place import mark_updated, written_over
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import TODO, CardDraft, DraftArgument, Open, Wishes
from wmmadiag.subject.drafts.numbers import (
    hold_one_number,
)
from wmmadiag.subject.drafts.recognise import named_words

_HALF = frozenset({"half", "__half", "f16"})


def give_parameters(result: CardDraft, kernel: SourceKernel, wishes: Wishes) -> None:
    """What the operation's parameters are: numbers that the kernel gets, formulas in its code, types of its sums."""
    known = OPERATIONS[result.operation]
    named = {value_for(one.parameter.name, result.operation) for one in result.arguments if not one.parameter.pointer}
    named |= {number_behind(one.parameter, result.operation) for one in result.arguments if one.parameter.pointer}
    for name, parameter in known.parameters.items():
        if parameter.drafted and name in named:
            result.computes[name] = name
        for role in parameter.factor_of.split():
            if role not in {one.role for one in result.arguments}:
                written_over(result, role, name, name in named, kernel)
            elif name not in named and name not in result.computes:
                result.computes[name] = "1"
                result.remarks.append(f"'{_name_of(result, role)}' is added, since there is no {name}")
    own = named_words(kernel.entry, result.operation)
    formulas = told_by_formulas(result.operation, kernel.code)
    for name, begins in own.items():
        if name not in result.computes and not formulas.get(name, "").startswith(begins):
            result.computes[name] = next(one for one in known.parameters[name].words if one.startswith(begins))
            result.remarks.append(f"the {name} is {result.computes[name]}, as the kernel's name has it")
    for name, word in formulas.items():
        if name not in result.computes:
            result.computes[name] = word
            formula = f"the {name} is {word}, as the source has its formula"
            result.remarks.append(formula if known.parameters[name].words else f"{name} = {word}, as the code shows")
    sums = accumulator_types(kernel.code)
    if "accumulate" in known.parameters and sums and sums <= _HALF:
        result.computes["accumulate"] = "f16"
        result.remarks.append("sums are kept in f16, as the source's accumulators are")
    _by_instantiation(result, kernel, named)
    _by_elements(result)
    mark_updated(result, kernel.code)
    for argument in result.arguments:
        hold_one_number(result, argument)
        _open_term(result, argument, wishes)


def _by_instantiation(result: CardDraft, kernel: SourceKernel, named: Collection[str | None]) -> None:
    """Flags and numbers among template parameters. `named`: parameters that the kernel gets as numbers.

    A flag that it gets besides is what the instantiation was chosen by.
    """
    for name, parameter in OPERATIONS[result.operation].parameters.items():
        told = (value for one, value in kernel.constants.items() if value_for(one, result.operation) == name)
        constant = next(told, None) if parameter.kind in ("flag", "int") else None
        if constant is None or (name in named and parameter.default != name):
            continue
        if parameter.default == name:
            result.fixed[name] = str(int(constant))
        elif parameter.kind == "int" and constant >= 1:
            result.computes.setdefault(name, str(int(constant)))


def _by_elements(result: CardDraft) -> None:
    """Parameters that follow from the type of an array's elements: how many values a byte holds."""
    for name, parameter in OPERATIONS[result.operation].parameters.items():
        role, by_type = parameter.by_element or ("", {})
        held = result.holding(role)
        if held is not None and held.dtype in by_type and name not in result.computes:
            result.computes[name] = by_type[held.dtype]


def _name_of(result: CardDraft, role: str) -> str:
    held = result.holding(role)
    return held.parameter.name if held is not None else role


def _open_term(result: CardDraft, argument: DraftArgument, wishes: Wishes) -> None:
    """What the name of an array that is spread over axes, of a mask or of lengths leaves open."""
    role = OPERATIONS[result.operation].roles.get(argument.role)
    name = argument.parameter.name
    if role is None or "S" not in role.axes + ("S" if argument.role == "lengths" else ""):
        return
    if argument.role in wishes.layouts:
        argument.layout = wishes.layouts[argument.role]
    elif role.usual and argument.role in ("bias", "mask"):
        argument.layout = TODO
        why = 'nothing tells which of the axes B, H, S (queries) and K (keys) it has in memory: "SK", "HSK", "BK", …'
        result.open.append(Open(f"the layout of '{name}'", why, "storage"))
    if argument.role == "mask" and wishes.hides is not None:
        result.computes["mask_hides"] = str(int(wishes.hides))
    elif argument.role == "mask":
        why = "mask_hides = true in [computes] if 1 hides a key"
        result.open.append(Open(f"the meaning of '{name}'", why, "storage"))
    if argument.role == "lengths" and role.usual and "Sq" in OPERATIONS[result.operation].symbols:
        why = (
            "taken for how many keys each batch has, every query computed; for packed sequences describe the kernel by "
            "a Python function (`wmmadiag init` with --computes python)"
        )
        result.open.append(Open(f"the role of '{name}'", why, "role"))
