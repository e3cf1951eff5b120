"""Fuzz with coverage: `python tests/fuzz/fuzz_guided.py TARGET [-runs=100000]`, and libFuzzer's other options.

atheris (pip install atheris) drives libFuzzer by the lines of Python that an input reaches. Inputs that fail are left
as crash-… in the current folder.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    """The command."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzzing with coverage needs atheris: pip install atheris")
    with atheris.instrument_imports(include=["wmmadiag"]):
        from fuzz_targets import TARGETS, outcome
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"give a target: {', '.join(TARGETS)}")
    target = TARGETS[name]

    def once(data: bytes) -> None:
        with atheris.instrument_imports(include=["wmmadiag"]):
            outcome(target, data)

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(target.seeds()):
            (Path(corpus) / str(number)).write_bytes(data)
        atheris.Setup([sys.argv[0], corpus, *sys.argv[2:]], once)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
