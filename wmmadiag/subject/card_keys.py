"""The keys of a card's tables and what they mean: what reading allows, and what docs/cards.md says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

Keys = Mapping[str, str]


def _keys(**meanings: str) -> Keys:
    return MappingProxyType(meanings)


CARD = _keys(
    format="1, the version of this format",
    name="what reports call the kernel; its folder's name if absent",
    source="the `.cu` or `.ptx`, relative to the card's folder",
    entry=(
        "the `__global__` function, with namespace and template arguments; `{expression}` in it is replaced: "
        '`"ns::attn<{D}, 64>"`'
    ),
    macros='preprocessor macros by name: numbers, or text with `{expression}` in it: `HEAD_DIM = "{D}"`',
    variants="`[variants.NAME]`: the same kernel in several settings, each checked on its own",
    include_paths="folders for `#include`, relative to the card's folder",
    std='the C++ standard: "c++11", "c++14", "c++17" (if absent) or "c++20"',
    arguments="`[[arguments]]`, one for each parameter of the kernel, in its order",
    launch="`[launch]`: grid, block and dynamic shared memory",
    cases="`[[cases]]`: the shapes to run",
    computes="`[computes]`: what the kernel should compute",
    symbols='`[symbols]`: names for expressions that several places use: `TILES = "ceil_div(S, 64)"`',
    inputs="the distribution of the inputs, where neither case nor argument says otherwise",
    seed="of the inputs; 0 if absent",
    tolerance=(
        "`{ atol = …, rtol = … }` in place of the derived rounding bound: |observed − expected| ≤ atol + "
        "rtol·|expected|"
    ),
)
CASE = _keys(
    name="what reports and `--case` call it",
    inputs="its distribution of inputs",
    seed="of its inputs",
    tolerance="its tolerance",
)
VARIANT = _keys(
    macros="added to the card's, or in place of those of the same name",
    source="in place of the card's",
    entry="in place of the card's",
    launch="in place of the card's",
    arguments='keys of single arguments in place of the card\'s, by name: `{ a = { dtype = "bf16", layout = "KM" } }`',
)
LAUNCH = _keys(
    grid="blocks along x, y and z: one to three expressions",
    block="threads along x, y and z",
    shared="bytes of dynamic shared memory; 0 if absent",
)
FUNCTION = _keys(
    python='`"file.py:function"` of your own, beside the card',
    reference='or a function of a library, with its module: `"torch.nn.functional.silu"`',
    formula=(
        "or what each output is, of roles, symbols and the kernel's numbers: "
        '`"y[m, n] = gelu(sum_k x[m, k] * w[n, k] + b[n])"`; a list may say other names first, which the last ones use'
    ),
    rounding=(
        "the type to which a kernel judged by `formula` rounds what it computes before it multiplies it or gives it a "
        'name: `"bf16"`; none if absent'
    ),
    arguments=(
        "roles of the inputs that a library's function takes by position; all of them, in the card's order, if absent"
    ),
    keywords=(
        'what it takes by name: a value as it is, `{ role = "mask" }` for an input, `{ value = "1/sqrt(D)" }` for an '
        "expression; also lists of these"
    ),
)
SCALAR = _keys(
    name="as in the kernel",
    role="its name, where `name` is absent",
    dtype="its type",
    value='an expression: `"1/sqrt(D)"`',
)
STRUCT = _keys(
    name="as in the kernel",
    fields=(
        'the members in order, each as an argument of its own: `[{ name = "q_ptr", role = "q", dtype = "bf16" }, {'
        ' dtype = "s64", value = "H*D" }]`; members that are arrays are listed element by element'
    ),
)
VIEW = _keys(
    role="which tensor of the operation it is (below); any name for a Python reference",
    shape="its extents, outermost first; the role's usual ones if absent",
    layout='the axes in memory order: `"BSHD"`; as the role lists them if absent',
    strides="elements from one index to the next, for each axis of the shape, in place of a layout",
    pad="elements left free behind each run of an axis: `{ D = 8 }`",
    offset="its first element, counted from the start of the storage",
)
ARRAY = _keys(
    name="as in the kernel",
    dtype="type of one element",
    direction='"in", "out", "inout" or "workspace" (memory whose contents do not matter); from the role if absent',
    size="elements of storage; what the tensor needs if absent",
    inputs="the distribution of its values",
    values=(
        'its values instead: one expression of the element\'s index `i`, or a list: `[0, "S", "2*S"]`; for '
        "lengths, offsets, tables of pages; `zlib:` and base 64 of what memory holds, as `init --run` writes it"
    ),
    initial=(
        'an output before the run: "poison" (if absent: what nobody writes shows), "zero", "inputs", or an expression'
    ),
    padding='what storage outside the tensor holds: "poison" (if absent) or "zero"',
    pointers=(
        "true: the kernel gets an array of pointers in its place, one to each of what the first axis counts, as "
        "batched BLAS does"
    ),
    contains="several tensors in one storage, each with role, shape, layout or strides, and offset",
    **VIEW,
)
