"""Another variable or constant of the same type."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import names_for, replaceable
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, several
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def variable(program: Program) -> Iterator[Draft]:
    """Another variable, constant or member of the same type that is in scope, for the one that stands there."""
    for one in program.expressions:
        if not replaceable(one):
            continue
        for atom in names_for(program, one):
            level = precedence.PRIMARY if atom.root in ("", atom.text) else precedence.POSTFIX
            text = Text(atom.text, level)
            # Fragments of two layouts are of two types, which no value at run time chooses between.
            if one.type.kind == "fragment" and not one.type.same(atom.type):
                yield several([(one, text)], static=True)
            else:
                yield replaced(one, text)
