"""What attention and its two products have in common: tensors over batch, heads, rows and keys."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ops.model import COLUMN, Alternative, Choice, MatrixProduct, Operation, Parameter, Role
from wmmadiag.ops.parts.drawn import SLOPES

OVER_SCORES = ("B", "H", "Sq", "Skv")

SYMBOLS: Mapping[str, str] = {
    "B": "1", "H": "1", "Sq": "S", "S": "Sq", "Skv": "S", "Hkv": "H", "Dv": "D", "causal": "0",
}  # fmt: skip

MADE_FOR: Mapping[str, str] = {"D": "head dimension", "S": "sequence length"}

EXTENTS: Mapping[str, str] = {
    "B": "b bs bsz batch batches batchsize nbatch numbatch numbatches",
    "B*H": "bh batchheads batchhead nbh numbh bxh batchxheads",
    "Hkv*D": "kvdim kvwidth kvhidden",
    "H // Hkv": "kvmul nrep gqaratio gqagroup numqueriesperkv headsperkv qperkv kvgroup",
    "Skv - 1": "pos",
    "Hkv": "hkv kvheads nkvheads numkvheads headskv headsk nheadskv numheadskv nheadsk numheadsk kvhead hk",
    "H": "h heads nheads numheads nhead head numhead headnum qheads nqheads numqheads hq nh headcount headscount "
    "qkvhead qkvheads",
    "Sq": "sq seqlenq seqq qlen qseqlen lq nq slenq lenq querylen numqueries qlength mq",
    "Skv": "sk skv tkv seqlenk seqk kvlen klen kvseqlen seqlenkv lk lkv nk nkv lenk lenkv keylen numkeys kseqlen",
    "S": "s seq seqlen seqlength sequencelength slen n t l len length context contextlen nseq tokens numtokens ctx "
    "nctx ctxlen qkvseqlen maxseqlen seqs",
    "Dv": "dv vdim headdimv vheaddim",
    "D": "d dim headdim headsize dhead hd dk embd depth dmodelperhead hdim embeddim headembd headdimension "
    "qkvdim hs headsz",
}

SCORE_PRODUCT = MatrixProduct("q", COLUMN, "k", COLUMN, "softmax({})")

SCALE_SPELLINGS = "scale smscale softmaxscale scalesoftmax attnscale sc scaling qkscale scalefactor invsqrtd rsqrtd"
CAUSAL_SPELLINGS = "causal iscausal usecausal"
# log2(e) times the scale: exp(x) is exp2(x · log2(e)).
DERIVED: Mapping[str, str] = {
    "({scale}) * 1.4426950408889634": "scalelog2 softmaxscalelog2 smscalelog2 scalesoftmaxlog2 scalelog2e "
    "qkscalelog2 softmaxscalelog2e"
}

SOFTCAP: Mapping[str, Parameter] = {
    "softcap": Parameter(
        "cap",
        "0",
        "c of c·tanh(score/c), on scaled scores, before bias and masks; 0: none",
        spellings="softcap logitsoftcap logitssoftcap attnsoftcap logitcap logitscap softcapping attnlogitsoftcapping",
        drafted=("2", "1.5"),
    ),
    "tanh_dtype": Parameter("word", "f32", "type of the softcap's tanh; f16 for tanh.approx", ("f16", "bf16", "f32")),
}

# Additive masks are biases; one of integers is a mask.
ADDED: Mapping[str, Role] = {
    "bias": Role(
        "BHSK",
        OVER_SCORES,
        required=False,
        usual="SK",
        spellings="bias attnbias attentionbias relbias relativebias relposbias rpb rpebias positionbias posbias mask "
        "attnmask attentionmask additivemask",
        element="float",
        instead="mask",
    ),
    "alibi_slopes": Role(
        "BH", OVER_SCORES[:2], required=False, usual="H", drawn=SLOPES, spellings="alibislopes alibislope alibi slopes"
    ),
}

CASES: tuple[Mapping[str, int], ...] = ({"B": 1, "H": 1, "S": 64, "D": 64}, {"B": 2, "H": 3, "S": 128, "D": 64})
# Multiples of 64, because many kernels ask for that.

OF_HEADS = Operation(
    name="",
    meaning="",
    symbols=SYMBOLS,
    made_for=MADE_FOR,
    separate=("B", "H", "Hkv"),
    divisors={"Hkv": "H"},
    extents=EXTENTS,
    cases=CASES,
)
"""What they say alike."""

MASKED_KEYS = Choice(
    "Which keys does a query see?",
    "meaning",
    (
        Alternative("no mask", {"causal": "0"}),
        Alternative("a causal mask", {"causal": "1", "alignment": "top-left"}),
        Alternative("a causal mask aligned to the bottom-right corner", {"causal": "1", "alignment": "bottom-right"}),
    ),
)


def laid_out(*roles: str) -> Choice:
    """In which order the axes of some roles, all alike, lie in memory."""
    named = f"{', '.join(roles[:-1])} and {roles[-1]}"
    return Choice(
        f"In which order do the axes of {named} lie in memory?",
        "storage",
        tuple(
            Alternative(f"{named} stored as {layout}", layouts=dict.fromkeys(roles, layout))
            for layout in ("BHSD", "BSHD", "SBHD")
        ),
        (roles[0],),
    )


def laid_together(count: int) -> tuple[str, ...]:
    """The orders of axes that tensors of heads in one storage have."""
    orders = ("BS{}HD", "BSH{}D", "{}BHSD", "B{}HSD", "BH{}SD", "{}BSHD", "B{}SHD", "SB{}HD", "SBH{}D")
    return tuple(one.format(count) for one in orders)


def turned(role: str) -> Choice:
    """Whether one operand of a product lies the other way around."""
    return Choice(
        f"How is {role} stored?",
        "storage",
        tuple(Alternative(f"{role} stored as {layout}", layouts={role: layout}) for layout in ("BHSD", "BHDS")),
        (role,),
    )
