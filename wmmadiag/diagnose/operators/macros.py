"""What a macro's text is: a number, a value, or the body of a function; and what it gives to inline assembly."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wmmadiag.csource.lexical import Macro
from wmmadiag.csource.nodes import LOOPS
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import Source, parse
from wmmadiag.csource.types import FLOAT, INTEGER, UNKNOWN, Type
from wmmadiag.diagnose.operators.model import MACRO_TAIL, Unit

_MACRO_HEAD = b"void m(){"
_NO_VALUES = frozenset(
    {*LOOPS, "compound_statement", "if_statement", "switch_statement", "assignment_expression", "gnu_asm_expression"}
)
"""What makes of a macro's text statements."""
_COMMENTS = re.compile(rb'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""A string, in group 1, or a comment."""
_NUMBER = re.compile(r"\(*\s*[-+]?\s*(?:[\d.][\w.']*)")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def constraint(body: str, parameter: str) -> str:
    """With which constraint a macro gives its parameter to inline assembly; "" where it does not."""
    found = re.search(rf'"([^"\n]*)"\s*\(\s*{re.escape(parameter)}\s*\)', body) if "asm" in body else None
    return found[1] if found is not None else ""


def number(text: str, known: Mapping[str, Type]) -> Type | None:
    """The type of a macro's text that begins with a number, or is made of names that stand for one; else None."""
    names = _NAME.findall(text)
    if _NUMBER.match(text) is None and not (names and all(name in known for name in names)):
        return None
    real = re.search(r"\d\.|\.\d|\d[eE]", text) or any(known.get(name) is FLOAT for name in names)
    return FLOAT if real else INTEGER


def macro_unit(around: Unit, macro: Macro, used: tuple[Unit, int] | None) -> Unit | None:
    """A macro's replacement text as the body of a function, its continued lines joined by blanks, without comments."""
    data = around.source.data[macro.body_start : macro.end]
    if not data.strip():
        return None
    joined = re.sub(rb"\\(\r?\n)", lambda found: b" " + found[1], data)
    joined = _COMMENTS.sub(lambda found: found[0] if found[1] else b" " * len(found[0]), joined)
    source = parse(_MACRO_HEAD + joined + MACRO_TAIL, around.file)
    names = dict.fromkeys(macro.parameters or (), UNKNOWN)
    base = macro.body_start - len(_MACRO_HEAD)
    return Unit(around.file, source, Scopes(source), base, names, macro.name, _is_value(source), used)


def _is_value(source: Source) -> bool:
    """Whether a macro's text may be a value, such as an array's length, as no loop or assignment may."""
    root = source.root.named_children[0] if source.root.named_children else None
    body = root.child_by_field_name("body") if root is not None else None
    for one in body.named_children if body is not None else ():
        inner = next(iter(one.named_children), None) if one.type == "expression_statement" else None
        sets = one.type == "declaration" and any(part.type == "init_declarator" for part in one.named_children)
        if sets or one.type in _NO_VALUES or (inner is not None and inner.type in _NO_VALUES):
            return False
    return True
