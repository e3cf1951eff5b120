"""The runtime compiles against the headers of every release of CUDA 13: torch's wheels, say, bring those of 13.0."""

from __future__ import annotations

import re

import pytest
from header_names import FIXED, as_in, brought, installed, names
from runtime_units import complaints, included

from wmmadiag.compile.toolchain import toolchain
from wmmadiag.programs.runtime import NATIVE

INCLUDES = toolchain().includes[0]
RELEASES = [version for version in brought() if version <= installed(INCLUDES)]
NEWER = "newer_names.hpp"


def test_the_table_is_of_the_installed_headers():
    table, here = brought(), names(INCLUDES)
    assert min(table) == RELEASES[0] == 13000 and not table[13000]
    later = {name for version, all_names in table.items() if version > installed(INCLUDES) for name in all_names}
    assert not later & names(INCLUDES, FIXED)
    # What a release brought, another may have taken out: `cuSubgridScheduleLaunch` alone until 13.5.
    gone = {name for version in RELEASES for name in table[version]} - here
    assert gone <= {"cuSubgridScheduleLaunch"} or installed(INCLUDES) > max(table)


@pytest.mark.subprocess
@pytest.mark.slow
@pytest.mark.parametrize("part", [".", "libraries"])
def test_sources_do_with_the_oldest_headers(part, tmp_path):
    # A name that these headers have not is told, and nothing else is.
    assert "cudaGraphGetId" in brought()[13010]
    (told,) = complaints(as_in(13000, INCLUDES) + included(part) + "auto* newer = &cudaGraphGetId;\n", tmp_path)
    assert "cudaGraphGetId" in told


@pytest.mark.subprocess
@pytest.mark.parametrize("version", RELEASES)
def test_what_is_declared_instead_is_what_later_headers_declare(version, tmp_path):
    text = as_in(version, INCLUDES) + f'#include "{NEWER}"\n'
    declared = (NATIVE / NEWER).read_text("utf-8")
    newer = {
        name for since, all_names in brought().items() if version < since <= installed(INCLUDES) for name in all_names
    }
    for name in set(re.findall(r"constexpr \w+ (\w+) =", declared)):
        text += f"static_assert({name} == {f'later_{name}' if name in newer else name});\n"
    assert "static_assert" in text
    assert not complaints(text, tmp_path)
