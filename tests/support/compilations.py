"""NVRTC's answers, kept beside pytest's cache: tests that compile one text in folders of their own compile it once.

Between tests in other processes and sessions, too; another NVRTC, or other headers of the toolkit, are asked anew. What
is kept is NVRTC's alone: everything around it is done anew in each test. `pytest --cache-clear` forgets it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from wmmadiag.compile import nvrtc
from wmmadiag.compile.nvrtc import NvrtcResult
from wmmadiag.compile.toolchain import toolchain

VARIABLE = "WMMADIAG_TESTS_COMPILED"
"""Names the folder where the answers are."""
_FOLDER = re.compile(re.escape(tempfile.gettempdir()) + r"/pytest-of-[^/]+/pytest-\d+/(?:popen-gw\d+/)?\w+")
"""A test's own folder: another test compiles the same text elsewhere."""
_COMPILED = nvrtc._compiled
_ANSWERS = ("NVRTC_SUCCESS", "NVRTC_ERROR_COMPILATION")
"""What a text alone decides."""
_DAY = 24 * 3600.0
_UNUSED = 7 * _DAY


def serve(kept: bool) -> None:
    """Answer from what is kept from here on, or have everything compiled."""
    nvrtc._compiled = _kept if kept and os.environ.get(VARIABLE) else _COMPILED


def forget_unused(folder: Path) -> None:
    """Remove what no session has asked for in a week."""
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > _UNUSED:
            path.unlink(missing_ok=True)


def _kept(
    text: str | bytes,
    file_name: str,
    options: Sequence[str],
    headers: Mapping[str, bytes],
    name_expressions: Sequence[str],
) -> NvrtcResult:
    given = (text, file_name, options, headers, name_expressions)
    if {"--ptxas-options=-v", "-G"} & set(options):  # which hold names in forms of their own
        return _COMPILED(*given)
    folders: list[str] = []
    parts = [
        *toolchain().fingerprint(),
        str(Path.cwd()),
        file_name,
        text if isinstance(text, str) else text.decode("utf-8", "surrogateescape"),
        *(option for option in options if not option.startswith("--pch-dir=")),
        "headers",
        *(one for name in sorted(headers) for one in (name, headers[name].decode("utf-8", "surrogateescape"))),
        "names",
        *name_expressions,
    ]
    key = hashlib.sha256(json.dumps([_neutral(part, folders) for part in parts]).encode()).hexdigest()
    path = Path(os.environ[VARIABLE]) / key
    if path.is_file():
        if time.time() - path.stat().st_mtime > _DAY:
            path.touch()
        told = json.loads(zlib.decompress(path.read_bytes()))
        found = {name: _own(told[name], folders) for name in ("log", "ptx", "status")}
        lowered = {_own(name, folders): _own(mangled, folders) for name, mangled in told["lowered"].items()}
        return NvrtcResult(told["ok"], lowered=lowered, **found)
    made = _COMPILED(*given)
    if made.status not in _ANSWERS:
        return made
    told = {name: _neutral(getattr(made, name), folders) for name in ("log", "ptx", "status")}
    told["lowered"] = {_neutral(name, folders): _neutral(one, folders) for name, one in made.lowered.items()}
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(zlib.compress(json.dumps({"ok": made.ok, **told}).encode(), 1))
    Path(name).replace(path)  # whole, or not at all
    return made


def _neutral(text: str, folders: list[str]) -> str:
    """A text with numbers in place of the folders, which are numbered as they come."""

    def numbered(found: re.Match[str]) -> str:
        if found[0] not in folders:
            folders.append(found[0])
        return f"\0{folders.index(found[0])}\0"

    return _FOLDER.sub(numbered, text)


def _own(text: str, folders: Sequence[str]) -> str:
    return re.sub("\0(\\d+)\0", lambda found: folders[int(found[1])], text)
