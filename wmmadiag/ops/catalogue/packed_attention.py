"""Attention over sequences of different lengths that lie one behind the other, as varlen kernels have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.ops.catalogue.attention import OPERATION as WHOLE
from wmmadiag.ops.model import Arrays, Drawn, Operation, Packed, Role, Signs
from wmmadiag.ops.parts.each_sequence import Sequence, of_sequences, starts
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.sequence import ADDED, DERIVED, EXTENTS
from wmmadiag.ops.parts.traits import EXPONENTIAL


def _sequences(inputs: Arrays) -> Iterator[Sequence]:
    begins = inputs["starts"].astype(np.int64)
    of_keys = inputs.get("key_starts", inputs["starts"]).astype(np.int64)
    for one in range(len(begins) - 1):
        rows, keys = slice(begins[one], begins[one + 1]), slice(of_keys[one], of_keys[one + 1])
        yield rows, inputs["k"][keys], inputs["v"][keys]


_ORACLE, _BOUND = of_sequences(_sequences)

OPERATION = Operation(
    name="packed_attention",
    meaning="attention of each sequence: O[i] over the keys of its own, starts[b] ≤ i < starts[b + 1]",
    notes="Queries, keys and values of all sequences lie one behind the other. `starts` has one number more than there "
    "are sequences, `key_starts` those of keys where they are others. All parameters are those of `attention`, of each "
    "sequence.",
    roles={
        "q": Role("THD", spellings=WHOLE.roles["q"].spellings),
        "k": Role("UHD", ("U", "Hkv", "D"), spellings=WHOLE.roles["k"].spellings),
        "v": Role("UHD", ("U", "Hkv", "Dv"), spellings=WHOLE.roles["v"].spellings),
        "starts": Role(
            "E",
            ("B + 1",),
            element="int",
            drawn=Drawn(starts, "q", -3),
            spellings="starts offsets cuseqlens cuseqlensq cuseqlen cuqseqlens qcuseqlens cumseqlens cumseqlensq "
            "culens cuq qoindptr indptr qindptr seqoffsets seqstarts qoffsets",
        ),
        "key_starts": Role(
            "E",
            ("B + 1",),
            required=False,
            element="int",
            drawn=Drawn(starts, "k", -3),
            spellings="keystarts cuseqlensk cukseqlens kcuseqlens cuseqlenskv cumseqlensk cuk kvindptr "
            "kvoffsets koffsets",
        ),
        "alibi_slopes": replace(ADDED["alibi_slopes"], axes="H", shape=("H",)),
        "o": Role("THD", ("T", "H", "Dv"), output=True, spellings=WHOLE.roles["o"].spellings),
        "lse": Role("HT", output=True, required=False, spellings="lse softmaxlse logsumexp"),
    },
    parameters={name: one for name, one in WHOLE.parameters.items() if name != "mask_hides"},
    oracle=_ORACLE,
    bound=_BOUND,
    symbols={"H": "1", "U": "T", "Hkv": "H", "Dv": "D", "causal": "0"},
    separate=("H", "Hkv"),
    counted_by={"key_starts": "U"},
    made_for={"D": "head dimension"},
    divisors={"Hkv": "H"},
    extents={
        "B": EXTENTS["B"] + " nseq numseqs numsequences seqs",
        "Hkv": EXTENTS["Hkv"],
        "H": EXTENTS["H"],
        # The longest sequence is no longer than all together.
        "T": "t total totalq totaltokens numtokens tokens ntokens maxseqlen maxseqlenq maxlen maxs maxq",
        "U": "totalk totalkv maxseqlenk maxseqlenkv maxk",
        "Dv": EXTENTS["Dv"],
        "D": EXTENTS["D"],
    },
    longest="maxseqlen maxseqlenq maxlen maxs maxq maxseqlenk maxseqlenkv maxk",
    derived=DERIVED,
    packed={
        "qkv": Packed(("q", "k", "v"), ("T3HD", "TH3D", "3THD"), WHOLE.packed["qkv"].spellings),
        "kv": Packed(("k", "v"), ("U2HD", "UH2D", "2UHD"), WHOLE.packed["kv"].spellings),
    },
    cases=({"B": 2, "H": 1, "T": 128, "D": 64}, {"B": 3, "H": 2, "T": 240, "D": 64}),
    work="2*H*T*U*(D + Dv)*(0.5 if causal else 1)",
    signs=Signs(
        "varlen ragged packed",
        parts=("attention", "gemm", "softmax", "qkt", "pv"),
        needs=(EXPONENTIAL,),
        open="its source does not tell what its offsets count",
    ),
    choices=tuple(one for one in WHOLE.choices if one.kind != "storage"),
)
