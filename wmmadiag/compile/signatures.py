"""The signature of a kernel, read from its source: parameters with their element types, template parameters, bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.compile.declarations import Declaration
from wmmadiag.compile.lexer import Token, closing, directive, line_index, split_arguments, tokenize
from wmmadiag.compile.model import Compilation, Entry
from wmmadiag.compile.old_context import Context, context, is_kernel, parsed, template_parameters
from wmmadiag.compile.sources import SourceTree, read_tree
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

# C type (qualifiers removed) → (element type, elements). CUDA C++ Programming Guide, "Built-in Vector Types";
# cuda_fp16.h, cuda_bf16.h, cuda_fp8.h; LP64 sizes.
_SCALARS: Mapping[str, str] = {
    "half": "f16",
    "__half": "f16",
    "half_t": "f16",
    "at::Half": "f16",
    "c10::Half": "f16",
    "__half_raw": "f16",
    "nv_bfloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "bfloat16": "bf16",
    "at::BFloat16": "bf16",
    "c10::BFloat16": "bf16",
    "float": "f32",
    "double": "f64",
    "bool": "u8",
    "char": "i8",
    "signed char": "i8",
    "unsigned char": "u8",
    "short": "i16",
    "unsigned short": "u16",
    "int": "i32",
    "signed": "i32",
    "signed int": "i32",
    "unsigned": "u32",
    "unsigned int": "u32",
    "uint": "u32",
    "long": "i64",
    "long int": "i64",
    "long long": "i64",
    "long long int": "i64",
    "unsigned long": "u64",
    "unsigned long long": "u64",
    "unsigned long long int": "u64",
    "size_t": "u64",
    "std::size_t": "u64",
    "ptrdiff_t": "i64",
    "intptr_t": "i64",
    "uintptr_t": "u64",
    "__nv_fp8_e4m3": "e4m3",
    "__nv_fp8_e5m2": "e5m2",
    **{
        f"{scope}{sign}int{bits}_t": f"{'u' if sign else 'i'}{bits}"
        for scope in ("", "std::")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}
_VECTORS: Mapping[str, tuple[str, int]] = {
    "half2": ("f16", 2),
    "__half2": ("f16", 2),
    "nv_bfloat162": ("bf16", 2),
    "__nv_bfloat162": ("bf16", 2),
    **{
        f"{name}{count}": (dtype, count)
        for name, dtype in (
            ("char", "i8"),
            ("uchar", "u8"),
            ("short", "i16"),
            ("ushort", "u16"),
            ("int", "i32"),
            ("uint", "u32"),
            ("longlong", "i64"),
            ("ulonglong", "u64"),
            ("float", "f32"),
            ("double", "f64"),
        )
        for count in (1, 2, 3, 4)
    },
}
_QUALIFIERS = frozenset(
    {"const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "register", "typename"}
)


def type_bytes(text: str) -> int | None:
    """Bytes of a scalar or vector type without qualifiers, "__half" or "float4"; None for any other."""
    dtype, lanes = (_SCALARS[text], 1) if text in _SCALARS else _VECTORS.get(text, ("", 1))
    if dtype in ("", "e4m3", "e5m2"):
        return 1 if dtype else None
    return int(dtype.lstrip("bfiu")) // 8 * lanes


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One parameter of a kernel.

    Attributes:
        name: "" when it has none.
        type: as written, blanks normalised ("const half *__restrict__" without the name).
        pointer: whether it is a pointer (or an array parameter).
        const: whether what it points to (or a plain value) is const.
        dtype: of the value or of what it points to: f16, bf16, f32, f64, i8 … u64, e4m3, e5m2; None: a struct, a
            pointer to a pointer, or a type that is not known.
        lanes: elements of a vector type (half2: 2), else 1.
    """

    name: str
    type: str
    pointer: bool
    const: bool
    dtype: str | None
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """One template parameter: `kind` is "type", or the type of a value ("int", "bool"); `default` as written or ""."""

    name: str
    kind: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class KernelSignature:
    """How a kernel is declared.

    Attributes:
        name: qualified ("ns::attn").
        parameters: in order.
        template_parameters: in order, empty for a plain kernel.
        launch_bounds: the arguments of `__launch_bounds__` as written, empty without it.
        place: of its name.
    """

    name: str
    parameters: tuple[KernelParameter, ...]
    template_parameters: tuple[TemplateParameter, ...]
    launch_bounds: tuple[str, ...]
    place: Place


def signature(source: Compilation | str, entry: Entry | str, *, file: str = "") -> KernelSignature:
    """The signature of one kernel.

    `source`: a compilation or source text (`file` names it in places and for quoted includes). `entry`: an entry, or a
    name as `Compilation.entry` takes it; template arguments in it give the types of parameters that depend on them.

    Raises:
        ConfigurationError: no such kernel in the source; the message lists what there is.
    """
    paths: tuple[Path, ...] = ()
    defines: Mapping[str, str | None] = {}
    if isinstance(source, Compilation):
        text, file, paths = source.text, source.source, source.options.include_paths
        defines = source.options.macros
        if isinstance(entry, str):
            entry = source.entry(entry)
    else:
        text = source
    wanted = (entry.name_expression or entry.demangled) if isinstance(entry, Entry) else entry
    tree = read_tree(text, file or "kernel.cu", paths, _provided)
    known = context(tree, defines)
    base = wanted.split("<")[0].split("::")[-1].strip()
    found = [(declaration, path) for declaration, path in _kernels(tree, known) if declaration.name == base]
    if not found:
        names = sorted({declaration.qualified_name for declaration, _ in _kernels(tree, known)})
        raise ConfigurationError(
            f"{file or 'the source'}: no kernel {base!r}",
            detail="kernels: " + ", ".join(names) if names else "",
            hint="name one of the kernels above" if names else "the source defines no __global__ function",
        )
    at = entry.place if isinstance(entry, Entry) else None
    if at is not None:
        line = at.line
        found.sort(key=lambda item: abs(_place_of(item[0], item[1], tree).line - line))
    declaration, path = found[0]
    return _read(declaration, _place_of(declaration, path, tree), wanted, type_aliases(tree))


def kernel_signatures(text: str, file: str = "kernel.cu") -> tuple[KernelSignature, ...]:
    """The signatures of all kernels defined in a source and the headers that it can include."""
    tree = read_tree(text, file, (), _provided)
    known, aliases = context(tree, {}), type_aliases(tree)
    return tuple(
        _read(declaration, _place_of(declaration, path, tree), declaration.qualified_name, aliases)
        for declaration, path in _kernels(tree, known)
    )


def _provided(name: str) -> bool:
    """Headers of the toolkit and of libraries declare no kernel of the user's: none is looked for."""
    del name
    return True


def _kernels(tree: SourceTree, known: Context) -> list[tuple[Declaration, str]]:
    """The kernel definitions, or declarations where there is no definition, with their file's key."""
    found: list[tuple[Declaration, str]] = []
    for file in tree.files():
        for declaration in parsed(file, known.specifiers):
            if declaration.kind in ("function", "prototype") and is_kernel(declaration, known):
                found.append((declaration, file.key))
    defined = {declaration.qualified_name for declaration, _ in found if declaration.kind == "function"}
    return [item for item in found if item[0].kind == "function" or item[0].qualified_name not in defined]


def _place_of(declaration: Declaration, key: str, tree: SourceTree) -> Place:
    file = next(file for file in tree.files() if file.key == key)
    named = [token for token in declaration.head if token.text == declaration.name]
    line, column = line_index(file.text)(named[-1].start if named else declaration.start)
    return Place(file.name, line, column)


def type_aliases(tree: SourceTree) -> dict[str, str]:
    """`using T = …;`, `typedef … T;` and `#define T type`: name → type text."""
    found: dict[str, str] = {}
    for file in tree.files():
        for token in file.tokens:
            if token.kind == "directive" and directive(token)[0] == "define":
                words = directive(token)[1].split(None, 1)
                if len(words) == 2 and "(" not in words[0] and re.fullmatch(r"[\w: ]+", words[1]):
                    found[words[0]] = words[1]
        for declaration in parsed(file):
            words = [token.text for token in declaration.head]
            if declaration.kind != "alias" or len(words) < 3:
                continue
            if words[0] == "using" and words[2] == "=":
                found[words[1]] = _join(words[3:])
            elif words[0] == "typedef" and "(" not in words:
                found[words[-1]] = _join(words[1:-1])
    return found


def _join(words: Sequence[str]) -> str:
    """Tokens as readable text: blanks between words, after commas and before `*`."""
    text = ""
    for word in words:
        follows_word = bool(text) and (text[-1].isalnum() or text[-1] in "_,>")
        if follows_word and (word[0].isalnum() or word[0] in "_*"):
            text += " "
        text += word
    return text


def _read(declaration: Declaration, place: Place, wanted: str, aliases: Mapping[str, str]) -> KernelSignature:
    head = declaration.head
    bound = dict(aliases)
    given = wanted[wanted.index("<") + 1 : wanted.rindex(">")] if "<" in wanted and ">" in wanted else ""
    names = template_parameters(head)
    values = [_join([token.text for token in part]) for part in split_arguments(tokenize(given))]
    template = _template(head)
    for parameter, value in zip(names, values, strict=False):
        bound[parameter] = value
    for one in template:
        if one.default and one.name not in bound:
            bound[one.name] = one.default
    start = _parameter_list(head, declaration.name)
    close = closing(head, start) if start < len(head) else start
    groups = split_arguments(head[start + 1 : close])
    parameters = tuple(
        parameter_of(group, bound) for group in groups if not (len(group) == 1 and group[0].text == "void")
    )
    return KernelSignature(declaration.qualified_name, parameters, template, _launch_bounds(head), place)


def _parameter_list(head: Sequence[Token], name: str) -> int:
    """Index of the `(` of the parameter list: the one after the kernel's name."""
    for index in range(len(head) - 1, 0, -1):
        if head[index].text == "(" and head[index - 1].text == name:
            return index
    return next((i for i in range(len(head) - 1, -1, -1) if head[i].text == "("), len(head))


def _template(head: Sequence[Token]) -> tuple[TemplateParameter, ...]:
    names = template_parameters(head)
    if not names or head[1].text != "<":
        return ()
    depth, end = 0, 1
    while end < len(head):
        if head[end].text == "(":
            end = closing(head, end)
        else:
            depth += (head[end].text == "<") - (head[end].text == ">")
        if depth == 0:
            break
        end += 1
    found = []
    for part in split_arguments(head[2:end]):
        words = [token.text for token in part]
        default = words[words.index("=") + 1 :] if "=" in words else []
        words = words[: words.index("=")] if "=" in words else words
        kind = "type" if words[0] in ("typename", "class") else _join(words[:-1])
        found.append(TemplateParameter(words[-1], kind, _join(default)))
    return tuple(found)


def _launch_bounds(head: Sequence[Token]) -> tuple[str, ...]:
    for index in range(len(head) - 1):
        if head[index].text == "__launch_bounds__" and head[index + 1].text == "(":
            parts = split_arguments(head[index + 2 : closing(head, index + 1)])
            return tuple(_join([token.text for token in part]) for part in parts)
    return ()


def parameter_of(group: Sequence[Token], bound: Mapping[str, str]) -> KernelParameter:
    """One declared parameter or member, `const half *__restrict__ q`; `bound`: type names → what they stand for."""
    words = [token.text for token in group]
    array = "[" in words
    if array:
        words = words[: words.index("[")]
    name = ""
    if len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and not _is_type_word(words, bound):
        name, words = words[-1], words[:-1]
    pointers = words.count("*") + array
    before_pointer = words[: words.index("*")] if "*" in words else words
    core = _resolve(_join([word for word in before_pointer if word not in _QUALIFIERS]), bound)
    while core.endswith("*"):  # an alias of a pointer type
        pointers, core = pointers + 1, core[:-1].strip()
    const = "const" in before_pointer or "const" in core.split()
    core = _join([word for word in core.split() if word not in _QUALIFIERS])
    dtype, lanes = (_SCALARS.get(core), 1) if core in _SCALARS else _VECTORS.get(core, (None, 1))
    if pointers > 1:
        dtype, lanes = None, 1
    return KernelParameter(name, _join(words), pointers > 0, const, dtype, lanes)


def _is_type_word(words: Sequence[str], bound: Mapping[str, str]) -> bool:
    """Whether the last word belongs to the type: `unsigned int`, or a lone `const float`."""
    last, rest = words[-1], [word for word in words[:-1] if word not in _QUALIFIERS]
    if last in _QUALIFIERS or last in ("int", "long", "short", "char", "double", "float", "unsigned", "signed"):
        return True
    if rest and rest[-1] == "::":
        return True
    return not rest and (last in _SCALARS or last in _VECTORS or last in bound)


def _resolve(core: str, bound: Mapping[str, str]) -> str:
    for _ in range(8):
        if core in _SCALARS or core in _VECTORS or core not in bound or bound[core] == core:
            break
        core = bound[core]
    return core
