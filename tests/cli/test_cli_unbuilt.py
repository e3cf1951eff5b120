"""Without the built core there is one message that says how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CARD = Path(__file__).parent.parent.parent / "kernels" / "gemm" / "kernel.toml"


@pytest.mark.subprocess
def test_a_missing_core_is_a_matter_of_installation() -> None:
    program = (
        "import sys; sys.modules['wmmadiag.emulator.native._core'] = None\n"
        f"from wmmadiag.cli.main import main; sys.exit(main(['check', {str(CARD)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "core is not built" in done.stderr and "pip install" in done.stderr and "Traceback" not in done.stderr
