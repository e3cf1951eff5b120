"""What a kernel seems to compute: from its arrays' names, its own name and what its code calls.

Taken only where everything agrees: a kernel that is judged by another operation than its own is wrong by definition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from wmmadiag.subject.drafts.guess import Parameter, operation_named, role_named, role_remark, roles_for
from wmmadiag.subject.drafts.source_facts import activation
from wmmadiag.subject.operations import OPERATIONS

_WORDS = {
    "attention": "attn attention flash fmha mha sdpa fa flashattn flashattention",
    "gemm": "gemm matmul mm hgemm sgemm bgemm igemm wgemm matrixmultiply matmult mmult bmm multiply linear",
    "softmax": "softmax",
    "qkt": "qk qkt",
    "pv": "pv",
}
# The running sum and maximum of a flash attention, as its paper calls them: workspaces of the kernel's own.
_RUNNING = ["l", "m"]
# What an operation consists of, which its kernel's name may speak of, too.
_PARTS = {"attention": ("gemm", "softmax", "qkt", "pv"), "qkt": ("gemm", "attention"), "pv": ("gemm", "attention")}
# Words of names of kernels that compute more, or something else, than an operation of the list.
_ELSE = (
    "conv conv2d conv3d implicit im2col winograd fft fir stencil scan reduce norm layernorm rmsnorm rope bwd backward "
    "grad dgrad wgrad dq dk dv dkv dequant quant w4a16 w8a8 int4 moe grouped expert sparse spmm sddmm splitk splitkv "
    "combine merge paged decode varlen sliding window alibi swiglu geglu residual dropout lora syrk trsm cholesky lu "
    "qr complex cgemm linearattn mamba ssm"
)
# Such a GEMM is one where its activation's formula, or its bias, is to be seen.
_EPILOGUE = "bias relu gelu silu act activation epilogue fused"
_EXP = re.compile(r"\b(?:\w+_)?h?2?exp(?:2|10)?f?(?:_approx\w*|_fast\w*)?\s*\(|\bex2\s*\.\s*approx", re.IGNORECASE)
_ACTIVATION = re.compile(
    r"\b(?:__)?(?:tanh|erf|erfc|gelu|silu|sigmoid|relu|leaky_relu|log|log2|rsqrt|sqrt|cos|sin|pow)f?\s*\("
    r"|tanh\s*\.\s*approx|\bf?max[fn]?\s*\(\s*(?:[^(),]+,\s*0(?:\.0?)?f?|0(?:\.0?)?f?\s*,[^(),]+)\s*\)"
    r"|\b(\w[\w.\[\]\s]{0,80})>\s*0(?:\.\d*f?)?\s*\?\s*\1",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """An operation that a kernel seems to compute.

    Attributes:
        operation: the likeliest; where nothing speaks for any, the one that a draft begins with.
        sure: whether everything agrees; if not, `because` says what is amiss.
        because: a clause for a message.
        likely: whether its name or its arrays speak for the operation at all.
    """

    operation: str
    sure: bool
    because: str
    likely: bool = True


def recognised(entry: str, parameters: Sequence[Parameter], code: str, multiplications: int) -> Recognised:
    """The operation that a kernel seems to compute.

    Args:
        entry: its name, template arguments aside.
        parameters: with structs taken apart.
        code: what it runs, as `wmmadiag.compile.kernel_code` gives it; "" if that is not known.
        multiplications: how many places of that multiply on tensor cores.
    """
    pointers = [one for one in parameters if one.pointer]
    names = [one.name for one in pointers]
    words = _words(entry)
    speaks_of = [one for one, known in _WORDS.items() if words & set(known.split())]
    by_arrays = operation_named(names)
    by_arrays = by_arrays if _named(names, by_arrays) else ""
    # All arrays of one operation say more than a name that also speaks of what it is a part of: `attn_scores(q, k, s)`.
    part = len(speaks_of) == 1 and by_arrays != speaks_of[0] and speaks_of[0] in _PARTS.get(by_arrays, ())
    likely = by_arrays if len(speaks_of) != 1 or part else speaks_of[0]
    if not likely and not speaks_of:
        return Recognised("attention", False, "neither its name nor those of its arrays tell", likely=False)
    likely = likely or speaks_of[0]
    by_name = likely if likely in speaks_of else ""
    if others := [one for one in speaks_of if one not in (likely, *_PARTS.get(likely, ()))]:
        return Recognised(likely, False, f"its name speaks of {others[0]}")
    amiss = _amiss(likely, pointers, words, by_name, code, multiplications)
    if amiss:
        return Recognised(likely, False, amiss)
    return Recognised(likely, True, _because(likely, names, by_name, code, multiplications))


def _words(entry: str) -> set[str]:
    plain = entry.split("<")[0].split("::")[-1]
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()
    words = plain.split("_")
    pairs = {one + other for one, other in pairwise(words)}  # split_k
    return {*words, *pairs, plain.replace("_", "")}


def _named(names: Sequence[str], operation: str) -> bool:
    """Whether the inputs of an operation are all among the names."""
    roles = {role_named(name, operation) for name in names} - {None}
    covered = roles | {part for packed in roles & {"qkv", "kv"} for part in str(packed)}
    known = OPERATIONS[operation].roles
    return {name for name, role in known.items() if role.required and not role.output} <= covered


def _amiss(
    operation: str, pointers: Sequence[Parameter], words: set[str], by_name: str, code: str, multiplications: int
) -> str:
    """What does not agree with an operation, as a clause; "" if everything does."""
    names = [one.name for one in pointers]
    if not code:
        return "its code is not in the source"
    epilogue = activation(code) if operation == "gemm" else "none"
    if other := sorted(words & set(_ELSE.split() + ([] if _ends(operation, names, epilogue) else _EPILOGUE.split()))):
        return f"its name has '{other[0]}', which no built-in operation is about"
    if strange := [name for name in names if role_remark(name) and role_named(name, operation) is None]:
        return f"its array '{strange[0]}' is no operand of any built-in operation"
    roles = roles_for(pointers, operation)
    unknown = [name for name, role in zip(names, roles, strict=True) if role is None]
    if unknown and not (operation == "attention" and sorted(unknown) == _RUNNING):
        return f"nothing says what its array '{unknown[0]}' is"
    known = OPERATIONS[operation].roles
    covered = {part for role in roles for part in ({"qkv": "qkv", "kv": "kv"}.get(role or "", ""))} | set(roles)
    missing = [
        name
        for name, role in known.items()
        if role.required and name not in covered and not (name == "d" and "c" in covered)
    ]
    if missing:
        return f"it has no array for '{missing[0]}'"
    if not _named(names, operation) and by_name != operation:
        return "neither its name nor those of its arrays say so"
    exponentials = bool(_EXP.search(code))
    if operation in ("attention", "softmax") and not exponentials:
        return "it calls no exponential"
    if operation in ("gemm", "qkt", "pv") and epilogue == "none":
        if exponentials:
            return "it calls an exponential, which such a product does not need"
        if extra := _ACTIVATION.search(code):
            return f"it calls {extra[0].split('(')[0].strip() or 'something'}, which such a product does not need"
    if operation in ("gemm", "qkt", "pv") and not multiplications:
        return "it does not multiply on tensor cores"
    return ""


def _ends(operation: str, names: Sequence[str], epilogue: str) -> bool:
    """Whether a GEMM's epilogue is one that is known."""
    return operation == "gemm" and (epilogue != "none" or any(role_named(name, "gemm") == "bias" for name in names))


def _because(operation: str, names: Sequence[str], by_name: str, code: str, multiplications: int) -> str:
    parts = []
    if _named(names, operation):
        parts.append(f"its arrays are named {', '.join(names)}")
    if by_name == operation:
        parts.append(f"its own name says {operation}")
    if multiplications:
        parts.append("it multiplies on tensor cores")
    parts.append("it calls an exponential" if _EXP.search(code) else "it calls no exponential")
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]
