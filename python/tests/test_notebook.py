"""The notebook of the examples runs from its beginning to its end."""

import importlib
from pathlib import Path
from typing import Any

import nbclient

# It says nothing of its types.
nbformat: Any = importlib.import_module("nbformat")

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tree.ipynb"


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    client = nbclient.NotebookClient(notebook, timeout=3000, startup_timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    texts = "".join(output.get("text", "") for output in outputs)
    assert "200 files" in texts
    assert any("image/png" in output.get("data", {}) for output in outputs)
    # Twenty files of one byte: nineteen are too many.
    assert any(output.get("data", {}).get("text/plain") == "19" for output in outputs)
