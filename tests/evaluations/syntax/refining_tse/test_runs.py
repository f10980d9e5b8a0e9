"""What can go wrong around a run of refining-tse's configurations, with a made-up model that needs no torch."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
import yaml

from lmassay.cli import main
from lmassay.evaluations.syntax.refining_tse import folder
from lmassay.evaluations.syntax.refining_tse.modules import MODELS
from lmassay.running import runner
from lmassay.storage.store import Store
from tests.helpers import EVALUATIONS

EXAMPLE = EVALUATIONS / "syntax/starters/tse/nearest_noun.yaml"


def tse(folder, *arguments):
    with contextlib.chdir(folder), pytest.raises(SystemExit) as stop:
        main(["tse", *map(str, arguments)])
    return stop.value.code


@pytest.fixture
def config(tmp_path):
    """Write the example under a name, changed; gives its path."""

    def write(name="own.yaml", change=lambda data: None):
        data = yaml.safe_load(
            EXAMPLE.read_text(encoding="utf-8").replace("tse/", f"{EVALUATIONS}/syntax/starters/tse/")
        )
        change(data)
        (tmp_path / name).write_text(yaml.safe_dump(data), encoding="utf-8")
        return tmp_path / name

    return write


def runs_in(folder):
    return sorted((folder / "results/nearest-noun/across_prep/tse_ew").iterdir())


def stop(*_):
    raise KeyboardInterrupt


def test_an_interrupted_run_is_to_be_run_again_not_resumed(config, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(Store, "set_results", stop)
        assert tse(tmp_path, "run", config()) == 130
    stderr = capsys.readouterr().err
    assert "run the same command again" in stderr
    assert "lmassay resume" not in stderr
    assert tse(tmp_path, "run", config()) == 0
    assert "continuing run" in capsys.readouterr().err
    assert len(runs_in(tmp_path)) == 1


def test_a_run_that_fails_is_to_be_run_again_not_resumed(config, tmp_path, capsys):
    (tmp_path / "bad.py").write_text(
        "class Bad:\n    word_to_index = {}\n    def __init__(self, config): ...\n"
        "    def predict(self, left, right): return 1 / 0\n"
    )
    path = config(change=lambda data: data["model"].update({"class": "bad.py:Bad"}))
    assert tse(tmp_path, "run", path) == 2
    stderr = capsys.readouterr().err
    assert "run the same command again" in stderr
    assert "lmassay resume" not in stderr


def test_a_run_with_nothing_to_score_is_to_be_run_again_not_resumed(config, tmp_path, capsys):
    (tmp_path / "mute.py").write_text(
        "class Mute:\n    word_to_index = {}\n    def __init__(self, config): ...\n"
        "    def predict(self, left, right): return None\n"
    )
    path = config(change=lambda data: data["model"].update({"class": "mute.py:Mute"}))
    assert tse(tmp_path, "run", path) == 1
    stderr = capsys.readouterr().err
    assert "run the same command again" in stderr
    assert "lmassay resume" not in stderr


def test_a_bug_in_one_configuration_is_shown_in_full_and_does_not_end_the_others(config, tmp_path, monkeypatch, capsys):
    (tmp_path / "configs").mkdir()
    for name in ("a", "b"):
        config(f"configs/{name}.yaml", lambda data: data["model"].update(strength=ord(name)))  # noqa: B023
    plan, calls = runner.plan, []

    def buggy(run):
        calls.append(run)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return plan(run)

    monkeypatch.setattr(runner, "plan", buggy)
    assert tse(tmp_path, "run-all", "configs") == 2
    captured = capsys.readouterr()
    assert "Traceback (most recent call last)" in captured.err
    assert "RuntimeError: a bug" in captured.err
    assert "1 of 2 configurations are done" in captured.err
    assert len(runs_in(tmp_path)) == 1


def test_a_place_that_cannot_be_written_is_reported_before_the_model_is_asked(config, tmp_path, monkeypatch, capsys):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/nearest-noun").write_text("a file")
    monkeypatch.setattr(runner, "start", stop)
    assert tse(tmp_path, "run", config()) == 2
    assert "logger.path: cannot write to results/nearest-noun/across_prep/tse_ew" in capsys.readouterr().err


def test_the_check_of_the_place_leaves_no_trace(config, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "start", stop)
    assert tse(tmp_path, "run", config()) == 130
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["lmassay"]


def test_a_folder_tells_what_ran(config, tmp_path):
    path = config()
    assert tse(tmp_path, "run", path) == 0
    (run,) = runs_in(tmp_path)
    output = json.loads((run / "json/run.json").read_text(encoding="utf-8"))
    with Store(tmp_path / "results/lmassay") as store:
        assert output.pop("run") == store.runs()[0].id
    assert output.pop("time")
    assert output == {"model": "nearest-noun", "compat": "none"}
    assert (run / "config.yaml").read_bytes() == path.read_bytes()


def test_what_ran_in_another_way_than_the_configuration_says_stands_above_its_copy(config, tmp_path, request):
    path = config()
    (tmp_path / "register.py").write_text(
        (EVALUATIONS / "syntax/starters/tse/my_mpe_model.py")
        .read_text(encoding="utf-8")
        .replace('config["strength"]', "1.0")
        + "\nfrom src.models.models import model_name_to_MPEModel_class as table\ntable['other'] = NearestNoun\n"
    )
    request.addfinalizer(MODELS.clear)
    options = ["--model", "folder/other-one", "--plugins", "register.py", "--compat", "released"]
    assert tse(tmp_path, "run", path, *options) == 0
    (run,) = (tmp_path / "results/other-one/across_prep/tse_ew").iterdir()
    first, _, rest = (run / "config.yaml").read_text(encoding="utf-8").partition("\n")
    assert first == "# Run by lmassay with model folder/other-one (--model) and --compat released."
    assert rest == path.read_text(encoding="utf-8")
    assert json.loads((run / "json/run.json").read_text(encoding="utf-8"))["compat"] == "released"


def test_a_template_file_that_is_listed_twice_counts_twice(config, tmp_path, capsys):
    path = config(change=lambda data: data["dataset"].update(template_files=["across_prep.jsonl"] * 2))
    assert tse(tmp_path, "run", path) == 0
    assert "TSE 0.6000 (100 rows), EW 0.6000 (10 contexts), margin 0.4000 (100 rows)" in capsys.readouterr().out


def test_a_key_with_a_slash_in_a_metrics_summary_stays_in_the_folder(config, tmp_path):
    (tmp_path / "keys.py").write_text(
        "import numpy as np\nfrom src.metrics.metric_computer import MetricComputer\n"
        "class Keys(MetricComputer):\n"
        "    def _compute(self, logits, label, template_id, word_to_index): return [1.0] * len(label), None, {}\n"
        "    def summarize(self): return {'../../a/b': np.arange(3), 'c/d': [1, 2], 'e/f': 0.5}\n"
    )
    path = config(change=lambda data: data["metrics"].update(keys={"class": "keys.py:Keys"}))
    assert tse(tmp_path, "run", path) == 0
    (run,) = runs_in(tmp_path)
    assert np.load(run / "npzs/..%2F..%2Fa%2Fb.npz")["arr_0"].tolist() == [0, 1, 2]
    assert json.loads((run / "json/c%2Fd.json").read_text(encoding="utf-8")) == [1, 2]
    assert "e/f: 0.5" in (run / "metrics/keys.txt").read_text(encoding="utf-8")


def test_two_processes_that_write_the_same_folder_both_keep_their_results(config, tmp_path, monkeypatch):
    path, free = config(), folder._unused_folder
    assert tse(tmp_path, "run", path) == 0
    (first,) = runs_in(tmp_path)
    asked = []

    def taken_meanwhile(settings):
        asked.append(settings)
        return settings.folder / settings.run_name if len(asked) == 1 else free(settings)

    monkeypatch.setattr(folder, "_unused_folder", taken_meanwhile)
    assert tse(tmp_path, "run", path) == 0
    _, second = runs_in(tmp_path)
    assert len(asked) == 2
    assert f"Writing output to: {second.relative_to(tmp_path)}" in (second / "log.txt").read_text(encoding="utf-8")
    assert f"Writing output to: {first.relative_to(tmp_path)}" in (first / "log.txt").read_text(encoding="utf-8")


def test_what_is_written_has_a_name_of_its_process_alone(config, tmp_path, monkeypatch):
    seen, values = [], folder._write_values

    def spy(folder, summary):
        seen.append(folder.name)
        values(folder, summary)

    monkeypatch.setattr(folder, "_write_values", spy)
    path = config()
    for _ in range(2):
        assert tse(tmp_path, "run", path) == 0
    assert len(set(seen)) == 2
    assert all(name.startswith(".") for name in seen)
    assert not any(run.name.startswith(".") for run in runs_in(tmp_path))


def test_plots_takes_the_newest_run_and_tells_why_others_are_left_out(config, tmp_path, capsys):
    pytest.importorskip("typst", reason="the figures extra is not installed")
    assert tse(tmp_path, "run", config()) == 0
    assert tse(tmp_path, "run", config()) == 0
    assert tse(tmp_path, "run", config(), "--compat", "released") == 0
    _, *later = runs_in(tmp_path)
    newest = next(run for run in later if '"none"' in (run / "json/run.json").read_text(encoding="utf-8"))
    capsys.readouterr()
    assert tse(tmp_path, "plots") == 0
    stderr = capsys.readouterr().err
    assert "nearest-noun: runs are left out because they have the numbers of the released program" in stderr
    assert f"nearest-noun, across_prep, EW: 2 runs; using the newest, {newest}" in stderr
    assert tse(tmp_path, "plots", "--compat", "released") == 0
    assert "runs are left out because they do not have the numbers of the released program" in capsys.readouterr().err
    for run in runs_in(tmp_path):
        (run / "metrics/main.txt").write_text("Overall scores (top-k): many\n", encoding="utf-8")
    assert tse(tmp_path, "plots") == 2
    stderr = capsys.readouterr().err
    assert "has no results" in stderr
    assert stderr.count("is left out") == 3
