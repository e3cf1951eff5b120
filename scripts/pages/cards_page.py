"""docs/cards.md, from the tables that cards are read with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from wmmadiag.numerics.element_types import ALIASES, TYPES
from wmmadiag.ops import OPERATIONS, Operation
from wmmadiag.ops.expressions import CONSTANTS, FUNCTIONS
from wmmadiag.subject import card_keys
from wmmadiag.subject.distributions import HARD, INDEPENDENT

_HEAD = """\
# Kernel cards

A card is a TOML file that says how a kernel is launched and what it should compute. `wmmadiag init kernel.cu`
drafts one from the source and its host code; what it could not know is marked TODO. `wmmadiag check`, `diagnose`,
`debug`, `bench` and pytest read the same cards.

```toml
format = 1
name = "my attention"
source = "attn.cu"
entry = "attn_fwd<{D}, 64>"

[computes]
operation = "attention"
causal = "causal"          # a symbol: each case may say causal = 1

[[arguments]]
role = "q"
dtype = "f16"
layout = "BSHD"            # in memory; the logical order is B, H, S, D

[[arguments]]
name = "kv"
dtype = "f16"
contains = [
  { role = "k", strides = ["2*S*H*D", "D", "2*H*D", 1] },
  { role = "v", strides = ["2*S*H*D", "D", "2*H*D", 1], offset = "H*D" },
]

[[arguments]]
role = "o"
dtype = "f16"
layout = "BSHD"

[[arguments]]
name = "seq_len"
dtype = "s32"
value = "S"

[launch]
grid = ["ceil_div(S, 64)", "H", "B"]
block = 128
shared = "2*64*(D + 8)*3"

[[cases]]
name = "small"
B = 2
H = 3
S = 100                    # no multiple of the tile
D = 64

[[cases]]
name = "causal"
B = 1
H = 2
S = 128
D = 64
causal = 1
```

Every mistake in a card is reported with its line. This page is made by `python scripts/pages`.
"""

_EXPRESSIONS = """\
## Expressions

Wherever a number may stand, so may an expression in quotes, over the case's symbols, `[symbols]`, and macros that
are numbers: `+ - * / // % ** << >> & | ^`, comparisons, `and`, `or`, `not`, `x if condition else y`, the functions
{functions}, and the constants {constants}. `ceil_div(a, b)` is ⌈a/b⌉; `align(a, b)` the next multiple of b.
Quotients of integers are exact, and where an integer is needed a fraction is an error. A missing symbol takes the
operation's default (below), so `S = 128` gives `Sq` and `Skv` too.
"""

_NONE = """\
### `none`: nothing is expected of the numbers

`operation = "none"` runs a kernel for the checks alone: races, bounds, uninitialised reads, barriers and the rest.
Roles are as for `python`. `wmmadiag check kernel.cu --computes none` needs no card where the source's own host code
makes the arrays and the launch.
"""

_PYTHON = """\
### `python`: what a function of yours, or of a library, computes

{keys}
Any role name will do; each tensor needs `shape` and `direction`. `operation = "python"` may be left out.

A function of yours, in a file beside the card, gets two dicts: the logical inputs by role as
float64 arrays, and the symbols' values; it returns the output, or a dict of outputs by role. In place of an output
it may give a pair `(output, bound)`, the largest error that rounding explains (a number or an array); otherwise the
card needs a `tolerance`. It should compute in float64 and round where the kernel is meant to. `wmmadiag init
kernel.cu --computes python` drafts both files.

A function of a library is called on the CPU: torch's with float64 tensors where torch is installed (integers are int64,
elements of type `bool` booleans), those of other modules with NumPy arrays. What it returns is the output, or the
outputs in the card's order; the card needs a `tolerance`.

```toml
[computes]
reference = "torch.nn.functional.scaled_dot_product_attention"
arguments = ["q", "k", "v"]
keywords = {{ attn_mask = {{ role = "mask" }}, scale = {{ value = "1/sqrt(D)" }}, is_causal = false }}
```

A diagnosis calls the function some hundred times with changed inputs, and with changes of its text, to see which of
them gives the kernel's output. It does so only where the file imports nothing but mathematics (NumPy, SciPy, PyTorch)
and names nothing that reads, writes or runs something else; its text is changed only where NumPy is all it needs, and
without `while` or `with`. Seconds per call leave little time for that: take small cases.
"""

_LAYOUT_NOTES = """\
A role that is spread has in memory the axes that are named below alone, or those that a layout names, and one value for
all indices of the others: `layout = "N"` is one per column, `layout = "M"` one per row, `layout = "BN"` one per matrix
and column. With a `shape`, extents of 1 say the same.

A packed tensor may also be one argument with `role = "qkv"` (or `"kv"`) and a layout in which the digit is the axis
that picks q, k or v: `"BS3HD"`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [
        _HEAD,
        "## The card\n",
        _table("key", card_keys.CARD),
        "## `[[arguments]]`\n\nA number (it has a `value`):\n",
        _table("key", card_keys.SCALAR),
        "A pointer (it has a `role`, or `contains`):\n",
        _table("key", card_keys.ARRAY),
        _LAYOUT_NOTES,
        "A struct passed by value:\n",
        _table("key", card_keys.STRUCT),
        "## `[launch]`\n",
        _table("key", card_keys.LAUNCH),
        "## `[variants.NAME]`\n",
        _table("key", card_keys.VARIANT),
        "## `[[cases]]`\n\nEvery other key is a symbol: `S = 128`, `causal = 1`, or an expression over others.\n"
        "`displaced` is one of every kernel: bytes by which its arrays lie behind a multiple of 512 (0 if absent).\n",
        _table("key", card_keys.CASE),
        _EXPRESSIONS.format(functions=_names(FUNCTIONS), constants=_names(CONSTANTS)),
        "## `[computes]`\n",
        "Where a type of arithmetic is absent, and every difference is within the bound of a coarser one that the\n"
        "compiled code has (sums in halves), the check asks which is meant, and is undecided.\n"
        "Parameters that several operations have stand here once:\n",
        *_PARAMETERS,
        *sorted(_shared()),
        "",
        *(_operation(one) for one in OPERATIONS.values() if one.oracle is not None),
        _PYTHON.format(keys=_table("key of `[computes]`", card_keys.FUNCTION)),
        _NONE,
        "## Element types\n\n" + _element_types(),
        "## Distributions of inputs\n",
        _table("name", INDEPENDENT),
        "Hard for some operations, and as `normal` for all others:\n",
        _table("name", HARD),
    ]
    return "\n".join(parts)


def _names(items: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in items)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(title: str, rows: Mapping[str, str]) -> str:
    lines = [f"| {title} | meaning |", "|---|---|", *(f"| `{key}` | {_cell(text)} |" for key, text in rows.items())]
    return "\n".join(lines) + "\n"


_PARAMETERS = ("| parameter | if absent | meaning |", "|---|---|---|")


def _parameters(one: Operation) -> Iterator[tuple[str, str]]:
    """The names and the rows of an operation's parameters."""
    for name, parameter in one.parameters.items():
        words = f": {', '.join(parameter.words)}" if parameter.words else ""
        yield name, f"| `{name}` | {parameter.default} | {_cell(parameter.meaning + words)} |"


@cache
def _shared() -> frozenset[str]:
    """Rows of parameters that three operations or more have to the letter."""
    rows = Counter(row for one in OPERATIONS.values() if one.oracle is not None for _, row in _parameters(one))
    return frozenset(row for row, count in rows.items() if count >= 3)


def _operation(one: Operation) -> str:
    lines = [f"### `{one.name}`: {one.meaning}\n", "| role | usual shape | |", "|---|---|---|"]
    for name, role in one.roles.items():
        use = "output" if role.output else "input"
        shape = ", ".join(f"`{extent}`" for extent in role.shape)
        use += "" if role.required else ", may be absent"
        use += f"; may be written over `{role.updates}`" if role.updates else ""
        use += "; one for all matrices where its first axis is 1 or left out" if role.shared else ""
        use += f"; spread: {role.usual}" if role.usual else ""
        lines.append(f"| `{name}` | {role.axes}: {shape} | {use} |")
    rows = dict(_parameters(one))
    own = [row for row in rows.values() if row not in _shared()]
    lines += ["", *_PARAMETERS, *own] if own else []
    if len(own) < len(rows):
        shared = [name for name, row in rows.items() if row in _shared()]
        lines += ["", f"Parameters from the table above: {_names(shared)}."]
    if one.symbols:
        defaults = ", ".join(f"`{name} = {value}`" for name, value in one.symbols.items())
        lines += ["", f"Symbols that a case leaves out: {defaults}."]
    if one.packed:
        packed = (
            f'`role = "{name}"` ({_names(each.parts)}; `layout = "{each.layout}"`)' for name, each in one.packed.items()
        )
        lines += ["", f"In one storage: {', '.join(packed)}."]
    if one.hard_inputs:
        lines += ["", f"Distributions that are hard for it: {_names(one.hard_inputs)}."]
    if one.notes:
        lines += ["", one.notes]
    return "\n".join(lines) + "\n"


def _element_types() -> str:
    spellings = {name: [alias for alias, meant in ALIASES.items() if meant == name] for name in TYPES}
    rows = {name: ", ".join(f"`{alias}`" for alias in spellings[name]) or "—" for name in TYPES}
    lines = ["| type | also written |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows.items())]
    return "\n".join(lines) + "\n"
