"""The list of metrics in the docs is generated from the code and complete."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from tests.docs.blocks import page_text
from tests.helpers import ROOT

SCRIPT = ROOT / "docs" / "generate_metrics.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_metrics", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_writes(generator):
    assert page_text("docs/metrics.md") == generator.page(), "run: python docs/generate_metrics.py"


def test_check_reports_a_page_that_is_out_of_date(generator, tmp_path, monkeypatch, capsys):
    old_page = tmp_path / "metrics.md"
    old_page.write_text("# Metrics\n", encoding="utf-8")
    monkeypatch.setattr(generator, "PAGE", old_page)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--check"])
    assert generator.main() == 1
    assert "python docs/generate_metrics.py" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    assert generator.main() == 0
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--check"])
    assert generator.main() == 0


def test_the_script_runs_as_a_program():
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage" in done.stderr


def test_every_metric_of_every_evaluation_is_listed(generator):
    text = page_text("docs/metrics.md")
    evaluations = generator.shipped_evaluations()
    assert [evaluation.name for evaluation in evaluations] == ["robustness", "syntax", "bias", "fewshot", "lm_eval"]
    for evaluation in evaluations:
        for metric in evaluation.metrics:
            in_family = any(metric.name.startswith(prefix) for prefix in generator.FAMILIES)
            assert in_family or f"| `{metric.name}` |" in text, metric.name
            assert in_family or metric.title, f"{metric.name} has no title"
