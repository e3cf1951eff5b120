"""Headers that only an include path leads to: looked at where nothing of the user's own files mends a kernel.

A library's headers are right as a rule, and what is changed in them is compiled at a higher price. But the path may be
the user's own `include` folder, or the library the work: then the mistake is in what the kernel was made of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from wmmadiag.compile.languages import is_c_family
from wmmadiag.diagnose.effort import EFFORTS, Effort
from wmmadiag.diagnose.evidence import compiled_lines
from wmmadiag.diagnose.examined import Examined
from wmmadiag.subject.card import Card
from wmmadiag.subject.compiling import options_of
from wmmadiag.subject.symbols import rendered_entries, rendered_macros

_MOST = 24
"""Headers that are looked at: those of which the compiler made instructions of the most lines."""


def with_headers(found: Examined) -> Card | None:
    """The card, whose kernel's headers are looked at as its source is; None where none is part of the kernel."""
    lines = _lines(found)
    keys = [key for key, _ in lines.most_common(_MOST)]
    return replace(found.bench.card, own_headers=tuple(keys)) if keys else None


def before_headers(effort: Effort) -> Effort:
    """How much is tried of the user's own files first where most of a kernel is of headers."""
    return replace(min(effort, EFFORTS["quick"], key=lambda one: one.changes), name=effort.name)


def is_of_headers(found: Examined) -> bool:
    """Whether the compiler made most of a kernel of headers that only an include path leads to, none of which may be
    changed yet."""
    outside = 0 if found.bench.card.own_headers else _lines(found).total()
    return 2 * outside > len(compiled_lines(found.run))


def _lines(found: Examined) -> Counter[str]:
    """How many lines the compiler made instructions of, of each header that only an include path leads to."""
    from wmmadiag.compile.driver import source_tree
    from wmmadiag.compile.toolchain import toolchain

    run, bench = found.run, found.bench
    if run.compilation is None or not is_c_family(bench.source):
        return Counter()
    entries = rendered_entries(bench.card, found.case, bench.variant)
    options = options_of(bench.card, bench.arch, entries, rendered_macros(bench.card, found.case, bench.variant))
    tree = source_tree(run.compilation.text, run.compilation.source, options, toolchain())
    keys = {file.name: key for key, file in tree.outside.items()}
    return Counter(keys[file] for file, _ in compiled_lines(run) if file in keys)
