"""The type that a dispatch macro would choose: `AT_DISPATCH_…(x.scalar_type(), "name", [&] { k<scalar_t>… })`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from wmmadiag.subject.drafts.source_facts import without_comments

# ATen/Dispatch.h: the element types of each family of macros; AND… adds those that its name or arguments say.
_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("REDUCED_FLOATING_TYPES", ("at::Half", "at::BFloat16")),
    ("FLOATING_TYPES", ("double", "float")),
    ("ALL_TYPES", ("double", "float", "int", "int64_t")),
)
_NAMED = {"Half": "at::Half", "BFloat16": "at::BFloat16", "Float": "float", "Double": "double"}
# Spellings of element types, by the name that instructions and cards have for them.
_ELEMENTS: Mapping[str, str] = {
    "half": "f16", "__half": "f16", "at::Half": "f16", "c10::Half": "f16", "half_t": "f16",
    "nv_bfloat16": "bf16", "__nv_bfloat16": "bf16", "at::BFloat16": "bf16", "c10::BFloat16": "bf16",
    "float": "tf32", "tf32": "tf32", "double": "f64",
}  # fmt: skip
_PREFERRED = ("f16", "bf16", "tf32", "f64")


def dispatched(text: str, names: Sequence[str]) -> dict[str, str]:
    """For type names that only a macro defines, the type to take: {"scalar_t": "at::Half"}.

    Of those that the source dispatches to, the one that its tensor-core operations multiply; the narrowest where they
    multiply what they are given. Names that the source says nothing about are left out.
    """
    plain = without_comments(text)
    multiplied = _multiplied(plain)
    found = {}
    for name in names:
        choices = _choices(plain, name)
        order = [*(kind for kind in _PREFERRED if kind in multiplied), *_PREFERRED]
        ranked = sorted(choices, key=lambda one: order.index(_element(one)) if _element(one) in order else len(order))
        if ranked:
            found[name] = ranked[0]
    return found


def _choices(plain: str, name: str) -> list[str]:
    """The types that a name may stand for."""
    word = re.escape(name)
    choices = re.findall(rf"\busing\s+{word}\s*=\s*([\w:]+)\s*;", plain)
    choices += re.findall(rf"\btypedef\s+([\w:]+)\s+{word}\s*;", plain)
    if name == "scalar_t":
        for macro, arguments in re.findall(r"\b\w*DISPATCH_(\w+)\s*\(([^{\"]*)", plain):
            choices += next((types for family, types in _FAMILIES if family in macro), ())
            choices += [meant for word, meant in _NAMED.items() if re.search(rf"::{word}\b|::k{word}\b", arguments)]
            choices += ["at::Half"] if re.search(r"AND_HALF|_HALF_AND|(?:\A|_)HALF", macro) else []
            choices += ["at::BFloat16"] if re.search(r"BFLOAT16|BF16", macro) else []
    return list(dict.fromkeys(choices))


def _multiplied(plain: str) -> set[str]:
    """The element types that the source's tensor-core operations name."""
    fragments = re.findall(r"\bmatrix_[ab]\s*,[^<>;]*?,\s*([A-Za-z_][\w:]*)\s*[,>]", plain)
    operands = r"\.(f16|bf16|tf32)\.(?:f16|bf16|tf32)\b"
    forms = re.findall(rf"\bmma(?:\.sync|_async)[\w.:]*?\.m\d+n\d+k\d+[\w.]*?{operands}", plain)
    return {_element(one) for one in fragments} | set(forms)


def _element(spelling: str) -> str:
    return _ELEMENTS.get(spelling) or _ELEMENTS.get(spelling.split("::")[-1], "")
