"""Template arguments, read from demangled names."""

from __future__ import annotations

import pytest

from wmmadiag.compile.names import template_arguments


@pytest.mark.parametrize(
    ("demangled", "name", "expected"),
    [
        ("void ns::k<3, T<4, 5> >(int)", "k", ("3", "T<4, 5>")),
        ("void ns::k<3, T<4, 5> >(int)", "T", ("4", "5")),
        ("F16::stage(__half)", "stage", ()),
        ("float Tile<16, double>::row<(bool)1>(float*)", "row", ("(bool)1",)),
        ("float Tile<16, double>::row<(bool)1>(float*)", "Tile", ("16", "double")),
        ("void risk<3>(int)", "k", ()),
        ("void k<&f<int>, void (*)(int, int)>(int)", "k", ("&f<int>", "void (*)(int, int)")),
        ("void k<>()", "k", ()),
        ("void k<3", "k", ()),
    ],
)
def test_arguments_of_a_name(demangled: str, name: str, expected: tuple[str, ...]) -> None:
    assert template_arguments(demangled, name) == expected
