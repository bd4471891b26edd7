"""The library stays light: importing it loads none of the frameworks around it."""

from __future__ import annotations

import subprocess
import sys


def test_import_loads_no_framework() -> None:
    heavy = (
        "lightning",
        "hydra",
        "omegaconf",
        "transformers",
        "datasets",
        "pyarrow",
        "vllm",
        "torchmetrics",
        "matplotlib",
    )
    code = f"import sys, gatesight; print([name for name in {heavy} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
