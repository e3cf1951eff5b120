"""Headers that are read first because their names are missed."""

from __future__ import annotations

import pytest

from wmmadiag.compile.diagnostics import parse_log
from wmmadiag.compile.standard import missing_headers


@pytest.mark.parametrize(
    ("message", "header"),
    [
        ('identifier "curandState_t" is undefined', "curand_kernel.h"),
        ('identifier "curand_init" is undefined', "curand_kernel.h"),
        ('identifier "FLT_MAX" is undefined', "cfloat"),
        ('namespace "std" has no member "array"', "array"),
        ('identifier "accuracy" is undefined', None),
    ],
)
def test_a_missing_name_tells_its_header(message: str, header: str | None) -> None:
    found = missing_headers(parse_log(f"kernel.cu(3): error: {message}\n"))
    assert found == ({header} if header else set())
