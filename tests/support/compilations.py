"""NVRTC's answers, kept for one session of tests: tests that compile one text in folders of their own compile it once.

Between tests in other processes, too. What is kept is NVRTC's alone: everything around it is done anew in each test.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from wmmadiag.compile import nvrtc
from wmmadiag.compile.nvrtc import NvrtcResult

VARIABLE = "WMMADIAG_TESTS_COMPILED"
"""Names the folder where the answers are."""
_FOLDER = re.compile(re.escape(tempfile.gettempdir()) + r"/pytest-of-[^/]+/pytest-\d+/(?:popen-gw\d+/)?\w+")
"""A test's own folder: another test compiles the same text elsewhere."""
_COMPILED = nvrtc._compiled


def serve(kept: bool) -> None:
    """Answer from what is kept from here on, or have everything compiled."""
    nvrtc._compiled = _kept if kept and os.environ.get(VARIABLE) else _COMPILED


def _kept(
    text: str | bytes,
    file_name: str,
    options: Sequence[str],
    headers: Mapping[str, bytes],
    name_expressions: Sequence[str],
    cubin: bool,
) -> NvrtcResult:
    given = (text, file_name, options, headers, name_expressions, cubin)
    if cubin or "-G" in options:  # which hold names in forms of their own
        return _COMPILED(*given)
    folders: list[str] = []
    parts = [
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
        told = json.loads(path.read_text("utf-8"))
        found = {name: _own(told[name], folders) for name in ("log", "ptx", "status")}
        lowered = {_own(name, folders): _own(mangled, folders) for name, mangled in told["lowered"].items()}
        return NvrtcResult(told["ok"], lowered=lowered, **found)
    made = _COMPILED(*given)
    told = {name: _neutral(getattr(made, name), folders) for name in ("log", "ptx", "status")}
    told["lowered"] = {_neutral(name, folders): _neutral(one, folders) for name, one in made.lowered.items()}
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps({"ok": made.ok, **told}))
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
