"""The runtime's sources make one translation unit, as the wheel builds them: no two of them define the same."""

from __future__ import annotations

import pytest
from runtime_units import complaints, included


@pytest.mark.subprocess
@pytest.mark.parametrize("part", [".", "libraries"])
@pytest.mark.slow
def test_the_sources_of_a_part_go_together(part, tmp_path):
    # One that is defined twice is told, and nothing else is.
    twice = "namespace {\nint twice;\nint twice;\n}\n"
    (told,) = complaints('#include "runtime.hpp"\n' + included(part) + twice, tmp_path)
    assert "redefinition" in told and "twice" in told
