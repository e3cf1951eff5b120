"""The general matrix product, with what kernels fuse to it."""

from __future__ import annotations

from wmmadiag.ops.model import Alternative, Choice, Distance, Operation, Parameter, Role
from wmmadiag.ops.parts.settings import PRODUCTS, inputs_rounded, kept_in, sums_kept_in
from wmmadiag.subject.activations import ACTIVATIONS

_OVER_RESULT = ("batch", "M", "N")

OPERATION = Operation(
    "gemm",
    "D = activation(alpha · op(A)·op(B) · scales + beta · C + bias)",
    {
        "a": Role(
            "BMK",
            ("batch", "K if transpose_a else M", "M if transpose_a else K"),
            spellings="a lhs x left mata matrixa",
        ),
        "b": Role(
            "BKN",
            ("batch", "N if transpose_b else K", "K if transpose_b else N"),
            spellings="b rhs w right weight weights matb matrixb",
        ),
        "c": Role("BMN", _OVER_RESULT, required=False, spellings="c matc matrixc"),
        "bias": Role("BMN", _OVER_RESULT, required=False, usual="N", spellings="bias biases biasvec biasvector"),
        "scale_a": Role(
            "BMN",
            _OVER_RESULT,
            required=False,
            usual="M",
            spellings="scalea scalesa ascale ascales rowscale rowscales inputscale actscale xscale xscales",
        ),
        "scale_b": Role(
            "BMN",
            _OVER_RESULT,
            required=False,
            usual="N",
            spellings="scaleb scalesb bscale bscales colscale colscales weightscale weightscales wscale wscales",
        ),
        "d": Role("BMN", _OVER_RESULT, output=True, updates="c", spellings="d o out output y result matd matrixd"),
    },
    {
        "alpha": Parameter("real", "1", "factor of A·B", spellings="alpha", drafted=("1", "2")),
        "beta": Parameter("real", "0", "factor of C", spellings="beta", drafted=("0", "3")),
        "transpose_a": Parameter("flag", "0", "A is stored as K×M"),
        "transpose_b": Parameter("flag", "0", "B is stored as N×K"),
        "activation": Parameter("word", "none", "applied to the sum, bias included", tuple(ACTIVATIONS)),
        "epilogue_dtype": Parameter(
            "word", "auto", "type that the sum has before scales, C, bias and activation", ("auto", "f16", "bf16")
        ),
        **PRODUCTS,
    },
    {"batch": "1", "transpose_a": "0", "transpose_b": "0"},
    {
        "batch": "b bs batch batches batchsize batchcount numbatches",
        "M": "m rows nrows numrows mglobal mtotal msize dimm",
        "N": "n cols columns ncols numcols nglobal ntotal nsize dimn",
        "K": "k inner depth kglobal ktotal ksize dimk",
    },
    distances=(
        Distance("a", "M if transpose_a else K", "lda stridea ldma"),
        Distance("b", "K if transpose_b else N", "ldb strideb ldmb"),
        Distance("d", "N", "ldc ldd stridec ldmc ldmd"),
        Distance("a", "M*K", "stridea batchstridea stridebatcha bsa offseta", batches=True),
        Distance("b", "K*N", "strideb batchstrideb stridebatchb bsb", batches=True),
        Distance("d", "M*N", "stridec strided batchstridec batchstrided stridebatchc bsc bsd", batches=True),
    ),
    # The second differs in every extent, so that a wrong leading dimension shows, and has an odd number of deep tiles.
    cases=({"batch": 1, "M": 64, "N": 64, "K": 64}, {"batch": 3, "M": 128, "N": 192, "K": 320}),
    choices=(
        Choice(
            "How is A stored?",
            "storage",
            (
                Alternative("A stored as M×K", {"transpose_a": "0"}),
                Alternative("A stored as K×M", {"transpose_a": "1"}),
            ),
            ("a",),
        ),
        Choice(
            "How is B stored?",
            "storage",
            (
                Alternative("B stored as K×N", {"transpose_b": "0"}),
                Alternative("B stored as N×K, as nn.Linear has it", {"transpose_b": "1"}),
            ),
            ("b",),
        ),
        Choice(
            "How is the result stored?",
            "storage",
            (
                Alternative("the result stored by rows", layouts={"c": "BMN", "d": "BMN"}),
                Alternative("the result stored by columns", layouts={"c": "BNM", "d": "BNM"}),
            ),
        ),
        Choice(
            "Is the product added to what the output held before?",
            "meaning",
            (
                Alternative("the output written without being read", {"beta": "0"}, updated=False),
                Alternative("the product added to what the output held", {"beta": "1"}, updated=True),
            ),
        ),
        Choice(
            "What is applied to the sum?",
            "meaning",
            tuple(
                Alternative("no activation" if name == "none" else f"the activation {name}", {"activation": name})
                for name in ACTIVATIONS
            ),
        ),
        sums_kept_in("a"),
        inputs_rounded("a"),
        kept_in("sums before the epilogue", "epilogue_dtype", "auto", "f16", "bf16"),
    ),
)
