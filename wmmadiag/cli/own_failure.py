"""Whether a program that ends with a failure says that its kernels are wrong: it may lack a file, or a second GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.nodes import Node, arguments, called, descendants, outermost
from wmmadiag.csource.tree import Source, parse
from wmmadiag.programs.own_choices import chooses_wrong
from wmmadiag.programs.own_words import is_rounding

if TYPE_CHECKING:
    from wmmadiag.programs.build import BuiltProgram
    from wmmadiag.programs.run import ProgramResult
    from wmmadiag.programs.spec import ProgramSpec

_OPENS = frozenset({"fopen", "freopen", "open", "fread", "mmap", "ifstream", "fstream"})
"""What host code opens files with: the C and C++ libraries, and POSIX."""
_THROWN = re.compile(
    r"terminate called after throwing an instance of 'std::(?:bad_\w+|length_error|out_of_range|system_error|"
    r"ios_base::failure|filesystem::)"
)
_ENDS = frozenset({"exit", "_exit", "_Exit", "quick_exit"})
_FAILURE = "EXIT_FAILURE"


@dataclass(frozen=True, slots=True)
class Silence:
    """Why a program's failure is no word against its kernels, a clause; whether it is `sure` to be none."""

    why: str
    sure: bool = False


def about_no_kernel(
    program: BuiltProgram, idle: ProgramSpec, name: str, own: ProgramResult, text: str, seconds: float, *, chosen: bool
) -> Silence | None:
    """Why a program's failure says nothing of its kernels, or may not; None where nothing else explains it.

    Args:
        idle: in which its kernels do nothing.
        own: of its run as it is.
        text: of its source.
        chosen: whether it printed the wrong one of two words that it chooses between.
    """
    from wmmadiag.programs.run import run_program

    if not own.shown:
        return Silence("it ended before it had anything that its kernels computed", sure=True)
    source = parse(text)
    if not chosen and only_fails(source):
        return Silence("its main ends with no other status", sure=True)
    if not chosen and own.refused:
        return Silence(f"it ended where a call of the runtime was refused: {own.refused}")
    if not chosen and own.status and opens_files(source):
        return Silence("it opens files, and may have failed for what they hold, or for lack of them")
    if "cudaEventElapsedTime" in text:
        hastened = replace(idle, idle="", hastened=True)
        other = run_program(program, hastened, name, [], seconds=seconds, quiet=True)
        if not other.ended and other.status == 0 and not chooses_wrong(other.output, text):
            return Silence("it fails by how long its kernels take, which no GPU says here", sure=True)
    without = run_program(program, idle, name, [], seconds=seconds, quiet=True)
    if is_rounding(own.output, without.output):
        return Silence("the largest error that it names may be rounding")
    return None


def thrown_by_the_library(output: str) -> bool:
    """Whether a program that printed this ended by an exception that nobody caught, and that no code of its own throws
    for wrong numbers."""
    return _THROWN.search(output) is not None


def opens_files(source: Source) -> bool:
    """Whether host code opens files: as far as names tell."""
    return any(source.text(one) in _OPENS for one in descendants(source.root, "identifier", "type_identifier"))


def only_fails(source: Source) -> bool:
    """Whether a `main` ends with numbers alone, none of which is 0."""
    found = next((one for one in declarations(source).functions if one.name == "main" and one.body is not None), None)
    if found is None or found.body is None:
        return False
    last = next((one for one in reversed(found.body.named_children) if one.type != "comment"), None)
    if last is None or last.type != "return_statement":  # 0, if it comes to its end
        return False
    returned = [one.named_children for one in outermost(found.body, "return_statement", "lambda_expression")
                if one.type == "return_statement"]  # fmt: skip
    left = [arguments(one) for one in descendants(source.root, "call_expression") if called(one) in _ENDS]
    return all(len(one) == 1 and _is_failure(source, one[0]) for one in (*returned, *left))


def _is_failure(source: Source, value: Node) -> bool:
    text = source.text(value)
    if text == _FAILURE:
        return True
    try:
        return int(text, 0) != 0
    except ValueError:
        return False
