"""Parameters that say in which types a kernel computes, and the questions that a source may leave open about them."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ops.model import Alternative, Choice, Parameter, ParameterKind
from wmmadiag.ops.parts.epilogue import FORMULAS, FUNCTIONS, GATES

FLOAT_TYPES = ("f16", "bf16", "tf32", "f32", "f64")

PRODUCTS: Mapping[str, Parameter] = {
    "accumulate": Parameter(
        "word",
        "auto",
        "type of the sums (auto is f32, of f64 f64, of integers s32; f16 for half accumulators)",
        ("auto", "f13", "f16", "f32", "f64", "parts", "s32"),
    ),
    "accumulate_step": Parameter("int", "8", "products that one rounding of an f16 sum covers (1: scalar half code)"),
    "multiply": Parameter("word", "auto", "type that operands are rounded to first", ("auto", *FLOAT_TYPES)),
}
"""Of matrix products."""

EXPONENTIALS: Mapping[str, Parameter] = {
    "exp_dtype": Parameter("word", "f32", "type of the exponentials", ("f16", "bf16", "f32", "f64"))
}


STEPS: Mapping[str, Parameter] = {
    "steps": Parameter("word", "any", "the type of each step; any: the working type, f32 or f64", ("any", "as-stored"))
}
NARROW = ("auto", "f16", "bf16")


def narrow_type(what: str) -> Parameter:
    """The type that something is rounded to; "auto" where that is the working type."""
    return Parameter("word", "auto", what, NARROW)


def epilogue(what: str = "bias and activation") -> dict[str, Parameter]:
    """The parameters of what follows a product."""
    return {
        "activation": Parameter("word", "none", "applied to the sum, bias included", (*FUNCTIONS,), formulas=FORMULAS),
        "epilogue_dtype": narrow_type(f"type that the sum has before {what}"),
    }


def by_value(
    question: str,
    kind: ParameterKind,
    parameter: str,
    answers: Mapping[str, str],
    *roles: str,
    types: tuple[str, ...] = (),
) -> Choice:
    """A question that one parameter answers. `answers`: name → its value."""
    return Choice(
        question, kind, tuple(Alternative(name, {parameter: answers[name]}) for name in answers), roles, types
    )


def by_settings(question: str, answers: Mapping[str, Mapping[str, str]]) -> Choice:
    """A question about what is computed. `answers`: name → what parameters are then."""
    return Choice(question, "meaning", tuple(Alternative(name, answers[name]) for name in answers))


def by_flag(question: str, flag: str, unset: str, is_set: str, *roles: str) -> Choice:
    """A question about what is computed that a flag answers. `unset`, `is_set`: what it says."""
    return by_value(question, "meaning", flag, {unset: "0", is_set: "1"}, *roles)


def by_layout(question: str, answers: Mapping[str, Mapping[str, str]], *roles: str) -> Choice:
    """A question about where elements lie. `answers`: name → the order of the axes by role."""
    return Choice(question, "storage", tuple(Alternative(name, layouts=answers[name]) for name in answers), roles)


def weights_lie(name: str, role: str, order: str, each: str = "") -> Choice:
    """How a matrix of weights lies. `order`: as nn.Linear has it, the axes last; `each`: what its name follows."""
    lead, first, second = order[:-2], order[-2], order[-1]
    answers = {
        f"{each}{name} stored as {first}×{second}, as nn.Linear has it": {role: order},
        f"{each}{name} stored as {second}×{first}": {role: lead + second + first},
    }
    return by_layout(f"How does {name} lie?", answers, role)


def added_to_output(what: str) -> Choice:
    """Whether a result replaces what the output held, or is added to it by `beta`."""
    return Choice(
        f"Is {what} added to what the output held before?",
        "meaning",
        (
            Alternative("the output written without being read", {"beta": "0"}, updated=False),
            Alternative(f"{what} added to what the output held", {"beta": "1"}, updated=True),
        ),
    )


def sums_kept_in(operand: str) -> Choice:
    """In which type the products of a half operand are summed. `operand`: the role of the left one."""
    return by_value(
        "In which type are the products summed?",
        "arithmetic",
        "accumulate",
        {"sums kept in f32": "auto", "sums kept in f16": "f16"},
        operand,
        types=("f16",),
    )


def parts_added_in(output: str) -> Choice:
    """Whether parts of the depth are added in the output itself, of halves: by atomics, or one after the other."""
    return by_value(
        "Are parts of the sum added in the output?",
        "arithmetic",
        "accumulate",
        {"the whole sum rounded once": "auto", "parts of the sum added in the output's f16": "parts"},
        output,
        types=("f16",),
    )


def bytes_summed_in(operand: str) -> Choice:
    """In which type the products of an FP8 operand are summed: the unit that sm_89 has for them keeps 13 bits."""
    return by_value(
        "In which type are the products of bytes summed?",
        "arithmetic",
        "accumulate",
        {"sums kept in f32": "auto", "sums kept in 13 bits, as sm_89's unit for FP8 has them": "f13"},
        operand,
        types=("e4m3", "e5m2"),
    )


def inputs_rounded(operand: str) -> Choice:
    """To which type a kernel that gets f32 rounds what it multiplies. `operand`: the role of the left operand."""
    rounded = {f"inputs rounded to {name} first": name for name in ("tf32", "f16", "bf16")}
    return by_value(
        "To which type are the inputs rounded before they are multiplied?",
        "arithmetic",
        "multiply",
        {"inputs multiplied as they are": "auto", **rounded},
        operand,
        types=("f32", "f64"),
    )


def kept_in(operand: str, what: str, parameter: str, usual: str, *others: str) -> Choice:
    """In which type an intermediate is kept, of a kernel whose `operand` is narrow; `usual` is the working type."""
    return by_value(
        f"In which type are {what} kept?",
        "arithmetic",
        parameter,
        {f"{what} kept in the working type": usual, **{f"{what} kept in {other}": other for other in others}},
        operand,
        types=("f16", "bf16"),
    )


def steps_kept_in(operand: str) -> Choice:
    """In which type each step of a kernel is, whose `operand` is narrow."""
    return by_value(
        "In which type is each step?",
        "arithmetic",
        "steps",
        {"steps in the working type": "any", "steps in the type of the elements": "as-stored"},
        operand,
        types=("f16", "bf16"),
    )


def types_of_products(operand: str) -> tuple[Choice, ...]:
    """In which types operands are multiplied, and products summed; `operand`: the role of the left one."""
    return sums_kept_in(operand), inputs_rounded(operand)


def types_before_epilogue(operand: str) -> tuple[Choice, ...]:
    """These, and in which type sums are kept before an epilogue."""
    kept = kept_in(operand, "sums before the epilogue", "epilogue_dtype", *NARROW)
    return *types_of_products(operand), kept


WHICH_ACTIVATION = by_value(
    "What is applied to the sum?",
    "meaning",
    "activation",
    {"no activation" if name == "none" else f"the activation {name}": name for name in FUNCTIONS},
)
EACH_B_STORED = by_layout(
    "How is B stored?",
    {"each B stored as K×N": {"b": "GKN"}, "each B stored as N×K, as nn.Linear has it": {"b": "GNK"}},
    "b",
)
"""Of groups."""
WHICH_GATE = by_value(
    "What is the activation of the gate?",
    "meaning",
    "gating",
    {f"{name}: a gate of {gate.meaning}": name for name, gate in GATES.items()},
)
B_STORED = by_value(
    "How is B stored?",
    "storage",
    "transpose_b",
    {"B stored as K×N": "0", "B stored as N×K, as nn.Linear has it": "1"},
    "b",
)
