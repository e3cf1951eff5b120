"""What a draft says of a kernel's pointers: roles, types, how they lie in memory, and what host code puts there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.c_expressions import CannotTranslate, HostScope, translate
from wmmadiag.subject.drafts.guess import Parameter, role_remark, roles_for, value_for
from wmmadiag.subject.drafts.host_scope import Launched, passed_variable
from wmmadiag.subject.drafts.host_tensors import TensorAxes, axis_letter, layout_of_strides
from wmmadiag.subject.drafts.model import TODO, Draft, DraftArgument, is_input
from wmmadiag.subject.drafts.source_facts import host_tensor
from wmmadiag.subject.dtypes import element_type


def roles_of_pointers(result: Draft, parameters: Sequence[Parameter], tf32: bool) -> None:
    """A role and an element type for each pointer.

    Args:
        tf32: whether the kernel rounds f32 inputs to tf32.
    """
    found = [parameter for parameter in parameters if parameter.pointer]
    for parameter, role in zip(found, roles_for(found, result.operation), strict=True):
        argument = DraftArgument(parameter, role=role or TODO)
        element = element_type(parameter.dtype or "")
        if element is not None:
            argument.dtype = "tf32" if element.name == "f32" and tf32 and is_input(result, role) else element.name
        if element is None:
            result.open.append((f"the dtype of '{parameter.name}'", f"its C type is '{parameter.c_type}'"))
        result.arguments.append(argument)


def terms_of_scores(result: Draft) -> None:
    """A softcap that the kernel takes; and what the names of a bias, a mask or lengths leave open."""
    if any(value_for(parameter.name, result.operation) == "softcap" for parameter in result.numbers):
        result.computes["softcap"] = "softcap"
    for argument in result.arguments:
        name = argument.parameter.name
        if argument.role in ("bias", "mask"):
            argument.layout = TODO
            why = (
                'nothing tells which of the axes B, H, S (queries) and K (keys) it has in memory: "SK", "HSK", "BK", …'
            )
            result.open.append((f"the layout of '{name}'", why))
        if argument.role == "mask":
            result.open.append((f"the meaning of '{name}'", "mask_hides = true in [computes] if 1 hides a key"))
        if argument.role == "lengths":
            why = (
                "taken for how many keys each batch has, every query computed; for packed sequences describe the "
                "kernel by a Python function (`wmmadiag init` with --computes python)"
            )
            result.open.append((f"the role of '{name}'", why))


# What a kernel that lacks a role of attention may be instead.
_STAGES = {"v": "qkt", "o": "qkt", "q": "pv", "k": "pv or softmax"}


def missing_roles(result: Draft) -> None:
    """Operands that no parameter is left for: an array for each of them is what the operation needs."""
    covered = {"qkv": {"q", "k", "v"}, "kv": {"k", "v"}}
    present = set().union(*(covered.get(argument.role, {argument.role}) for argument in result.arguments))
    for name, role in OPERATIONS[result.operation].roles.items():
        replaced_by_c = result.operation == "gemm" and name == "d" and "c" in present
        if role.required and name not in present and not replaced_by_c and TODO not in present:
            other = _STAGES.get(name) if result.operation == "attention" else None
            hint = f"; a kernel for one stage of attention has --computes {other}" if other else ""
            result.open.append((f"the role '{name}' of {result.operation}", f"no array is left for it{hint}"))


def layouts_of_tensors(result: Draft, axes: TensorAxes) -> None:
    """The layout that host code gives the tensors."""
    for role in sorted(axes.transposed):
        result.computes[f"transpose_{role}"] = "1"
        stored = {"a": "KxM", "b": "NxK"}[role]
        result.remarks.append(f"{role.upper()} is stored as {stored}, as the sizes that the source reads off it say")
    layout = axes.card_layout()
    shaped = [argument for argument in result.arguments if argument.role in ("q", "k", "v", "o")]
    packed = [argument for argument in result.arguments if argument.role in ("qkv", "kv")]
    for argument in packed:
        argument.layout = axes.packed
    if packed and packed[0].role == "qkv" and shaped and not axes.known:
        # What is packed as BS3HD is unpacked as BSHD.
        shaped[0].layout = (axes.packed or "BS3HD").replace("3", "")
        result.remarks.append(f"'{shaped[0].parameter.name}' lies as {shaped[0].layout}, like the packed operands")
    if axes.known and shaped:
        for argument in shaped:
            argument.layout = layout
        if layout == "BHSD":
            return
        result.remarks.append(f"tensors lie as {layout}, as the sizes that the source reads off them say")


def layouts_by_strides(result: Draft) -> None:
    """The layout that the strides say which host code passes."""
    passed = {one.parameter.name: one.value for one in result.arguments if one.reason.startswith("the source passes")}
    layout = layout_of_strides(passed, result.operation)
    shaped = [argument for argument in result.arguments if argument.role in ("q", "k", "v", "o")]
    if layout and any((argument.layout or "BHSD") != layout for argument in shaped):
        for argument in shaped:
            argument.layout = layout
        result.remarks.append(f"tensors lie as {layout}, as the strides that the source passes say")


def memory(
    result: Draft, argument: DraftArgument, index: int, launch: Launched | None, scope: HostScope, source: str
) -> None:
    """How host code makes an output or a workspace: its initial value and size."""
    fact = None
    if launch is not None and index < len(launch.arguments):
        passed = passed_variable(launch.arguments[index].text)
        fact = host_tensor(source, passed) if passed else None
    if argument.role != TODO and (fact is None or is_input(result, argument.role)):
        return
    if argument.role == "o" and fact is not None and len(fact.sizes) == 4 and result.operation != "gemm":
        letters = "".join(axis_letter(size, scope) for size in fact.sizes)
        argument.layout = letters if sorted(letters) == sorted("BHSD") else argument.layout
    if fact is not None and fact.fill:
        fill = fact.fill.replace("std::numeric_limits<float>::infinity()", "INFINITY")
        with contextlib.suppress(CannotTranslate):
            argument.initial = translate(fill, HostScope({"INFINITY": "inf"}, scope.definitions))
    if argument.role != TODO:
        return
    if fact is not None and fact.sizes and not argument.parameter.const:
        with contextlib.suppress(CannotTranslate):
            argument.size = "*".join(f"({translate(size, scope)})" for size in fact.sizes)
            argument.role = "workspace"
            result.remarks.append(f"'{argument.parameter.name}' is a workspace, as the source makes it")
            return
    remark = role_remark(argument.parameter.name) or "no input or output is left for it"
    result.open.append((f"the role of '{argument.parameter.name}'", remark))
