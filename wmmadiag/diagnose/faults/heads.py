"""Another head or batch than meant, and tensors whose axes lie otherwise in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Lead, Problem, Rows, Source
from wmmadiag.diagnose.faults.registry import fault_model

LeadMap = Callable[[Problem, str, Lead], Lead]
"""(problem, role, (batch, head) of the output) → (batch, head) of the operand."""


def _head(problem: Problem, role: str, lead: Lead, head: int) -> Lead:
    """A fixed head; negative ones count from the last."""
    return problem.source_lead(role, lead)[0], head % problem.arrays[role].shape[1]


def _head_plus(problem: Problem, role: str, lead: Lead, step: int) -> Lead:
    batch, head = problem.source_lead(role, lead)
    return batch, (head + step) % problem.arrays[role].shape[1]


def _head_mirrored(problem: Problem, role: str, lead: Lead) -> Lead:
    batch, head = problem.source_lead(role, lead)
    return batch, problem.arrays[role].shape[1] - 1 - head


def _modulo(problem: Problem, role: str, lead: Lead) -> Lead:
    return lead[0] % problem.arrays[role].shape[0], lead[1] % problem.arrays[role].shape[1]


def _clamped(problem: Problem, role: str, lead: Lead) -> Lead:
    return lead[0] % problem.arrays[role].shape[0], min(lead[1], problem.arrays[role].shape[1] - 1)


def _ungrouped(problem: Problem, role: str, lead: Lead) -> Lead:
    # h·S·D into a tensor of fewer heads runs on into the next batch.
    return _flat_lead(problem, role, lead[0] * problem.arrays[role].shape[1] + lead[1])


def _query_batch(problem: Problem, role: str, lead: Lead) -> Lead:
    heads, outer = problem.arrays[role].shape[1], problem.observed.shape[1]
    return _flat_lead(problem, role, lead[0] * outer + lead[1] * heads // outer)


def _batch(problem: Problem, role: str, lead: Lead, keep: int, step: int) -> Lead:
    return (lead[0] * keep + step) % problem.arrays[role].shape[0], problem.source_lead(role, lead)[1]


def _sum(problem: Problem, role: str, lead: Lead) -> Lead:
    return _flat_lead(problem, role, lead[0] + lead[1])


def _exchanged(problem: Problem, role: str, lead: Lead) -> Lead:
    return _flat_lead(problem, role, lead[1] * problem.arrays[role].shape[0] + lead[0])


def _maps(problem: Problem) -> Iterator[tuple[str, str, LeadMap]]:
    batches, heads = problem.observed.shape[:2]
    narrow = min(array.shape[1] for array in problem.arrays.values())
    if heads > 1:
        yield "head-0", "of head 0", partial(_head, head=0)
        yield "head+1", "of head h+1", partial(_head_plus, step=1)
        yield "head-1", "of head h-1", partial(_head_plus, step=-1)
        yield "head-last", "of the last head", partial(_head, head=-1)
        yield "head-mirrored", "of head H-1-h", _head_mirrored
    if narrow < heads:
        yield "gqa-modulo", "of head h mod Hkv instead of h div (H/Hkv)", _modulo
        yield "gqa-clamped", "of head min(h, Hkv-1)", _clamped
        yield "gqa-ignored", "of head h (the grouping is ignored)", _ungrouped
        yield "gqa-query-batch", "with the query's head count in the batch offset", _query_batch
    if batches > 1:
        yield "batch-0", "of batch 0", partial(_batch, keep=0, step=0)
        yield "batch+1", "of batch b+1", partial(_batch, keep=1, step=1)
    if batches > 1 and heads > 1:
        yield "batch-stride-missing", "at b + h instead of b·H + h", _sum
        yield "batch-head-exchanged", "at h·B + b instead of b·H + h", _exchanged


def _flat_lead(problem: Problem, role: str, number: int) -> Lead:
    batches, heads = problem.arrays[role].shape[:2]
    number %= batches * heads
    return number // heads, number % heads


def with_leads(roles: tuple[str, ...], lead_of: LeadMap) -> Prediction:
    """The oracle with some operands taken from another (batch, head)."""

    def source(role: str) -> Source:
        return lambda problem, lead: problem.arrays[role][lead_of(problem, role, lead)]

    def predict(rows: Rows) -> Doubles:
        return rows.using(**{role: source(role) for role in roles}).output

    return predict


@fault_model("attention", "qkt", "pv", "gemm", rank=22)
def other_heads(problem: Problem) -> Iterator[Candidate]:
    """Operands, or the output, of another head or batch."""
    if len(problem.leads) < 2:
        return
    roles = tuple(role for role, array in problem.arrays.items() if array.shape[0] * array.shape[1] > 1)
    grouped = tuple(role for role in roles if problem.arrays[role].shape[1] < problem.observed.shape[1])
    for name, words, lead_of in _maps(problem):
        chosen = grouped if name.startswith("gqa") else roles
        for count in range(1, len(chosen) + 1):
            for some in combinations(chosen, count):
                what = " and ".join(role.upper() for role in some)
                yield Candidate(
                    "tensor-strides",
                    f"{name}-{'-'.join(some)}",
                    f"{what} {'is' if count == 1 else 'are'} read {words}",
                    with_leads(some, lead_of),
                    {"operands": " ".join(some)},
                    looser=2.0,
                )


_ORDERS: Mapping[str, tuple[int, ...]] = {"BSHD": (0, 2, 1, 3), "SBHD": (2, 0, 1, 3), "HBSD": (1, 0, 2, 3)}


def with_order(roles: tuple[str, ...], order: tuple[int, ...], memory: Mapping[str, str]) -> Prediction:
    """The oracle with operands whose (B, H, S, D) memory is read in another order of axes.

    Args:
        memory: how each role's axes lie really, as letters; as many as the operand has.
    """

    def source(role: str) -> Source:
        def matrix(problem: Problem, lead: Lead) -> Doubles:
            array = problem.arrays[role]
            lies = tuple("BHSD".index(letter) for letter in memory[role])
            flat = array.transpose(lies).reshape(-1)
            shape = tuple(array.shape[axis] for axis in order)
            read: Doubles = flat.reshape(shape).transpose(np.argsort(order))
            result: Doubles = read[problem.source_lead(role, lead)]
            return result

        return matrix

    def predict(rows: Rows) -> Doubles:
        return rows.using(**{role: source(role) for role in roles}).output

    return predict


@fault_model("attention", "qkt", "pv", rank=23)
def other_axes(problem: Problem) -> Iterator[Candidate]:
    """BSHD read as BHSD, and the reverse."""
    memory = {role: _memory(problem, role) for role in problem.arrays}
    roles = tuple(role for role, array in problem.arrays.items() if role != "p" and np.prod(array.shape[:3]) > 1)
    orders = {"BHSD": (0, 1, 2, 3), **_ORDERS}
    for name, order in orders.items():
        for count in range(1, len(roles) + 1):
            for some in combinations(roles, count):
                if any(not memory[role] or _same(problem.arrays[role].shape, memory[role], name) for role in some):
                    continue
                what = ", ".join(role.upper() for role in some)
                yield Candidate(
                    "tensor-strides",
                    f"read-as-{name}-{'-'.join(some)}",
                    f"{what} {'is' if count == 1 else 'are'} read as {name}, but stored as {memory[some[0]]}",
                    with_order(some, order, memory),
                    {"order": name, "operands": " ".join(some)},
                    looser=2.0,
                )


def _memory(problem: Problem, role: str) -> str:
    """The order of a role's axes in memory, "" where they are not packed or fewer than four."""
    placement = problem.bound.argument_of(role).placements[role]
    if len(placement.shape) != 4:
        return ""
    order = sorted(range(4), key=lambda axis: (-placement.strides[axis], -placement.shape[axis], axis))
    step = 1
    for axis in reversed(order):
        if placement.shape[axis] != 1 and placement.strides[axis] != step:
            return ""
        step *= placement.shape[axis]
    return "".join("BHSD"[axis] for axis in order)


def _same(shape: tuple[int, ...], one: str, other: str) -> bool:
    """Whether two orders differ in axes of extent 1 alone."""

    def kept(letters: str) -> str:
        return "".join(letter for letter in letters if shape["BHSD".index(letter)] > 1)

    return kept(one) == kept(other)


def with_output_order(roles: tuple[str, ...], order: tuple[int, ...], memory: Mapping[str, str]) -> Prediction:
    """The oracle (operands `roles` read in another order, too) whose output is written in another order of axes."""
    reading = with_order(roles, order, memory)

    def predict(rows: Rows) -> Doubles:
        problem = rows.problem
        whole = problem.expected
        if roles:
            whole = np.stack([reading(problem.all_rows(lead)) for lead in problem.leads]).reshape(whole.shape)
        lies = tuple("BHSD".index(letter) for letter in memory[problem.role])
        stored = whole.transpose(order).reshape([whole.shape[axis] for axis in lies])
        written: Doubles = stored.transpose(np.argsort(lies))
        result: Doubles = written[rows.lead][rows.index]
        return result

    return predict


@fault_model("attention", "pv", rank=24)
def output_axes(problem: Problem) -> Iterator[Candidate]:
    """The output alone, or every tensor, in another order of axes."""
    memory = {role: _memory(problem, role) for role in (*problem.arrays, problem.role)}
    if not all(memory[role] for role in memory if role != "p"):
        return
    own = memory[problem.role]
    roles = tuple(role for role in problem.arrays if role != "p")
    for name, order in {"BHSD": (0, 1, 2, 3), **_ORDERS}.items():
        if _same(problem.observed.shape, own, name):
            continue
        yield Candidate(
            "tensor-strides",
            f"written-as-{name}",
            f"the result is written as {name}, but meant as {own}",
            with_output_order((), order, memory),
            {"order": name},
        )
        if problem.observed.size <= 1 << 18:
            yield Candidate(
                "tensor-strides",
                f"all-as-{name}",
                f"every tensor is taken as {name}, but lies as {own}",
                with_output_order(roles, order, memory),
                {"order": name},
                looser=2.0,
            )
