"""Records what the platform probes answer on this machine's GPU, to be replayed without one:

    python tests/vectors/record_probes.py tests/vectors/probes_sm_90.json

`tests/probes/test_recorded_probes.py` then holds the emulator's answers against it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

from wmmadiag.gpu import device
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import all_probes, ask


def main() -> int:
    """Command line; 1 where an answer is not as documented, which is recorded all the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--backend", default="gpu", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backend == "gpu":
        gpu = device()
        arch, stamp = gpu.arch, f"{gpu.name}, CUDA {gpu.driver}"
    else:
        arch, stamp = "sm_90", options.backend
    answers = {name: ask(probe, Platform(arch, options.backend)).as_data() for name, probe in all_probes().items()}
    for name, answer in answers.items():
        print(f"{name}: {answer['verdict']}: {' '.join(answer['lines'])}")
        answer.pop("seconds")
    text = {"recorded": f"{stamp}, {datetime.date.today().isoformat()}", "arch": arch, "answers": answers}
    options.file.write_text(json.dumps(text, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    return 0 if all(answer["verdict"] == "right" for answer in answers.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
