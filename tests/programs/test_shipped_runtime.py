"""Which runtime is taken: the package's own, where it is of these sources and has what the program calls."""

from __future__ import annotations

import shutil

import pytest

import wmmadiag
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.emulator import native
from wmmadiag.programs import runtime, shipped


@pytest.fixture
def came(tmp_path, monkeypatch):
    """Put a library that loads, with these lines as its stamp, where the package has its own."""
    monkeypatch.setattr(wmmadiag, "__path__", [str(tmp_path)])
    folder = tmp_path / "programs" / "native"
    folder.mkdir(parents=True)
    shutil.copy(native._ENGINES / f"engine_{native.isa()}.so", folder / shipped.LIBRARY)
    runtime._shipped.cache_clear()
    yield lambda *lines: (folder / f"{shipped.LIBRARY}.stamp").write_text("".join(f"{one}\n" for one in lines))
    runtime._shipped.cache_clear()


@pytest.mark.parametrize(
    ("said", "alone", "with_libraries"),
    [
        (("{}", shipped.WITH_LIBRARIES), True, True),
        (("{}",), True, False),
        (("another {}", shipped.WITH_LIBRARIES), False, False),
        ((shipped.WITH_LIBRARIES,), False, False),
        ((), False, False),
    ],
)
def test_what_came_is_taken_where_it_has_what_is_called(came, said, alone, with_libraries):
    came(*(one.format(shipped.stamp(toolchain().includes[0])) for one in said))
    assert (runtime._shipped(False) is not None) == alone
    assert (runtime._shipped(True) is not None) == with_libraries
