"""Whole programs of others under `wmmadiag run`: do they reach their own success message, in how long, what is found?

    python benchmarks/programs.py --llm.c FOLDER --sgemm FOLDER --samples FOLDER [--only NAME] [--seconds 300]

FOLDER: a checkout of karpathy/llm.c, of siboehm/SGEMM_CUDA, of NVIDIA/CUDALibrarySamples. Each program runs unchanged,
with its default kernel.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """A program: its name, folder, words of the command line, and what it prints where all is well ("": status 0)."""

    name: str
    folder: Path
    words: tuple[str, ...]
    success: str


def llm_c(folder: Path) -> Iterator[Program]:
    """`dev/cuda/*.cu`."""
    here = folder / "dev" / "cuda"
    for path in sorted(here.glob("*.cu")):
        text = path.read_text("utf-8", "replace")
        says = next((one for one in ("All results match.", "Results match", "matches") if one in text), "")
        yield Program(f"llm.c {path.name}", here, (path.name,), says)


def sgemm(folder: Path) -> Iterator[Program]:
    """The program with each of its kernels, and its two small ones."""
    for number in range(13):
        words = ("sgemm.cu", "src/runner.cu", "-I", "src", "--std", "c++20", "--", str(number))
        yield Program(f"SGEMM_CUDA sgemm {number}", folder, words, "Average elapsed time")
    yield Program("SGEMM_CUDA cuBLAS_sgemm", folder, ("cuBLAS_sgemm.cu",), "")
    yield Program("SGEMM_CUDA simplest_kernel", folder, ("simplest_kernel.cu",), "")


_ONE_FILE_EACH = ("cuBLAS/*/*/*.cu", "cuRAND/Host/*/*.cpp")


def library_samples(folder: Path) -> Iterator[Program]:
    """The programs of libraries for one device; they end with status 0, and print what their comments say."""
    found = sorted(path for pattern in _ONE_FILE_EACH for path in folder.glob(pattern))
    for path in found:
        library = path.relative_to(folder).parts[0]
        if "Mg" not in path.parts[-2] and "mgpu" not in path.parts[-2]:
            helpers = ("-I", str(folder / library / "utils"))
            yield Program(f"{library} {path.parent.name} {path.name}", path.parent, (path.name, *helpers), "")
    for main_file in sorted((folder / "cuBLASLt").glob("*/main.cpp")):
        here = main_file.parent
        sources = [one.name for one in sorted(here.glob("*.c*")) if one.suffix in (".cpp", ".cu")]
        words = ("-I", str(folder / "cuBLASLt" / "Common"))
        yield Program(f"cuBLASLt {here.name}", here, (*sources, *words), "")


def main() -> None:
    """Run them and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm.c", dest="llm_c", type=Path)
    parser.add_argument("--sgemm", type=Path)
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--patience", type=float, default=1e9, help="for one that has said so, and goes on measuring")
    parser.add_argument("--checks", default="default")
    args = parser.parse_args()
    programs = [*(llm_c(args.llm_c) if args.llm_c else ()), *(sgemm(args.sgemm) if args.sgemm else ())]
    programs += library_samples(args.samples) if args.samples else ()
    print("| program | its own success message | seconds | launches | findings |\n|---|---|---|---|---|")
    reached = 0
    chosen = [one for one in programs if args.only in one.name]
    for one in chosen:
        good, row = run(one, args.seconds, args.patience, args.checks)
        reached += good
        print(f"| {one.name} | {row} |", flush=True)
    print(f"\n{reached} of {len(chosen)} reach it")


def listen(reader: int, to: list[bytes]) -> None:
    """Gather what a terminal is told, until it closes."""
    with contextlib.suppress(OSError):
        while data := os.read(reader, 65536):
            to.append(data)
    os.close(reader)


def run(program: Program, seconds: float, patience: float, checks: str) -> tuple[bool, str]:
    """Whether it says that all is well, and its row of the table."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        end = program.words.index("--") if "--" in program.words else len(program.words)
        options = ("--checks", checks, "--json", file.name)
        command = [sys.executable, "-m", "wmmadiag", "run", *program.words[:end], *options, *program.words[end:]]
        begun = time.perf_counter()
        reader, terminal = pty.openpty()  # what a program has said is seen at once
        process = subprocess.Popen(command, cwd=program.folder, stdout=terminal, stderr=subprocess.PIPE)
        os.close(terminal)
        said_so_far: list[bytes] = []
        listener = threading.Thread(target=listen, args=(reader, said_so_far), daemon=True)
        listener.start()
        log, timed_out = "", False
        while True:
            try:
                log = process.communicate(timeout=1)[1].decode("utf-8", "replace")
                break
            except subprocess.TimeoutExpired:
                elapsed = time.perf_counter() - begun
                said = bool(program.success) and program.success.encode() in b"".join(said_so_far)
                if elapsed > seconds or (said and elapsed > patience):
                    timed_out = True
                    process.terminate()
        listener.join(5)
        output = b"".join(said_so_far).decode("utf-8", "replace")
        took = time.perf_counter() - begun
        text = Path(file.name).read_text("utf-8")
    record = json.loads(text) if text else {}
    said = program.success in output if program.success else record.get("status") == 0
    found = [one["finding"] for one in record.get("found", ())]
    listed = "; ".join(
        dict.fromkeys(
            f"{one['level']} {one['check']}: {one['message']} ({one['place']})"
            for one in found
            if one["level"] != "advice"
        )
    )
    why = "" if said else next((line for line in log.splitlines() if "error" in line), log.strip()[:200])
    verdict = "yes" if said else f"no: {why}"
    if timed_out:
        verdict += f" (ended after {took:.0f} s)"
    return said, f"{verdict} | {took:.1f} | {record.get('launches', '')} | {listed or 'none'}".replace("\n", " ")


if __name__ == "__main__":
    main()
