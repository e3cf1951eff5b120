"""Constants and one-line helpers of a CUDA source, as text: what launch expressions refer to."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.c_expressions import Helper, split_arguments

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+(\S[^\n]*?)[ \t]*$", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)\(([^)]*)\)[ \t]*(\S[^\n]*?)[ \t]*$", re.MULTILINE)
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s+(?:static\s+|const\s+|unsigned\s+)*"
    r"(?:int|unsigned|uint|size_t|long|float|double|auto|u?int\d+_t|std::size_t)\s+([A-Za-z_]\w*\s*=\s*[^;{}]+);"
)
_FUNCTION = re.compile(
    r"\b(?:int|unsigned|uint|size_t|long|auto|T|u?int\d+_t)\s+([A-Za-z_]\w*)\s*\(([^()]*)\)\s*\{\s*return\s+([^;{}]+);\s*\}"
)
_ENUM = re.compile(r"\benum\b[^{};]*\{([^}]*)\}")


def without_comments(text: str) -> str:
    """The text with comments blanked and continued lines joined."""
    return _COMMENT.sub(" ", text.replace("\\\n", " "))


def constants(text: str) -> dict[str, str]:
    """Name → C text of `#define NAME value`, `constexpr int NAME = value, …;` and enumerators with a value.

    A name that is defined differently in different places (per variant, say) is left out: which one holds is unknown.
    """
    plain = without_comments(text)
    found: dict[str, set[str]] = {}
    pairs = _DEFINE.findall(plain)
    for declared in _CONSTANT.findall(plain):
        for declarator in split_arguments(declared):  # `const int M = 16, N = 32;`
            name, equals, value = declarator.partition("=")
            if equals:
                pairs.append((name.strip(), value.strip()))
    for body in _ENUM.findall(plain):
        pairs += re.findall(r"([A-Za-z_]\w*)\s*=\s*([^,}]+)", body)
    for name, value in pairs:
        found.setdefault(name, set()).add(" ".join(value.split()))
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}


def processor_counts(text: str) -> dict[str, str]:
    """Variables that host code asks the runtime to set to the number of multiprocessors."""
    asked = re.findall(r"cudaDeviceGetAttribute\s*\(\s*&\s*(\w+)\s*,\s*(cudaDevAttrMultiProcessorCount)\b", text)
    return dict(asked)


def helpers(text: str) -> dict[str, Helper]:
    """Function-like macros of one line, and functions whose body is one return statement."""
    plain = without_comments(text)
    found = {}
    for name, parameters, body in _MACRO.findall(plain):
        found[name] = Helper(tuple(part.strip() for part in parameters.split(",") if part.strip()), body)
    for name, parameters, body in _FUNCTION.findall(plain):
        names = [part.replace("&", " ").split()[-1] for part in parameters.split(",") if part.split()]
        found.setdefault(name, Helper(tuple(names), " ".join(body.split())))
    return found


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """A template parameter: `kind` is "typename", or the type of a value."""

    kind: str
    name: str


def template_parameters(text: str, function: str) -> list[TemplateParameter]:
    """The template parameters of a function or kernel, by its unqualified name; empty if it is no template."""
    return _declared_parameters(text, rf"[^;{{}}]*?\b{re.escape(function)}\s*\(")


def _declared_parameters(text: str, what: str) -> list[TemplateParameter]:
    """The parameters of the first template whose declaration goes on as the pattern says."""
    declared = re.search(rf"template\s*<([^<>]*)>{what}", without_comments(text))
    found = []
    for part in declared[1].split(",") if declared is not None else []:
        words = part.split("=")[0].split()
        if words:
            kind = "typename" if words[0] in ("typename", "class") else " ".join(words[:-1])
            found.append(TemplateParameter(kind, words[-1]))
    return found


def split_template_arguments(text: str) -> list[str]:
    """The parts of `Traits<64, 32>, 64, half` between top-level commas; `<` opens a list here."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def template_values(text: str, entry: str) -> dict[str, str]:
    """What a name expression gives a kernel's template parameters: ("attn<64, 32>") → {"D": "64", "BM": "32"}."""
    name, bracket, arguments = entry.partition("<")
    if not bracket:
        return {}
    parameters = template_parameters(text, name.strip().split("::")[-1])
    values = split_template_arguments(arguments.strip().removesuffix(">"))
    found: dict[str, str] = {}
    for value in values:
        # A class of constants: what it is made from counts as the kernel's own.
        traits, opened, inner = value.partition("<")
        if opened:
            own = _declared_parameters(text, rf"\s*(?:struct|class)\s+{re.escape(traits.strip().split('::')[-1])}\b")
            numbers = split_template_arguments(inner.removesuffix(">"))
            found.update(zip((parameter.name for parameter in own), numbers, strict=False))
    return {**found, **dict(zip((parameter.name for parameter in parameters), values, strict=False))}


def call_values(text: str, function: str) -> dict[str, str]:
    """What the first call `function<64, half>(…)` in the source gives a host template's parameters."""
    plain = without_comments(text)
    parameters = template_parameters(text, function)
    if not function or not parameters:
        return {}
    inner = r"<(?:[^<>;{}()]|<[^<>;{}()]*>)*>"
    called = re.search(rf"\b{re.escape(function)}\s*({inner})\s*\(", plain)
    if called is None:
        return {}
    values = split_template_arguments(called[1][1:-1])
    return dict(zip((parameter.name for parameter in parameters), values, strict=False))


def class_values(text: str, name: str) -> dict[str, str]:
    """What the first use of a class template, `Gemm<half, 64>::run(…)`, gives its parameters."""
    parameters = _declared_parameters(text, rf"\s*(?:struct|class)\s+{re.escape(name)}\b")
    inner = r"<((?:[^<>;{}()]|<[^<>;{}()]*>)*)>"
    used = re.search(rf"\b{re.escape(name)}\s*{inner}", without_comments(text)) if parameters else None
    values = split_template_arguments(used[1]) if used is not None else []
    return dict(zip((parameter.name for parameter in parameters), values, strict=False))


@dataclass(frozen=True, slots=True)
class HostTensor:
    """How host code makes a tensor: `sizes` as C text (empty if unknown), `fill` as C text ("" if undefined)."""

    sizes: tuple[str, ...]
    fill: str


def host_tensor(text: str, name: str) -> HostTensor | None:
    """What host code says about a tensor or buffer that it passes to a kernel, or None.

    Understood: `x = torch::zeros({…})` and its relatives (ones, full, empty, …_like), `cudaMemset(x, 0, …)`.
    """
    plain = without_comments(text)
    word = re.escape(name)
    made = re.search(rf"\b{word}\s*=\s*(?:torch|at)::(zeros|ones|full|empty)(_like)?\s*\((.*?)\)\s*;", plain, re.DOTALL)
    if made is not None:
        parts = split_arguments(made[3])
        sizes = () if made[2] or not parts else tuple(split_arguments(parts[0].strip("{}")))
        fill = {"zeros": "0", "ones": "1", "empty": ""}.get(made[1])
        if fill is None:
            fill = parts[1] if len(parts) > 1 else ""
        return HostTensor(sizes, fill)
    if re.search(rf"\bcudaMemset(?:Async)?\s*\(\s*{word}\s*,\s*0(?:x0+)?\s*,", plain):
        return HostTensor((), "0")
    return None


def dimension_members(local: Mapping[str, str], text: str) -> dict[str, str]:
    """`grid.x` and its like: from `grid.x = …;` in the source, and of local `dim3` definitions."""
    found = {}
    for name, value in local.items():
        inner = re.fullmatch(r"dim3\s*[({](.*)[)}]", value.strip(), re.DOTALL)
        if inner is not None:
            parts = [*split_arguments(inner[1]), "1", "1", "1"]
            found.update({f"{name}.{axis}": part for axis, part in zip("xyz", parts, strict=False)})
    for name, axis, value in re.findall(r"\b([A-Za-z_]\w*)\s*\.\s*([xyz])\s*=\s*([^=;][^;]*);", without_comments(text)):
        found[f"{name}.{axis}"] = " ".join(value.split())
    return found


def uses_tf32(text: str) -> bool:
    """Whether the source multiplies in tf32: its f32 pointers then hold tf32 operands."""
    return re.search(r"precision::tf32|\.tf32\b", without_comments(text)) is not None


def accumulates_in_half(text: str) -> bool:
    """Whether every accumulator that the source names is f16: WMMA fragments, and `mma.sync` with an f16 D and C."""
    named = accumulator_types(text)
    return bool(named) and named <= {"half", "__half", "f16"}


def accumulator_types(text: str) -> set[str]:
    """The types of accumulators that a source names, as it spells them; a template's parameter among them."""
    plain = without_comments(text)
    fragments = re.findall(r"\baccumulator\s*,[^<>;]*?,\s*([\w:]+)\s*>", plain)
    forms = re.findall(r"\bmma\.sync\.aligned\.m\d+n\d+k\d+\.\w+\.\w+\.(\w+)\.\w+\.\w+\.\w+", plain)
    return {*fragments, *forms}


def guards_length(text: str, names: Collection[str]) -> bool:
    """Whether code compares indices with one of these lengths, and nowhere asks for a multiple of something.

    The condition of a `for` loop is no guard: kernels that take whole tiles only have it, too.
    """
    plain = without_comments(text)
    if not names:
        return False
    any_name = "(?:" + "|".join(re.escape(name) for name in sorted(names)) + ")"
    if re.search(rf"\b{any_name}\s*%|%\s*{any_name}\b", plain):
        return False
    plain = re.sub(r"\b(?:for\s*\([^;{}]*;[^;{}]*;|(?:assert|[A-Z_]*CHECK[A-Z_]*)\s*\([^;]*;)", " ", plain)
    return re.search(rf"(?<![<>])(?:<=?|>=)\s*{any_name}\b(?!\s*[(<])", plain) is not None


def told_by_formulas(operation: str, text: str) -> dict[str, str]:
    """Parameters of an operation of which a source has the formula, with their words; not where it has several."""
    plain = without_comments(text)
    told = {}
    for name, parameter in OPERATIONS[operation].parameters.items():
        found = [word for word, one in parameter.formulas.items() if re.search(one, plain, re.IGNORECASE)]
        if len(found) == 1:
            told[name] = found[0]
    return told
