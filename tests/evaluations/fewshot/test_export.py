"""Few-shot runs in the formats of other tools."""

from __future__ import annotations

import pytest

from lmassay import evaluate
from lmassay.errors import UserError
from lmassay.interchange.lm_eval.log_export import write_logs
from lmassay.storage.store import Store
from tests.evaluations.fewshot.test_icl import LIKES_GOOD
from tests.evaluations.fewshot.toys import write_data


def test_a_run_that_scores_splits_is_not_written_as_logs_of_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path / "data")
    (tmp_path / "reader.py").write_text(LIKES_GOOD, encoding="utf-8")
    method = {"name": "icl", "pattern": 4, "shots": 4}
    task = {"name": "fewshot", "data": "rte", "data_dir": "data", "labelled": ["train"], "splits": {"k": 2}}
    (run,) = evaluate({"task": {**task, "method": method}, "model": "reader.py:Model"}, tmp_path / "results")
    reason = "the format has one sample per example, but fewshot has one score per split; --format jsonl"
    with Store(run.folder) as store, pytest.raises(UserError, match=reason):
        write_logs(store, run.record, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()
