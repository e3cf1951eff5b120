"""What a parameter's name suggests: a role for a pointer, a symbol for a number.

Suggestions, for the user to confirm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.subject.dtypes import element_type
from wmmadiag.subject.operations import OPERATIONS

# Names that public kernels use, folded as `_folded` does. One row per meaning; the first row that has a name wins.
_SYMBOLS: Mapping[str, Mapping[str, str]] = {
    "sequence": {
        "B": "b bs bsz batch batches batchsize nbatch numbatch numbatches",
        "B*H": "bh batchheads batchhead nbh numbh bxh batchxheads",
        "Hkv": "hkv kvheads nkvheads numkvheads nheadskv numheadskv nheadsk numheadsk kvhead hk",
        "H": "h heads nheads numheads nhead head numhead headnum qheads nqheads numqheads hq nh headcount headscount "
        "qkvhead qkvheads",
        "Sq": "sq seqlenq seqq qlen qseqlen lq nq slenq lenq querylen numqueries qlength mq",
        "Skv": "sk skv seqlenk seqk kvlen klen kvseqlen seqlenkv lk lkv nk nkv lenk lenkv keylen numkeys kseqlen",
        "S": "s seq seqlen seqlength sequencelength slen n t l len length context contextlen nseq tokens numtokens ctx "
        "nctx ctxlen qkvseqlen maxseqlen seqs",
        "Dv": "dv vdim headdimv vheaddim",
        "D": "d dim headdim headsize dhead hd dk embd depth dmodelperhead hdim embeddim headembd headdimension "
        "qkvdim hs headsz",
    },
    "gemm": {
        "batch": "b bs batch batches batchsize batchcount numbatches",
        "M": "m rows nrows numrows mglobal mtotal msize dimm",
        "N": "n cols columns ncols numcols nglobal ntotal nsize dimn",
        "K": "k inner depth kglobal ktotal ksize dimk",
    },
    "softmax": {"M": "m rows nrows numrows batch b", "N": "n cols columns ncols numcols c d dim"},
}
_FAMILY = {"attention": "sequence", "qkt": "sequence", "pv": "sequence", "gemm": "gemm", "softmax": "softmax"}

# Additive masks are biases; one of integers is a mask (`_told_by_type`).
_OF_SCORES = {
    "bias": "bias attnbias attentionbias relbias relativebias relposbias rpb rpebias positionbias posbias mask "
    "attnmask attentionmask additivemask",
    "alibi_slopes": "alibislopes alibislope alibi slopes",
}
_ROLES: Mapping[str, Mapping[str, str]] = {
    "attention": {
        "q": "q query queries",
        "k": "k key keys",
        "v": "v value values val",
        "lse": "lse softmaxlse logsumexp l li",
        "o": "o out output outputs y res result attn attnout context",
        "qkv": "qkv packedqkv qkvpacked",
        "kv": "kv packedkv kvpacked",
        "lengths": "lens lengths seqlens kvlens kvlengths seqlensk seqlenskv kvseqlens cacheseqlens contextlens "
        "sequsedk",
        **_OF_SCORES,
    },
    "qkt": {
        "q": "q query queries a",
        "k": "k key keys b",
        "scores": "s score scores c o out output qk qkt attn p",
        **_OF_SCORES,
    },
    "pv": {"p": "p prob probs attn s a weights", "v": "v value values b", "o": "o out output result c y"},
    "softmax": {"x": "x in input inp src scores a", "y": "y out output dst o probs result b"},
    "gemm": {
        "a": "a lhs x left mata matrixa", "b": "b rhs w right weight weights matb matrixb",
        "c": "c matc matrixc", "d": "d o out output y result matd matrixd",
        "bias": "bias biases biasvec biasvector",
        "scale_a": "scalea scalesa ascale ascales rowscale rowscales inputscale actscale xscale xscales",
        "scale_b": "scaleb scalesb bscale bscales colscale colscales weightscale weightscales wscale wscales",
    },
}  # fmt: skip

_LOG2E = "1.4426950408889634"  # log2(e): exp(x) is exp2(x * log2(e))

_EXPRESSIONS: Mapping[str, Mapping[str, str]] = {
    "sequence": {
        "scale": "scale smscale softmaxscale attnscale sc scaling qkscale scalefactor invsqrtd rsqrtd",
        "scalelog2": "scalelog2 softmaxscalelog2 smscalelog2 scalesoftmaxlog2 scalelog2e qkscalelog2 softmaxscalelog2e",
        "causal": "causal iscausal usecausal",
        "softcap": "softcap logitsoftcap logitssoftcap attnsoftcap logitcap logitscap softcapping attnlogitsoftcapping",
    },
    "gemm": {"alpha": "alpha", "beta": "beta", "lda": "lda stridea ldma", "ldb": "ldb strideb ldmb",
             "ldc": "ldc ldd stridec ldmc ldmd"},
    "batches": {"M*K": "stridea batchstridea stridebatcha bsa offseta", "K*N": "strideb batchstrideb stridebatchb bsb",
                "M*N": "stridec strided batchstridec batchstrided stridebatchc bsc bsd"},
    "softmax": {"scale": "scale"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter as the guesses need it.

    Attributes:
        c_type: as declared, pointer and const aside.
        dtype: a card's element type, or None when the C type does not say (a template parameter, a struct).
        lanes: elements of a vector type (half2: 2), else 1; storage is the same either way.
        struct: the kernel's parameter that it is a member of, if that is a struct; `label`: its name in there.
        value: what it is, where that does not depend on its meaning: of padding, of a pointer that stays null.
        unread: whether no code that is to be seen reads it.
        added: whether the kernel adds to what the pointer points to.
        remark: why a struct could not be taken apart.
    """

    name: str
    c_type: str
    pointer: bool
    const: bool
    dtype: str | None
    lanes: int = 1
    struct: str = ""
    label: str = ""
    value: str = ""
    unread: bool = False
    added: bool = False
    remark: str = ""


def _folded(name: str) -> str:
    """A name without case, underscores and the usual marks of pointers and places ("d_Q_ptr" → "q")."""
    plain = re.sub(r"^(?:d|g|p|m|in|gm|dev|device|glob|global|ptr)_(?=\w)|_(?:ptr|d|dev|g|gmem|global|data)$", "", name)
    plain = re.sub(r"(?<=.)(?:Ptr|_ptr|ptr)$|^(?:ptr|gm?(?=[A-Z])|d(?=[A-Z])|p(?=[A-Z]))", "", plain) or plain
    plain = re.sub(r"^k(?=[A-Z][A-Za-z]|D$)", "", plain)  # kHeadDim, a constant's name
    return plain.replace("_", "").lower()


def _search(table: Mapping[str, str], name: str) -> str | None:
    for folded in (name.replace("_", "").lower(), _folded(name)):
        found = next((meaning for meaning, words in table.items() if folded in words.split()), None)
        if found is not None:
            return found
    return None


def role_named(name: str, operation: str) -> str | None:
    """The role that a pointer's or tensor's name suggests: "d_query" → "q"."""
    return _search(_ROLES.get(operation, {}), name)


def operation_named(pointers: Sequence[str]) -> str:
    """The operation whose operands the names of a kernel's pointers are: (a, b, c) → "gemm"; "attention" in doubt."""
    best, most = "attention", 0
    for operation in ("attention", "gemm", "qkt", "pv", "softmax"):  # on a tie the commoner one
        roles = {role_named(name, operation) for name in pointers} - {None}
        covered = roles | {part for packed in roles & {"qkv", "kv"} for part in str(packed)}
        if operation == "gemm" and "c" in covered:
            covered.add("d")
        required = {name for name, role in OPERATIONS[operation].roles.items() if role.required}
        score = 2 * len(roles) - len(pointers)  # named, less those that are not
        if required <= covered and score > most:
            best, most = operation, score
    return best


# Words in the names of arrays that are no operand of an operation, and what to do about them. A name that has one is
# never taken for an operand by its place among the parameters.
_STRANGE: tuple[tuple[str, str], ...] = (
    (
        "cu cum culens seqlens seqused lens lengths offsets indptr indices idx table tables page pages slots",
        "lengths, offsets and page tables need values that fit each other (`values` of a card); describe the kernel by "
        "a Python function (`wmmadiag init` with --computes python)",
    ),
    (
        "grad grads dout dq dk dv do delta dpsum",
        "a gradient: no built-in operation is a backward pass; describe it by a Python function "
        "(`wmmadiag init` with --computes python)",
    ),
    (
        "partial partials part tmp temp workspace ws scratch split splits max maxes maximum rowmax sum sums rowsum "
        "expsum stats counter counters semaphore lock",
        'an intermediate result; if its content does not matter, role = "workspace" with a size; if it is what the '
        "kernel computes, describe it by a Python function (`wmmadiag init` with --computes python)",
    ),
    (
        "mask bias alibi slopes slope rotary cos sin dropout rng seed sink sinks",
        "this operation has no such operand; if no built-in operation has it, describe the kernel by a Python function "
        "(`wmmadiag init` with --computes python)",
    ),
)


def role_remark(name: str) -> str:
    """Why an array of that name is no operand, with the next step; "" if nothing in the name says so."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name) if not re.fullmatch(r"[dgh][A-Z]", name) else name
    words = set(plain.lower().split("_"))
    return next((remark for known, remark in _STRANGE if words & set(known.split())), "")


def symbol_for(name: str, operation: str) -> str | None:
    """The symbol (or product of symbols) that an integer's name suggests: "seq_len" → "S"."""
    return _search(_SYMBOLS.get(_FAMILY.get(operation, ""), {}), name)


def value_for(name: str, operation: str) -> str | None:
    """The value that a scalar's name suggests beyond symbols: "softmax_scale" → "1/sqrt(D)", "lda" → "K"."""
    found = _search(_EXPRESSIONS.get(_FAMILY.get(operation, ""), {}), name)
    parameters = OPERATIONS[operation].parameters
    if found == "scale":
        return str(parameters["scale"].default) if "scale" in parameters else None
    if found == "scalelog2":
        return f"({parameters['scale'].default}) * {_LOG2E}" if "scale" in parameters else None
    if found in ("lda", "ldb", "ldc"):
        return {"lda": "M if transpose_a else K", "ldb": "K if transpose_b else N", "ldc": "N"}[found]
    if found == "softcap":
        return found if found in parameters else None
    return found


def is_leading(name: str, which: str) -> bool:
    """Whether a number's name means that leading dimension of a GEMM: lda, ldb or ldc."""
    return _search(_EXPRESSIONS["gemm"], name) == which


def batch_stride_for(name: str) -> str | None:
    """The distance between the matrices of a batched GEMM that a number's name suggests: "strideA" → "M*K"."""
    return _search(_EXPRESSIONS["batches"], name)


def roles_for(pointers: Sequence[Parameter], operation: str) -> list[str | None]:
    """A role for each pointer, None where nothing suggests one.

    Names decide first. What they leave open goes by order: const pointers to the missing inputs, others to the
    missing outputs; without any const, the order of the operation's roles.
    """
    table = _ROLES.get(operation, {})
    outputs_named = {name for name, role in OPERATIONS[operation].roles.items() if role.output}
    roles: list[str | None] = []
    for pointer in pointers:
        found = _told_by_type(_search(table, pointer.name), pointer, operation)
        if found is not None and pointer.const and found in outputs_named:
            found = None  # nothing is written through a pointer to const
        roles.append(found if found not in roles else None)
    if {"m", "max", "rowmax", "mi"} & {_folded(pointer.name) for pointer in pointers}:
        # A running maximum and a running sum side by side are workspaces, not a result.
        roles = [None if role == "lse" and _folded(p.name) in ("l", "li") else role
                 for p, role in zip(pointers, roles, strict=True)]  # fmt: skip
    if operation == "gemm":
        roles = _gemm_output(pointers, roles)
    known = OPERATIONS[operation].roles
    covered = {"qkv": {"q", "k", "v"}, "kv": {"k", "v"}}
    present = set().union(*(covered.get(role, {role}) for role in roles if role)) if any(roles) else set()
    inputs = [name for name, role in known.items() if role.required and not role.output and name not in present]
    outputs = [name for name, role in known.items() if role.required and role.output and name not in present]
    if operation == "gemm" and "c" in present:
        outputs = []
    open_ones = [index for index, role in enumerate(roles) if role is None]
    if not any(pointer.const for pointer in pointers):
        plain = [index for index in open_ones if not role_remark(pointers[index].name)]
        for index, name in zip(plain, inputs + outputs, strict=False):
            roles[index] = name
        return roles
    for index in open_ones:
        if role_remark(pointers[index].name):
            continue
        wanted = inputs if pointers[index].const else outputs
        if wanted:
            roles[index] = wanted.pop(0)
    return roles


def _told_by_type(role: str | None, pointer: Parameter, operation: str) -> str | None:
    """A bias of integers is a mask, where the operation has one; lengths are integers."""
    element = element_type(pointer.dtype or "")
    if element is None or role not in ("bias", "lengths") or operation == "gemm":
        return role
    if role == "lengths":
        return None if element.is_float else role
    whole = "mask" if "mask" in OPERATIONS[operation].roles else None
    return role if element.is_float else whole


def _gemm_output(pointers: Sequence[Parameter], roles: list[str | None]) -> list[str | None]:
    """A lone C that the kernel may write is the output; a const one is an addend."""
    return [
        "d" if role == "c" and "d" not in roles and not pointer.const else role
        for pointer, role in zip(pointers, roles, strict=True)
    ]
