"""`examples/notebook.ipynb` runs, and shows what its text says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="no nbclient: pip install --group dev")
nbformat = pytest.importorskip("nbformat")
EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.slow,
    # Of Jupyter's own packages, about one another.
    pytest.mark.filterwarnings("ignore:::(jupyter_client|jupyter_core|nbclient|nbformat|zmq|traitlets|asyncio)"),
]


def test_the_notebook_shows_what_it_says():
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # nobody's machine is in the repository
    nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    shown = [cell.outputs[-1].data for cell in notebook.cells if cell.cell_type == "code"]
    report, error_map, diagnosis, right, wrong, fragment = (one["text/html"] for one in shown)
    assert "WRONG" in report and "<svg" in report
    assert re.search(r"C .*: \d+ of \d+ elements wrong", error_map) and "× the bound" in error_map
    assert "proven" in diagnosis and "load_matrix_sync(b, B + k * N + col, N)" in diagnosis
    assert "all 3072 elements within" in right and "<svg" not in right
    assert "elements wrong" in wrong and wrong.count("<title>") == 3 * 4
    assert "lane 0 x[0" in fragment and "image/svg+xml" in shown[-1]
