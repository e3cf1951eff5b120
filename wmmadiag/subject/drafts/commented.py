"""A launch that a comment writes down: `// gemm<64><<<dim3(N / 64, M / 64), 128>>>(A, B, C, M, N, K);`.

It becomes a function of the host, whose parameters are the names that the comment uses and nothing defines. A comment
may leave out what is passed, `gemm <<<N / 64, 128>>>`, or say the shape in words at the kernel: `grid (heads, tokens),
block head_size / 2`; the kernel then gets what its own parameters are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wmmadiag.hostcode.program import HostFunction, HostProgram
from wmmadiag.hostcode.types import split_list

_COMMENT = re.compile(r"/\*.*?\*/|(?://[^\n]*(?:\n[ \t]*(?=//)|$))+", re.DOTALL | re.MULTILINE)
_MARGIN = re.compile(r"^[ \t]*(?://+|/\*+|\*+(?!/))?[ \t]?|\*/[ \t]*$", re.MULTILINE)
# what such a comment may make before it launches: shapes and numbers
_BEFORE = re.compile(
    r"\b(?:dim3|(?:const(?:expr)?\s+)*(?:auto|int|unsigned(?:\s+int)?|size_t))\s+"
    r"(?:\w+\s*(?:\([^;]*\)|\{[^;]*\}|=[^;]*)|\w+\s*,\s*[^;]*);"
)
_MADE = re.compile(r"(?:dim3|auto|int|unsigned|size_t)\s+(\w+)|,\s*(\w+)\s*[=({]")
_WORDS = (
    "dim3 const constexpr auto int unsigned size_t sizeof float double half char long short bool true false nullptr "
    "NULL void static_cast reinterpret_cast stream cudaStream_t if else for"
)
_ABOVE = re.compile(r"(?:\A|[};\n])\s*((?:(?://[^\n]*\n|/\*(?:(?!\*/).)*\*/)\s*)+)\Z", re.DOTALL)
_SHAPED = re.compile(r"grid|block|thread|dim|cta", re.IGNORECASE)
_WORDED = (
    r"(?:_?dim|_?size)?\b\s*(?:is|of|=|:)?\s*(?:dim3\s*)?"
    r"(?:\((?P<several>(?:[^()]|\([^()]*\))+)\)|(?P<one>\w+(?:\s*[*/+-]\s*\w+)*))"
)
_CEIL = r"\b(?:ceil(?:_?div)?|cdiv|div_?up|divide_round_up)\(([^(),]+),([^(),]+)\)"
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\b(?!\s*\()(?!\s*::)")


def commented_launch(text: str, program: HostProgram, kernel: HostFunction) -> str:
    """A host function that launches a kernel as a comment of its source does; "" where none says how, or all of it."""
    name = kernel.function.name
    comments = [_MARGIN.sub("", one[0]) for one in _COMMENT.finditer(text)]
    speaking = [one for one in comments if "<<<" in one and re.search(rf"\b{name}\b", one)]
    launches = [pair for one in speaking for pair in _launches(one, name)]
    launches += [(shape, "") for one in speaking for shape in _without_arguments(one, kernel)]
    launches += [(shape, "") for shape in _in_words(text, program, kernel)]
    for launch, before in launches:
        made = [one for one in _BEFORE.findall(before) if not _is_cut(one)]
        function = _function(made, launch, program, kernel)
        if function:
            return function
    return ""


def _without_arguments(comment: str, kernel: HostFunction) -> Iterator[str]:
    """Launches of a comment that say no more than the shape, with the kernel's own names for what it gets."""
    for found in re.finditer(rf"\b{kernel.function.name}\s*<<<(.+?)>>>(?!\s*\()", comment):
        shapes = split_list(found[1])
        # What is called a grid is one; any other name is a number of blocks or threads.
        named = [re.fullmatch(r"[A-Za-z_]\w*", one) and not _SHAPED.search(one) for one in shapes[:2]]
        wrapped = [f"dim3({one})" if number else one for one, number in zip(shapes, named, strict=False)]
        yield _launch(kernel, [*wrapped, *shapes[2:3]])


def _in_words(text: str, program: HostProgram, kernel: HostFunction) -> Iterator[str]:
    """The shape that a comment in a kernel, or right above it, says in words."""
    before = text.encode("utf-8", "surrogateescape")[: kernel.function.start].decode("utf-8", "ignore")
    above = _ABOVE.search(before)
    held = [above[1]] if above is not None else []
    held += [kernel.source.text(kernel.function.body)] if kernel.function.body is not None else []
    known = {*program.variables, *program.macros, *(one.name for one in kernel.function.parameters)}
    known |= {one.name for one in kernel.function.template or ()}
    for comment in (one for whole in held for one in _COMMENT.finditer(whole)):
        plain = _MARGIN.sub("", comment[0])
        found = [re.search(rf"\b{what}{_WORDED}", plain, re.IGNORECASE) for what in ("grid", "block")]
        shapes = [(one["several"] or one["one"]).strip() if one is not None else "" for one in found]
        # In parentheses any name is a number; without, a word may be one of a sentence.
        alone = [set(re.findall(r"[A-Za-z_]\w*", one["one"] or "")) for one in found if one is not None]
        if all(shapes) and not any(re.search(r"\w\s+\w", one) for one in shapes) and all(one <= known for one in alone):
            yield _launch(kernel, [f"dim3({one})" for one in shapes])


def _launch(kernel: HostFunction, shapes: Sequence[str]) -> str:
    """A launch in a shape, of what a kernel's own parameters are called; roundings up in C++."""
    whole = [re.sub(_CEIL, r"((\1) + (\2) - 1) / (\2)", one) for one in shapes]
    names = ", ".join(one.name for one in kernel.function.parameters)
    return f"{kernel.function.name}<<<{', '.join(whole)}>>>({names})"


def _launches(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Each launch of a kernel, `name<…><<<…>>>(…)`, with what stands before it."""
    for found in re.finditer(rf"\b{name}\s*(?:<(?!<)[^;]*?>\s*)?<<<", text):
        middle = text.find(">>>", found.end())
        opened = text.find("(", middle)
        if middle < 0 or opened < 0 or text[middle + 3 : opened].strip():
            continue
        closed = _closing(text, opened)
        if closed > 0:
            yield text[found.start() : closed + 1], text[: found.start()]


def _closing(text: str, opened: int) -> int:
    depth = 0
    for at in range(opened, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1


def _is_cut(statement: str) -> bool:
    return statement.count("(") != statement.count(")") or "..." in statement


def _function(made: list[str], launch: str, program: HostProgram, kernel: HostFunction) -> str:
    """The function; "" where the comment leaves out what is launched with, or with what shape."""
    arguments = split_list(launch[launch.index(">>>") + 3 :].strip()[1:-1])
    shapes = split_list(launch.partition("<<<")[2].partition(">>>")[0])
    parameters = kernel.function.parameters
    if "..." in launch or len(arguments) != len(parameters) or not 2 <= len(shapes) <= 4:
        return ""
    own = {word for one in made for pair in _MADE.findall(one) for word in pair if word}
    known = own | {*_WORDS.split()} | {kernel.function.name} | program.variables.keys() | program.macros.keys()
    known |= program.functions.keys() | program.enumerators.keys() | program.classes.keys() | program.aliases.keys()
    given: dict[str, str] = {}
    for argument, parameter in zip(arguments, parameters, strict=True):
        if re.fullmatch(r"[A-Za-z_]\w*", argument) and argument not in known:
            stars = "*" * (parameter.pointers or bool(parameter.dimensions))
            given.setdefault(argument, f"{parameter.type} {stars}{argument}")
        elif parameter.pointers:
            return ""  # not a name: what it points to is another one's
    if any(one not in known | given.keys() and re.fullmatch(r"[A-Za-z_]\w*", one) for one in shapes[:2]):
        return ""  # a shape that the comment does not make
    for word in _CALLED.findall(" ".join([*made, launch])):
        if word not in known:
            given.setdefault(word, f"int {word}")
    name = f"launch_in_a_comment_of_{kernel.function.name}"
    space = "".join(f"using namespace {one}; " for one in [kernel.function.scope] if one)
    return f"\nvoid {name}({', '.join(given.values())}) {{ {space}{' '.join(made)} {launch}; }}\n"
