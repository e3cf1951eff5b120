"""The value of a constant of a source, from the compiler: `sizeof(SharedStorage)`, `Traits<64>::kThreads`."""

from __future__ import annotations

import re

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import WmmadiagError

_NAME = "wmmadiag_asked"


def constant_value(
    text: str, file: str, expression: str, options: CompileOptions | None = None, *, before: str = ""
) -> int | None:
    """The value of a constant integer expression at the end of a source; None if it is no such thing.

    Args:
        text: of the source; `file` names it for quoted includes.
        expression: C++.
        options: macros, include paths and standard.
        before: declarations for the expression alone, such as "using T = Traits<64>;".
    """
    if len(expression) > 500 or re.search(r"[;{}#\"'\n]", expression):
        return None
    asked = (
        f"{text}\nnamespace wmmadiag_asks {{\n{before}\n"
        f'extern "C" __device__ long long {_NAME} = static_cast<long long>({expression});\n}}\n'
    )
    try:
        found = compile_text(asked, file, options)
    except WmmadiagError:
        return None
    match = re.search(rf"\.global\b[^;\n]*\b{_NAME}(?:\s*=\s*(-?\d+))?;", found.ptx)
    return None if match is None else int(match[1] or 0)
