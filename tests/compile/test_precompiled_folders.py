"""Folders of precompiled headers: removed when nobody compiles, and without waiting for who does."""

from __future__ import annotations

import threading
from pathlib import Path

from wmmadiag.compile.precompiled import discard, in_use


def test_a_folder_is_removed_at_once_where_nobody_compiles(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    discard(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_finaliser_in_the_compilers_thread_does_not_wait_for_who_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with in_use():
        compiler = threading.Thread(target=discard, args=(tmp_path / "a",), daemon=True)
        compiler.start()
        compiler.join(30)
        assert not compiler.is_alive()
        assert (tmp_path / "a").exists()
    assert not (tmp_path / "a").exists()
