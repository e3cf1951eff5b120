"""Texture and surface instructions of a kernel as calls of `native/device/textures.cu`, and plain loads and stores.

A texture object's handle is the device address of a record that says what it is (`native/texture.hpp`), so that what a
kernel fetches are loads of plain memory: all checks see them.
"""

from __future__ import annotations

import re

from wmmadiag.programs.shipped import NATIVE

TEXTURES = NATIVE / "device" / "textures.cu"
OURS = "wmmadiag_"
"""Functions of `textures.cu` begin so."""
_STATEMENT = re.compile(
    r"(?P<guard>@(?P<negated>!?)(?P<predicate>%?[\w$]+)\s+)?"
    r"\b(?P<op>tex|suld|sust)\.(?P<words>[\w.:]+)\s+(?P<operands>[^;]*);"
)
_TEXTURE = re.compile(r"(?P<results>\{[^}]*\}), \[(?P<handle>[^,\]]+), \{(?P<at>[^}]*)\}\](?P<more>, .*)?$", re.DOTALL)
_SURFACE = re.compile(r"\[(?P<handle>[^,\]]+), (?P<at>\{[^}]*\}|[^\]]+)\]")
_GEOMETRIES = {"1d": "x", "2d": "xy", "3d": "xyz", "a1d": "lx", "a2d": "lxy"}
"""Of an instruction → its coordinates in the order of PTX; l: the layer."""
_CUBES = {"cube": "xyz", "acube": "lxyz"}
_OUTSIDE = {"trap": 0, "clamp": 1, "zero": 2}
_HEADER = re.compile(r"^\.address_size\s+64", re.MULTILINE)
_SIGNATURES = {
    **{
        f"{OURS}tex_{name}": ("align 16 .b8 r[16]", ("b64", *("b32" if one == "l" else "f32" for one in coordinates)))
        for name, coordinates in (*_GEOMETRIES.items(), *_CUBES.items())
    },
    f"{OURS}texel": ("align 16 .b8 r[16]", ("b64", "b32")),
    f"{OURS}surface": ("b64 r", ("b64", "b32", "b32", "b32", "b32", "b32")),
    f"{OURS}zeros": ("b64 r", ("b64",)),
}
"""Functions of `textures.cu` → what they return, and take."""


def fetches(ptx: str) -> bool:
    """Whether PTX may have texture or surface instructions."""
    return "tex." in ptx or "suld." in ptx or "sust." in ptx


def as_calls(ptx: str) -> str:
    """PTX without those texture and surface instructions that `textures.cu` has functions for; others stay.

    Each stays on its line, so that places are as they were.
    """
    if not fetches(ptx):
        return ptx
    used: set[str] = set()
    number = 0

    def written(found: re.Match[str]) -> str:
        nonlocal number
        made = _texture(found, used) if found["op"] == "tex" else _surface(found, used)
        if made is None:
            return found[0]
        if not found["guard"]:
            return f"{{ {made} }}"
        number += 1
        label = f"$wmmadiag_fetched_{number}"
        around = "" if found["negated"] else "!"
        return f"@{around}{found['predicate']} bra {label}; {{ {made} }} {label}:"

    text = _STATEMENT.sub(written, ptx)
    declared = " ".join(_declaration(name) for name in sorted(used))
    return _HEADER.sub(lambda head: f"{head[0]} {declared}", text, count=1)


def _texture(found: re.Match[str], used: set[str]) -> str | None:
    words = found["words"].split(".")
    if words[0] in ("level", "grad"):  # of a texture without mipmaps, which is all there are
        words = words[1:]
        if words[0] in _CUBES:  # of a cube map a level changes nothing, but gradients have three axes
            return None
    form = _TEXTURE.match(found["operands"].strip())
    if form is None or len(words) != 4 or words[1] != "v4" or words[2] not in ("f32", "s32", "u32"):
        return None
    geometry, at = words[0], [one.strip() for one in form["at"].split(",")]
    if words[3] == "f32" and geometry in _CUBES:
        name, at = f"{OURS}tex_{geometry}", at[: len(_CUBES[geometry])]
    elif words[3] == "f32" and geometry in _GEOMETRIES:
        name = f"{OURS}tex_{geometry}"
    elif (geometry, words[3]) == ("1d", "s32"):
        name = f"{OURS}texel"
    else:
        return None
    return _call(name, [form["handle"], *at], used) + f" ld.param.v4.b32 {form['results']}, [r];"


def _surface(found: re.Match[str], used: set[str]) -> str | None:
    words = found["words"].split(".")
    form = _SURFACE.search(found["operands"])
    if form is None or words[0] != "b" or len(words) < 4 or words[-1] not in _OUTSIDE or words[1] not in _GEOMETRIES:
        return None
    type_name, size = words[-2], (words[2] if words[2].startswith("v") else "")
    data = (found["operands"][: form.start()] + found["operands"][form.end() :]).strip(" ,\t\n")
    bytes_of = int(type_name[1:]) // 8 * int(size[1:] or 1)
    given = dict(zip(_GEOMETRIES[words[1]], (one.strip() for one in form["at"].strip("{}").split(",")), strict=False))
    at = [given.get("x", "0"), given.get("y", "0"), given.get("z", given.get("l", "0"))]
    if words[1] == "a1d":
        at[1:] = ["0", given["l"]]
    call = _call(f"{OURS}surface", [form["handle"], str(bytes_of), str(_OUTSIDE[words[-1]]), *at], used)
    access = f"{'.' + size if size else ''}.{type_name}"
    body = f".reg .b64 at; .reg .pred some; {call} ld.param.b64 at, [r]; setp.ne.b64 some, at, 0;"
    if found["op"] == "sust":
        return f"{body} @some st.global{access} [at], {data};"
    zeros = _call(f"{OURS}zeros", [form["handle"]], used)
    return f"{body} {{ {zeros} @!some ld.param.b64 at, [r]; }} ld.global{access} {data}, [at];"


def _call(name: str, arguments: list[str], used: set[str]) -> str:
    """A call whose result is the .param variable r of the scope."""
    used.add(name)
    returned, types = _SIGNATURES[name]
    given = "".join(
        f".param .b{kind[1:]} p{i}; st.param.{kind} [p{i}], {one}; "
        for i, (kind, one) in enumerate(zip(types, arguments, strict=False))
    )
    names = ", ".join(f"p{i}" for i in range(len(types)))
    return f".param .{returned}; {given}call.uni (r), {name}, ({names});"


def _declaration(name: str) -> str:
    returned, types = _SIGNATURES[name]
    parameters = ", ".join(f".param .b{one[1:]} p{i}" for i, one in enumerate(types))
    return f".extern .func (.param .{returned}) {name} ({parameters});"
