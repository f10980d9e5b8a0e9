"""The table of data sets in the docs is generated from the catalogue."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers import ROOT

SCRIPT = ROOT / "docs" / "generate_datasets.py"


def test_the_page_lists_the_catalogue():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
