"""The type in which a kernel sums, from its compiled instructions: templates hide it from whoever reads the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from wmmadiag.compile.model import Compilation
from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import Setting
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_session import session_for
from wmmadiag.subject.drafts.code_facts import accumulator_types
from wmmadiag.subject.symbols import rendered_entry

_PLAIN = frozenset({"half", "__half", "f16", "float", "f32", "int", "int32_t", "s32", "double", "f64"})
# PTX ISA, "wmma.mma" and "mma": the type of D is the first one after the shape (and the layouts of A and B).
_FORMS = re.compile(
    r"\b(?:wmma\.mma|mma)\.sync\.aligned\.(?:(?:row|col)\.)*m\d+n\d+k\d+\.(?:(?:row|col)\.)*(?:satfinite\.)?(\w+)"
)

_SAME = re.compile(r"(?:mov|selp|mul)\.")  # what hands a value on, scaled


def with_accumulators(card: Card, text: str) -> Card:
    """A derived card that says f16 where every tensor-core sum of the compiled kernel is kept in that.

    Nothing is compiled where the source names the types itself, or the card says one.

    Args:
        card: derived from a source.
        text: of that source.
    """
    known = "accumulate" not in OPERATIONS[card.computes.operation].parameters
    if known or "accumulate" in card.computes.parameters or accumulator_types(text) <= _PLAIN:
        return card
    from wmmadiag.compile.driver import compile_source

    case, variant = card.cases[0], card.variants[0]
    try:
        entry = rendered_entry(card, case, variant)
        compiled = compile_source(card.source, session_for(card, "sm_90", None, None).compile_options(case, variant))
        kernel = compiled.entry(entry).name
    except WmmadiagError:
        return card  # the check itself will say so
    if set(_FORMS.findall(_body(compiled.ptx, kernel))) != {"f16"}:
        return card
    parameters = {**card.computes.parameters, "accumulate": "f16"}
    return replace(card, computes=replace(card.computes, parameters=parameters))


def computes_in(compilation: Compilation, entry: str, parameters: Mapping[str, Setting]) -> bool:
    """Whether a compiled kernel has instructions of the types that these parameters of an operation name.

    What is merely near under coarser arithmetic may as well be wrong: the code has to show that arithmetic. What turns
    halves back into floats may keep what rounding took away.
    """
    body = _body(compilation.ptx, compilation.entry(entry).name)
    if parameters.get("accumulate") == "f13" and not re.search(r"^\.target\s+sm_89\b", compilation.ptx, re.MULTILINE):
        return False  # no other target has that unit
    if parameters.get("multiply") in ("f16", "bf16") and re.search(r"\bcvt\.f32\.b?f16\b", body):
        return False
    if (
        parameters.get("accumulate") == "parts"
    ):  # the output is added to behind all products, by atomics or in turns of blocks
        behind = body[max((one.end() for one in re.finditer(r"\bmma\.[\w.]*sync\b", body)), default=len(body)) :]
        turns = re.search(r"\b(?:red|atom|fence|membar|ld\.(?:volatile|acquire|relaxed))\b", behind) is not None
        read = re.search(r"\bld\.[\w.]*global\b", behind) is not None and "f16" in behind
        return re.search(r"\b(?:red|atom)\.[\w.]*f16", behind) is not None or (turns and read)
    if "as-stored" in parameters.values():  # each step is rounded, not the stored result alone
        native = re.search(r"\b(?:add|sub|mul|fma)\.[\w.]*f16(?:x2)?\b", body)
        rounded, stored = (len(re.findall(one, body)) for one in (r"\bcvt\.rn\.b?f16\.f32", r"\bst\.global\.[bu]16\b"))
        return native is not None or rounded > stored
    if "exp_dtype" in parameters and not _keeps_exponentials(body, str(parameters["exp_dtype"])):
        return False
    return all(re.search(_evidence(name, str(value)), _part(name, body)) for name, value in parameters.items())


def _part(parameter: str, body: str) -> str:
    """Where a kernel would show it: queries are scaled before the first product, scores kept before exponentials."""
    product = re.search(r"\bmma\.[\w.]*sync\b", body)
    start = product.start() if product is not None else 0
    if parameter == "scaled_q_dtype":
        return body[:start] or body
    exponential = body.find("ex2.", start)
    return body[start:exponential] if parameter == "score_dtype" and exponential > 0 else body


def _keeps_exponentials(body: str, dtype: str) -> bool:
    """Whether some exponential is computed in a type, or converted to it, and nothing is summed of the wider value."""
    if re.search(rf"\bex2\.[\w.]*\b{dtype}", body):
        return True
    lines = re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.]*)\s+\{?(%\w+)\}?,([^;]*);", body, re.MULTILINE)
    readers: dict[str, list[tuple[str, str]]] = {}
    for opcode, written, rest in lines:
        for name in set(re.findall(r"%\w+", rest)):
            readers.setdefault(name, []).append((opcode, written))
    for start in [written for opcode, written, _ in lines if opcode.startswith("ex2.")]:
        seen, waiting = {start}, [start]
        read: list[str] = []
        while waiting:
            for opcode, written in readers.get(waiting.pop(), ()):
                read.append(opcode)
                if _SAME.match(opcode) and written not in seen:
                    seen.add(written)
                    waiting.append(written)
        kept = any(re.match(rf"cvt\.[\w.]*\.{dtype}(?:x2)?\.f32", one) for one in read)
        if kept and not any(re.match(r"(?:add|sub|fma)\.", one) for one in read):
            return True
    return False


def _evidence(parameter: str, dtype: str) -> str:
    if dtype == "f13":
        return r"\bmma\.sync[\w.]*\.f32\.e[45]m[23]\.e[45]m[23]\.f32\b"
    if parameter == "accumulate":
        return _FORMS.pattern.removesuffix(r"(\w+)") + rf"{dtype}\b"
    if parameter == "multiply":
        # PTX ISA, "wmma.mma": of half operands the types of D and C alone are named.
        halves = r"|\bwmma\.mma\.sync[\w.]*\.m\d+n\d+k\d+\.f(?:16|32)\.f(?:16|32)(?![\w.])" if dtype == "f16" else ""
        return rf"\b(?:wmma\.)?mma\.sync[\w.]*\.{dtype}\b{halves}"
    return rf"\b(?:cvt\.[\w.]*\.{dtype}(?:x2)?\.f32|(?:add|sub|mul|fma|max|ex2|tanh)\.[\w.]*{dtype})"


def _body(ptx: str, kernel: str) -> str:
    following = r"^\s*(?:\.visible|\.weak|\.extern|\.func|\.entry)\b|\Z"  # inline assembly has braces of its own
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\b.*?(?={following})", ptx, re.DOTALL | re.MULTILINE)
    return found[0] if found is not None else ""
