"""Options as they are written for nvcc: to ours, so that the line that compiles a program elsewhere runs it here.

Sources: CUDA Compiler Driver NVCC, "NVCC Command Options".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_NOTHING_OF = """-o --output-file -Xptxas --ptxas-options -Xcudafe -ccbin --compiler-bindir -cudart --cudart -x -O
--optimize -maxrregcount --maxrregcount -t --threads -rdc --relocatable-device-code -diag-suppress --diag-suppress -m
--machine -code --gpu-code"""
_VALUED = {
    "-arch": "arch", "--gpu-architecture": "arch", "-gencode": "arch", "--generate-code": "arch",
    "-std": "std", "-Xcompiler": "host", "--compiler-options": "host", "-Xlinker": "host", "-isystem": "include",
    "-L": "folder", "-l": "library", **dict.fromkeys(_NOTHING_OF.split(), "nothing"),
}  # fmt: skip
"""Option that has a value → what is made of it; "nothing": it has no meaning here."""
_ATTACHED = re.compile(r"(-O|-l|-L|-m)([^=\s].*)")
_WITHOUT = """-g -G --debug --device-debug -lineinfo --generate-line-info -w --disable-warnings -pg -res-usage
--resource-usage -expt-relaxed-constexpr --expt-relaxed-constexpr -extended-lambda --extended-lambda
-expt-extended-lambda --expt-extended-lambda -link --link -restrict --restrict -dlto -Wno-deprecated-gpu-targets"""
_BARE = frozenset(_WITHOUT.split())
"""Options without a value that have no meaning here: what they allow is allowed, what they tell is told, or no code is
made that they change."""
_FAST = ("-use_fast_math", "--use_fast_math")
_LIBRARIES = """cublas cublasLt cublas_static cublasLt_static cufft curand cusolver cusparse cudart cudart_static
cudadevrt cuda nvrtc nvToolsExt nvJitLink culibos m c stdc++ gomp pthread rt dl"""
_HAD = frozenset(_LIBRARIES.split())
"""Libraries that are there without being asked for."""
_OLDEST = 75


def ours(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command line with nvcc's options as ours, and those of nvcc's that have no meaning here."""
    made, ignored, arches = list[str](), list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        attached = _ATTACHED.fullmatch(word)
        if word in _FAST:
            made.append("--use-fast-math")
        elif word in _BARE:
            ignored.append(word)
        elif word in _VALUED or (sign and name in _VALUED):
            value = value if sign else next(rest, "")
            made += _of_value(_VALUED[name], value, arches)
            ignored += [word if sign else f"{word} {value}"] * (_VALUED[name] == "nothing")
        elif attached:
            made += _of_value(_VALUED[attached[1]], attached[2], arches)
            ignored += [word] * (_VALUED[attached[1]] == "nothing")
        else:
            made.append(word)
    if arches:
        newest = max(map(_number, arches))
        made += ["--arch", f"sm_{max(newest, _OLDEST)}"]
        ignored += [f"sm_{newest} (sm_{_OLDEST} is the oldest here, and runs it)"] * (newest < _OLDEST)
    return made, ignored


def _of_value(kind: str, value: str, arches: list[str]) -> Iterator[str]:
    if kind == "arch":
        arches += [f"sm_{one}" for one in re.findall(r"\b(?:sm|compute|lto)_(\d+)[af]?\b", value)]
    elif kind == "std":
        yield f"--std={value}"
    elif kind == "include":
        yield f"-I{value}"
    elif kind == "host":
        yield from (f"-X={one}" for one in value.split(","))
    elif kind == "folder":
        yield f"-X=-L{value}"
    elif kind == "library" and value not in _HAD:
        yield f"-X=-l{value}"


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_"))
