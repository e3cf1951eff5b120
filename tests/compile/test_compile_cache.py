"""The compile cache: what hits, what must miss, damage, parallel use, size."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from wmmadiag.compile import cache as cache_module
from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions

KERNEL = "__global__ void k(float *x) { *x = VALUE; }\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(folder))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return folder


def write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_hit_gives_the_same(own_cache: Path) -> None:
    text = "#include <some/library.hpp>\n__global__ void k(float *x) { *x = 1.0f; }\n"
    first, second = compile_text(text, "k.cu"), compile_text(text, "k.cu")
    assert (first.cached, second.cached) == (False, True)
    assert first.notes
    for what in ("ptx", "log", "entries", "notes", "includes", "templates", "source_hash", "compiler", "text"):
        assert getattr(first, what) == getattr(second, what)
    assert list(own_cache.rglob("*.json"))


def test_hit_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "__global__ void k(float *x) { *x = 1.0f; }\n"
    compile_text(text, "k.cu")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = compile_text(text, "k.cu")
    assert found.cached
    assert str(tmp_path) not in found.ptx


def test_use_cache_false_neither_reads_nor_writes(own_cache: Path) -> None:
    text = "__global__ void k(float *x) { *x = 1.0f; }\n"
    compile_text(text, "k.cu", use_cache=False)
    assert not own_cache.exists()


@pytest.mark.parametrize(
    "options",
    [
        CompileOptions(arch="sm_80"),
        CompileOptions(macros={"VALUE": "2.0f"}),
        CompileOptions(macros={"VALUE": "1.0f", "OTHER": None}),
        CompileOptions(macros={"VALUE": "1.0f"}, std="c++20"),
        CompileOptions(macros={"VALUE": "1.0f"}, debug=True),
        CompileOptions(macros={"VALUE": "1.0f"}, extra=("--use_fast_math",)),
    ],
    ids=["arch", "macro", "one-more-macro", "std", "debug", "extra"],
)
def test_other_options_miss(options: CompileOptions) -> None:
    base = CompileOptions(macros={"VALUE": "1.0f"})
    compile_text(KERNEL, "k.cu", base)
    if "VALUE" not in options.macros:
        options = CompileOptions(arch=options.arch, macros=base.macros)
    assert not compile_text(KERNEL, "k.cu", options).cached
    assert compile_text(KERNEL, "k.cu", base).cached


def test_changed_nested_header_misses() -> None:
    write("k.cu", '#include "a.cuh"\n' + KERNEL)
    write("a.cuh", '#pragma once\n#include "sub/b.cuh"\n')
    write("sub/b.cuh", "#define VALUE 1.0f\n")
    first = compile_source("k.cu")
    assert compile_source("k.cu").cached
    write("sub/b.cuh", "#define VALUE 2.0f\n")
    second = compile_source("k.cu")
    assert not second.cached
    assert first.ptx != second.ptx


def test_header_behind_a_condition_counts() -> None:
    write("k.cu", '#ifdef WITH\n#include "a.cuh"\n#else\n#define VALUE 1.0f\n#endif\n' + KERNEL)
    write("a.cuh", "#define VALUE 3.0f\n")
    assert not compile_source("k.cu").cached
    assert not compile_source("k.cu", CompileOptions(macros={"WITH": None})).cached
    write("a.cuh", "#define VALUE 4.0f\n")
    assert not compile_source("k.cu", CompileOptions(macros={"WITH": None})).cached


def test_header_that_appears_earlier_on_the_path_misses() -> None:
    Path("one").mkdir()
    options = CompileOptions(include_paths=(Path("one"), Path("two")))
    write("two/v.cuh", "#define VALUE 1.0f\n")
    write("k.cu", "#include <v.cuh>\n" + KERNEL)
    first = compile_source("k.cu", options)
    write("one/v.cuh", "#define VALUE 2.0f\n")
    second = compile_source("k.cu", options)
    assert not second.cached
    assert first.ptx != second.ptx
    write("v.cuh", "#define VALUE 5.0f\n")  # not for <…>
    assert compile_source("k.cu", options).cached


def test_header_that_appears_for_has_include_misses() -> None:
    write("k.cu", '#if __has_include("v.cuh")\n#include "v.cuh"\n#else\n#define VALUE 1.0f\n#endif\n' + KERNEL)
    first = compile_source("k.cu")
    write("v.cuh", "#define VALUE 2.0f\n")
    assert compile_source("k.cu").ptx != first.ptx


@pytest.mark.parametrize(
    "directive",
    [
        '#define WHICH "v.cuh"\n#include WHICH\n',
        '#include "v.\\\ncuh"\n',
        '#  include /* c */ "v.cuh" // c\n',
        '%:include "v.cuh"\n',
    ],
    ids=["computed", "spliced", "comments", "digraph"],
)
def test_odd_include_is_never_stale(directive: str) -> None:
    write("k.cu", directive + KERNEL)
    write("v.cuh", "#define VALUE 1.0f\n")
    first = compile_source("k.cu")
    write("v.cuh", "#define VALUE 2.0f\n")
    assert compile_source("k.cu").ptx != first.ptx


def test_same_name_in_two_folders() -> None:
    write("k.cu", '#include "a/v.cuh"\n#include "b/v.cuh"\n__global__ void k(float *x) { *x = A + B; }\n')
    write("a/v.cuh", '#include "w.cuh"\n#define A W\n')
    write("a/w.cuh", "#define W 1.0f\n")
    write("b/v.cuh", '#undef W\n#include "w.cuh"\n#define B 2.0f\n')
    write("b/w.cuh", "#define W 4.0f\n")
    assert "0f40C00000" in compile_source("k.cu").ptx.upper().replace("0F40C00000", "0f40C00000") or "1086324736" in (
        compile_source("k.cu").ptx
    )


@pytest.mark.parametrize("damage", [b"", b"junk", b"wmmadiag 1 00\n{}"], ids=["empty", "junk", "checksum"])
def test_damaged_entry_is_ignored(own_cache: Path, damage: bytes) -> None:
    text = "__global__ void k(float *x) { *x = 1.0f; }\n"
    first = compile_text(text, "k.cu")
    for path in own_cache.rglob("*.json"):
        path.write_bytes(damage)
    second = compile_text(text, "k.cu")
    assert not second.cached
    assert second.ptx == first.ptx
    assert compile_text(text, "k.cu").cached


def test_entry_of_another_shape_is_ignored() -> None:
    text = "__global__ void k(float *x) { *x = 1.0f; }\n"
    key = compile_text(text, "k.cu").source_hash
    cache_module.store(key, {"ptx": 3, "entries": [["too", "short"]]})
    assert not compile_text(text, "k.cu").cached


def test_unwritable_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert compile_text("__global__ void k() {}\n", "k.cu").entries


def test_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WMMADIAG_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_module.cache_folder() == tmp_path / "wmmadiag"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_module.cache_folder() == Path.home() / ".cache" / "wmmadiag"


def test_size_is_bounded(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_FILES", 10)
    for number in range(40):
        cache_module.store(f"{number:064d}", {"n": number})
    assert len(list(own_cache.rglob("*.json"))) <= 10
    assert cache_module.load(f"{39:064d}") == {"n": 39}
    monkeypatch.setattr(cache_module, "MAX_BYTES", 4000)
    for number in range(40, 50):
        cache_module.store(f"{number:064d}", {"n": "x" * 1000})
    assert sum(path.stat().st_size for path in own_cache.rglob("*.json")) <= 4000


def test_a_process_looks_now_and_then_whether_it_is_too_large(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(cache_module, "MAX_FILES", 640)
    monkeypatch.setattr(cache_module, "_prune", looked.append)
    for number in range(45):
        cache_module.store(f"{number:064d}", {"n": number})
    assert len(looked) == 5  # at the first, and at each eleventh after it


def test_parallel_processes_share_it(own_cache: Path) -> None:
    program = (
        "from wmmadiag.compile.driver import compile_text\n"
        "for i in range(3):\n"
        "    c = compile_text(f'__global__ void k(float *x) {{ *x = {i}; }}', 'k.cu')\n"
        "    assert c.entry('k').name == '_Z1kPf'\n"
    )
    root = Path(cache_module.__file__).parents[2]

    def run(_: int) -> int:
        return subprocess.run([sys.executable, "-c", program], check=False, cwd=root).returncode

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, range(3))) == [0, 0, 0]
    assert len(list(own_cache.rglob("*.json"))) == 3
    assert not list(own_cache.rglob(".new-*"))


def _compiled_or_not(source, folder, go):
    import os
    import time

    os.environ["WMMADIAG_CACHE_DIR"] = str(folder)
    from wmmadiag.compile.driver import compile_source

    while not go.exists():
        time.sleep(0.001)
    return compile_source(source).cached


@pytest.mark.subprocess
@pytest.mark.slow
def test_processes_that_need_the_same_compile_it_once(tmp_path):
    source = tmp_path / "one.cu"
    source.write_text("#include <mma.h>\n__global__ void once(float* x) { x[0] = 1; }\n")
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        tasks = [pool.submit(_compiled_or_not, source, tmp_path / "cache", tmp_path / "go") for _ in range(4)]
        time.sleep(1)
        (tmp_path / "go").touch()
        assert sorted(task.result() for task in tasks) == [False, True, True, True]
    assert not list((tmp_path / "cache").rglob("*.lock"))


def test_who_cannot_have_a_kernel_alone_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_module, "_WAITED", 0.1)
    with cache_module.alone("key"), cache_module.alone("key"):
        pass
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "file" / "none"))
    (tmp_path / "file").write_text("")
    with cache_module.alone("key"):
        pass
