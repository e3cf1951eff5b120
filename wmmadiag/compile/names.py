"""Readable names of mangled kernels."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
from collections.abc import Callable

_LONG = 1024
"""Names of this length on are refused by the runtimes of GCC, however right they are."""
_ABI_TAGS = re.compile(r"\[abi:\w+\]")  # Numba puts a version and a hash into them
# NVRTC gives static functions a prefix of their own: _INTERNAL_<hash>_<length>_<file>_<name>.
_INTERNAL = re.compile(r"\b_INTERNAL_\w+::|\(anonymous namespace\)::")


def demangle(name: str) -> str:
    """Qualified name with template arguments, without return type and parameters; `name` itself if it is not mangled.

    "_Z1kILi3EEvPK6__halfS2_Pf" → "k<3>".
    """
    if not name.startswith("_Z"):
        return name
    full = _in_full(name)
    if full is None:
        return qualified_name(name)
    return without_signature(_ABI_TAGS.sub("", full))


@functools.cache
def full_name(name: str) -> str:
    """`_Z1kPfi` → `k(float*, int)`; a name that is not mangled, or cannot be read, stays as it is."""
    full = _runtime_demangler()(name) if name.startswith("_Z") else None
    return _INTERNAL.sub("", full) if full else name


def short_name(shown: str) -> str:
    """A readable name without its return type, template arguments and parameters: `void ns::f<3>(int)` → `ns::f`."""
    kept = []
    depth = 0
    for character in shown:
        if character == "(" and not depth:
            break
        depth += character == "<"
        if not depth:
            kept.append(character)
        depth -= character == ">"
    name = "".join(kept).split(" ")[-1]
    return name if name and depth == 0 and "operator" not in shown else shown


def parameter_types(name: str) -> str | None:
    """The parameter types of a mangled function, "__half const*, int"; None where its name tells none."""
    full = _in_full(name) if name.startswith("_Z") else None
    if full is None:
        return None
    # An unnamed namespace is not written when what it holds is named.
    full = full.replace("(anonymous namespace)::", "")
    depth = 0
    for index in range(len(full) - 1, -1, -1):
        depth += (full[index] == ")") - (full[index] == "(")
        if depth == 0 and full[index] == "(":
            return full[index + 1 : full.rindex(")")]
    return None


def base_name(name: str) -> str:
    """The bare identifier of a mangled function name: "_ZN2ns4attnILi64EEEvPf" → "attn"."""
    return qualified_name(name).split("::")[-1]


def qualified_name(name: str) -> str:
    """Namespaces and identifier of a mangled name, template arguments left out (Itanium C++ ABI, 5.1)."""
    match = re.match(r"_Z(N)?", name)
    if match is None:
        return name
    position, nested, parts = match.end(), bool(match[1]), list[str]()
    position = _skip(r"[rVKRO]*L?", name, position) if nested else _skip("L?", name, position)
    while True:
        size = re.compile(r"L?(\d+)").match(name, position)
        if size is None:
            break
        start = size.end()
        part = name[start : start + int(size[1])]
        if not part.startswith(("_GLOBAL__N", "_INTERNAL_")):
            parts.append(part)
        position = start + int(size[1])
        if not nested:
            break
    return "::".join(parts) or name


def _skip(pattern: str, text: str, position: int) -> int:
    match = re.compile(pattern).match(text, position)
    return match.end() if match else position


@functools.cache
def _runtime_demangler() -> Callable[[str], str | None]:
    """The C++ runtime's own demangler where one can be loaded; it knows all of the ABI."""
    for library in ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.1.dylib", "libc++abi.dylib", "libc++.1.dylib"):
        try:
            function = ctypes.CDLL(library).__cxa_demangle
            free = ctypes.CDLL(None).free
        except (OSError, AttributeError, TypeError):
            continue
        function.restype = ctypes.c_void_p
        free.argtypes = [ctypes.c_void_p]
        return functools.partial(_call_demangler, function, free)
    return _no_demangler


def _call_demangler(function: Callable[..., int | None], free: Callable[..., None], name: str) -> str | None:
    status = ctypes.c_int()
    pointer = function(name.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return None
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        free(pointer)


def _in_full(name: str) -> str | None:
    """With return type and parameters; None where nobody can tell."""
    return _runtime_demangler()(name) or (_of_binutils(name) if len(name) >= _LONG else None)


@functools.cache
def _of_binutils(name: str) -> str | None:
    """What binutils makes of a name: told so, it knows no limit."""
    tool = shutil.which("c++filt")
    if tool is None:
        return None
    done = subprocess.run([tool, "-r"], input=name, capture_output=True, text=True, check=False)
    said = done.stdout.strip()
    return said if done.returncode == 0 and said != name else None


def _no_demangler(name: str) -> str | None:
    del name
    return None


def without_signature(full: str) -> str:
    """ "void ns::k<3>(__half const*)" → "ns::k<3>"."""
    full = full.replace("(anonymous namespace)", "\0")
    depth, end, start = 0, len(full), 0
    for index, letter in enumerate(full):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif depth == 0 and letter == "(":
            # Within template arguments a value may be a cast: those are at depth > 0.
            end = index
            break
        elif depth == 0 and letter == " ":
            start = index + 1
    # An unnamed namespace is not written when the kernel is named.
    return full[start:end].replace("\0::", "").replace("\0", "(anonymous namespace)")


def template_arguments(demangled: str, name: str) -> tuple[str, ...]:
    """The template arguments that a name has in a demangled function; empty where it has none.

    "void ns::k<3, T<4> >(int)", "k" → "3", "T<4>".
    """
    match = re.search(rf"\b{re.escape(name)}<", demangled)
    if match is None:
        return ()
    found, depth, begun = [], 0, match.end()
    for index in range(match.end(), len(demangled)):
        letter = demangled[index]
        if depth == 0 and letter in ",>":
            found.append(demangled[begun:index].strip())
            begun = index + 1
            if letter == ">":
                return tuple(one for one in found if one)
        depth += (letter in "<([{") - (letter in ">)]}")
    return ()
