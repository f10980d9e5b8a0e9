"""``lmassay tse``: refining-tse's configurations give refining-tse's folders, with the original's numbers in them."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import shutil
import textwrap

import numpy as np
import pytest
import yaml

from lmassay.cli import main
from lmassay.storage.store import Store
from tests.helpers import EVALUATIONS, ROOT, lmassay
from tests.published_data import FIGURES, published_set


def setup_module() -> None:
    """Import transformers when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")


TOLERANCE = 2e-5
EW_AT_ONE = 2e-3  # depends on the rounding of a float32 sum
FLIP, FLIPS = 1e-4, 2  # two verbs of almost the same probability may stand in either order at a cut-off
TOP = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 1.0]
BOTTOM = [0.5, 0.1, 0.01, 0.001, 0.0001, 1e-05, 1e-06]
KINDS = {"mw": "MW", "tse_ew": "EW"}


def config_of(model, kind, **dataset):
    verbs = {
        "cutoffs_bot": BOTTOM,
        "cutoffs_top": TOP,
        "example_aggregator": "mean",
        "lemma_inflections_path": str(published_set("tse") / "verbs/combined_verb_list.csv"),
        "use_custom_dataset": True,
        "use_equal_verb_voting": kind == "tse_ew",
    }
    tse = {"ML": {"example_aggregator": "mean", "use_custom_dataset": True}} if kind == "tse_ew" else {}
    return {
        "dataset": {
            "add_trailing_period": True,
            "capitalize_first_word": True,
            "max_examples_per_template": None,
            "name": "custom",
            "template_dir": str(published_set("tse") / "ML"),
            "template_files": ["simple_agrmt_all.jsonl"],
            **dataset,
        },
        "experiment": {"max_examples": None},
        "logger": {
            "path": f"results/{model}/ML_simple_agrmt/{kind}",
            "print_metrics_to_general_log": False,
            "print_to_stdout": False,
        },
        "metrics": {**tse, "main": verbs},
        "model": {"name": f"models/{model}"},
    }


def write(folder, data):
    path = folder / "configs" / (data["logger"]["path"].removeprefix("results/") + ".yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def tse(folder, *arguments):
    """Run ``lmassay tse`` in this process, where torch is loaded once; gives the exit code."""
    with contextlib.chdir(folder), pytest.raises(SystemExit) as stop:
        main(["tse", *map(str, arguments)])
    return stop.value.code


def arrays(run):
    return {path.stem: np.load(path)["arr_0"] for path in (run / "npzs").iterdir()}


def lines(run, metric):
    parts = (line.partition(": ") for line in (run / "metrics" / f"{metric}.txt").read_text("utf-8").splitlines())
    return {name: value for name, _, value in parts}


def numbers(text):
    return [float(number) for number in text.split(",")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working folder with EW and MW of two models on one set, all run by one command."""
    folder = tmp_path_factory.mktemp("tse")
    (folder / "models").symlink_to(FIGURES / "tse/models")
    for model in ("bert-tiny", "gpt2-tiny"):
        for kind in KINDS:
            write(folder, config_of(model, kind))
    assert tse(folder, "run-all", "configs") == 0
    return folder


def run_of(folder, model, kind):
    (run,) = (folder / "results" / model / "ML_simple_agrmt" / kind).iterdir()
    return run


def check_against(expected, run, metric):
    """The text and the arrays of a folder against what the original computed."""
    written, stored, flipped = lines(run, "main"), arrays(run), 0
    for side, name, cutoffs in (("top-k", "top", TOP), ("bottom-k", "bottom", BOTTOM)):
        assert numbers(written[f"Cutoffs ({side})"]) == cutoffs
        overall = np.array(numbers(written[f"Overall scores ({side})"]))
        gold = np.array(expected[f"overall_{name}"], dtype=float)
        assert np.array_equal(np.isnan(overall), np.isnan(gold))
        tolerance = np.full(len(cutoffs), TOLERANCE)
        if metric == "EW" and name == "top":
            tolerance[-1] = EW_AT_ONE
        off = np.nan_to_num(np.abs(overall - gold))
        flipped += int((off > tolerance).sum())
        assert (off <= np.maximum(tolerance, FLIP)).all()
        assert numbers(written[f"% examples invalid ({side})"]) == pytest.approx(expected[f"invalid_fraction_{name}"])
        gold = np.array(expected[f"per_context_{name}"], dtype=float)
        scores = stored[f"Cutoff scores ({side})"]
        assert scores.shape == gold.shape
        assert np.array_equal(np.isnan(scores), np.isnan(gold))
        off = np.nan_to_num(np.abs(scores - gold))
        assert off[:, :-1].max() < 1e-4
        assert off[:, -1].max() < (5e-3 if metric == "EW" and name == "top" else 1e-4)
        counted = np.nanmean(stored[f"Prob counted ({side})"], axis=0)
        assert counted == pytest.approx(expected[f"prob_counted_{name}_nanmean"], abs=TOLERANCE)
    assert flipped <= FLIPS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["bert-tiny", "gpt2-tiny"])
def test_text_and_arrays_hold_the_originals_numbers(place, model, kind):
    gold = json.loads((FIGURES / f"tse/gold_{model}_fixed.json").read_text(encoding="utf-8"))
    expected = gold["results"]["simple_agrmt"]
    run = run_of(place, model, kind)
    check_against(expected[KINDS[kind]], run, KINDS[kind])
    if kind == "tse_ew":
        assert float(lines(run, "ML")["Overall model score"]) == expected["TSE"]["score"]
        assert int(lines(run, "ML")["Number of examples"]) == expected["TSE"]["n"]
        assert arrays(run)["ML_scores"].tolist() == expected["TSE"]["scores"]
        assert arrays(run)["ML-valid_min_pairs_idxs"].tolist() == expected["TSE"]["valid_idx"]


def test_the_lines_that_mean_nothing_in_the_original_are_right_here(place):
    exact = json.loads((FIGURES / "tse/exact_bert-tiny.json").read_text(encoding="utf-8"))["results"]["simple_agrmt"]
    written = lines(run_of(place, "bert-tiny", "mw"), "main")
    assert float(written["Overall model score"]) == pytest.approx(exact["MW_all_lemmas"], abs=1e-6)
    assert (written["Number of examples"], written["Number of lemmas"]) == ("100", "858")


def test_contexts_stand_in_the_order_of_their_first_rows(place):
    gold = json.loads((FIGURES / "tse/gold_bert-tiny_fixed.json").read_text(encoding="utf-8"))
    run = run_of(place, "bert-tiny", "mw")
    pairs = json.loads((run / "json/main-valid_min_pairs.json").read_text(encoding="utf-8"))
    contexts = [f"{p['left']}<verb>{p['right']}".replace("<verb>.", "<verb> .").replace(".", " .") for p in pairs]
    digests = [hashlib.sha256(" ".join(context.split()).encode()).hexdigest()[:16] for context in contexts]
    assert digests == gold["results"]["simple_agrmt"]["context_sha256"]
    rows = arrays(run)["main-valid_min_pairs_idxs"].tolist()
    assert rows == sorted(set(rows)) == [pair["row"] for pair in pairs]
    assert len(rows) == 100


def test_the_folder_has_the_originals_layout_with_json_for_pickles(place):
    run = run_of(place, "bert-tiny", "tse_ew")
    assert run.name == "custom_bert-tiny_ML-main"
    assert sorted(p.name for p in run.iterdir()) == ["config.yaml", "figs", "json", "log.txt", "metrics", "npzs"]
    assert sorted(p.name for p in (run / "metrics").iterdir()) == ["ML.txt", "main.txt"]
    assert sorted(arrays(run)) == [
        "Cutoff scores (bottom-k)",
        "Cutoff scores (top-k)",
        "ML-valid_min_pairs_idxs",
        "ML_scores",
        "Prob counted (bottom-k)",
        "Prob counted (top-k)",
        "main-valid_min_pairs_idxs",
    ]
    config = place / "configs/bert-tiny/ML_simple_agrmt/tse_ew.yaml"
    assert (run / "config.yaml").read_bytes() == config.read_bytes()
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert "--------Summary Results--------" in log
    assert "For metric ML:" in log


def test_the_last_twenty_lines_are_what_the_originals_plots_look_for(place):
    """It takes lines by their beginning, numbers between commas behind the first colon, and the npz that is named."""
    run = run_of(place, "bert-tiny", "mw")
    last = (run / "metrics/main.txt").read_text(encoding="utf-8").splitlines()[-20:]
    for beginning in ("Cutoffs", "Overall scores", "% examples invalid"):
        matching_lines = [line for line in last if line.startswith(beginning)]
        assert [line.partition(" (")[2].partition(")")[0] for line in matching_lines] == ["top-k", "bottom-k"]
        assert [len(numbers(line.split(":")[1])) for line in matching_lines] == [len(TOP), len(BOTTOM)]
    named = [line for line in last if "Prob counted" in line]
    assert [("top-k" in line, "bottom-k" in line) for line in named] == [(True, False), (False, True)]


def test_ew_and_mw_of_a_model_come_from_one_run(place):
    with Store(place / "results/lmassay") as store:
        records = store.runs()
    assert [record.model for record in records] == ["bert-tiny", "gpt2-tiny"]
    assert {record.status for record in records} == {"done"}


def test_run_again_asks_nothing_and_overwrites_nothing(place, tmp_path, capsys):
    folder = tmp_path / "copy"
    shutil.copytree(place, folder, symlinks=True)
    assert tse(folder, "run", "configs/gpt2-tiny/ML_simple_agrmt/mw.yaml") == 0
    assert "has these numbers already" in capsys.readouterr().err
    runs = sorted((folder / "results/gpt2-tiny/ML_simple_agrmt/mw").iterdir())
    assert len(runs) == 2
    assert runs[1].name.startswith("custom_gpt2-tiny_main_")
    for name, array in arrays(runs[0]).items():
        assert np.array_equal(array, arrays(runs[1])[name], equal_nan=True)
    with Store(folder / "results/lmassay") as store:
        assert len(store.runs()) == 2


@pytest.mark.parametrize("model", ["bert-tiny", "roberta-tiny"])
def test_compat_released_brings_the_originals_bugs_back(tmp_path, model):
    gold = json.loads((FIGURES / f"tse/gold_{model}_released.json").read_text(encoding="utf-8"))
    (tmp_path / "models").symlink_to(FIGURES / "tse/models")
    write(tmp_path, config_of(model, "tse_ew"))
    assert tse(tmp_path, "run-all", "configs", "--compat", "released") == 0
    run = run_of(tmp_path, model, "tse_ew")
    check_against(gold["results"]["simple_agrmt"]["EW"], run, "EW")
    assert "As in the released program" in (run / "log.txt").read_text(encoding="utf-8")
    with Store(tmp_path / "results/lmassay") as store:
        assert store.runs()[0].config["model"]["position"] == "counted"


def test_whitelist_and_blacklist_choose_by_parts_of_the_path_and_another_model_can_stand_in(place, tmp_path):
    configs = place / "configs"
    (tmp_path / "models").symlink_to(FIGURES / "tse/models")
    options = ["--whitelist", "bert-tiny,nothing", "--blacklist", "tse_ew", "--model", "models/gpt2-tiny"]
    assert tse(tmp_path, "run-all", configs, *options) == 0
    written = [p.relative_to(tmp_path).as_posix() for p in tmp_path.glob("results/*/*/*/*")]
    assert written == ["results/gpt2-tiny/ML_simple_agrmt/mw/custom_gpt2-tiny_main"]
    assert tse(tmp_path, "run-all", configs, "--whitelist", "xlnet") == 2


def test_one_bad_configuration_does_not_stop_the_others(place, tmp_path, capsys):
    (tmp_path / "models").symlink_to(FIGURES / "tse/models")
    good = config_of("gpt2-tiny", "mw")
    for name, change in (("a", {"model": {"name": "models/none-such"}}), ("b", {"dataset": {}}), ("c", {})):
        data = {**copy.deepcopy(good), **change}
        data["logger"]["path"] = f"results/{name}/ML_simple_agrmt/mw"
        write(tmp_path, data)
    assert tse(tmp_path, "run-all", "configs") == 2
    captured = capsys.readouterr()
    assert "configs/b/ML_simple_agrmt/mw.yaml, line 1: dataset.name: this key is required" in captured.err
    assert "lmassay models get models/none-such" in captured.err
    assert "1 of 3 configurations are done" in captured.err
    assert captured.out.count("\n") == 1
    assert [p.name for p in (tmp_path / "results").iterdir() if p.name != "lmassay"] == ["c"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    from lmassay.running import runner

    (tmp_path / "models").symlink_to(FIGURES / "tse/models")
    path = write(tmp_path, config_of("gpt2-tiny", "mw"))

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_set_final_status", stop)
        assert tse(tmp_path, "run", path) == 130
    assert not (tmp_path / "results/gpt2-tiny").exists()
    assert tse(tmp_path, "run", path) == 0
    assert "continuing run" in capsys.readouterr().err
    with Store(tmp_path / "results/lmassay") as store:
        assert [record.status for record in store.runs()] == ["done"]


BERT = """
    import torch
    import transformers

    from .transformers_model import TransformersModel
    from .utils import punctuated_join


    class OwnBert(TransformersModel):
        def __init__(self, config):
            super().__init__(config, transformers.AutoTokenizer, transformers.BertForMaskedLM)

        @torch.no_grad()
        def predict(self, left_contexts, right_contexts):
            mask = self.tokenizer.mask_token
            texts = [
                punctuated_join([punctuated_join(left), mask, punctuated_join(right)])
                for left, right in zip(left_contexts, right_contexts)
            ]
            inputs = self.tokenizer(texts, padding=True, return_tensors="pt").to(self.device)
            blanks = inputs["input_ids"] == self.tokenizer.mask_token_id
            return self.model(**inputs).logits[blanks]
"""


def test_a_custom_transformers_model_registered_in_a_file_gives_the_originals_numbers(tmp_path):
    gold = json.loads((FIGURES / "tse/gold_bert-tiny_fixed.json").read_text(encoding="utf-8"))
    (tmp_path / "models").symlink_to(FIGURES / "tse/models")
    register = (
        "\n    from .models import model_name_to_MPEModel_class\n    model_name_to_MPEModel_class['bert'] = OwnBert\n"
    )
    (tmp_path / "own_bert.py").write_text(textwrap.dedent(BERT + register), encoding="utf-8")
    path = write(tmp_path, config_of("bert-tiny", "tse_ew"))
    assert tse(tmp_path, "run", path, "--plugins", "own_bert.py") == 0
    check_against(gold["results"]["simple_agrmt"]["EW"], run_of(tmp_path, "bert-tiny", "tse_ew"), "EW")
    with Store(tmp_path / "results/lmassay") as store:
        assert store.runs()[0].config["model"]["name"] == "mpe"


def test_a_custom_transformers_model_that_is_not_on_this_machine_is_not_downloaded(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    register = (
        "\n    from .models import model_name_to_MPEModel_class\n    model_name_to_MPEModel_class['bert'] = OwnBert\n"
    )
    (tmp_path / "own_bert.py").write_text(textwrap.dedent(BERT + register), encoding="utf-8")
    config = config_of("bert-tiny", "tse_ew")
    config["model"]["name"] = "nobody/bert-nowhere"
    path = write(tmp_path, config)
    assert tse(tmp_path, "run", path, "--plugins", "own_bert.py") != 0
    assert "fetch it: lmassay models get nobody/bert-nowhere" in capsys.readouterr().err


def test_the_example_runs_as_its_own_words_say(tmp_path):
    done = lmassay("tse", "run", EVALUATIONS / "syntax/starters/tse/nearest_noun.yaml", "--lemma-stats", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "TSE 0.6000 (50 rows), EW 0.6000 (10 contexts), margin 0.4000 (50 rows)" in done.stdout
    page = (ROOT / "docs/migrating/refining-tse.md").read_text(encoding="utf-8")
    assert done.stdout in page, "the docs show what is printed"
    (run,) = (tmp_path / "results/nearest-noun/across_prep/tse_ew").iterdir()
    assert float(lines(run, "margin")["Overall model score"]) == pytest.approx(0.4)
    assert arrays(run)["margin-valid_min_pairs_idxs"].tolist() == list(range(50))
    stats = json.loads((run / "json/Lemma Stats.json").read_text(encoding="utf-8"))
    assert len(stats["is"]["probs"]) == 10


TSE = """
    from src.constants import INVALID_SCORE_VALUE
    from src.metrics.metric_computer import MetricComputer

    class Tse(MetricComputer):
        def _compute(self, logits, label, template_id, word_to_index):
            scores = []
            for row, template in zip(logits, template_id):
                places = [word_to_index.get(word) for word in template.lemma_inflections]
                known = None not in places
                scores.append(float(row[places[0]] > row[places[1]]) if known else INVALID_SCORE_VALUE)
            return scores, [None] * len(scores), {}
"""


@pytest.mark.parametrize("model", ["bert-tiny", "gpt2-tiny"])
def test_tse_written_as_a_metric_of_ones_own_is_tse(tmp_path, model):
    (tmp_path / "models").symlink_to(FIGURES / "tse/models")
    (tmp_path / "own.py").write_text(textwrap.dedent(TSE), encoding="utf-8")
    data = config_of(model, "tse_ew")
    data["metrics"]["own"] = {"class": "own.py:Tse"}
    assert tse(tmp_path, "run", write(tmp_path, data)) == 0
    run = run_of(tmp_path, model, "tse_ew")
    for name in ("Overall model score", "Number of examples"):
        assert lines(run, "own")[name] == lines(run, "ML")[name]
    stored_arrays = arrays(run)
    assert np.array_equal(stored_arrays["own_scores"], stored_arrays["ML_scores"])
    assert np.array_equal(stored_arrays["own-valid_min_pairs_idxs"], stored_arrays["ML-valid_min_pairs_idxs"])
    with Store(tmp_path / "results/lmassay") as store:
        (record,) = store.runs()
    results = {r.metric: r for r in record.results if r.group == "overall"}
    own, builtin = results["own"], results["tse"]
    assert (own.value, own.n, own.n_error, own.n_unscored) == (
        builtin.value,
        builtin.n,
        builtin.n_error,
        builtin.n_unscored,
    )
    assert [own.low, own.high] == pytest.approx([builtin.low, builtin.high])
    assert record.design.weights == {"tse": "tse_rows", "own": "own_rows"}


def test_logs_go_to_standard_output_where_the_configuration_says_so(tmp_path):
    text = (EVALUATIONS / "syntax/starters/tse/nearest_noun.yaml").read_text(encoding="utf-8")
    text = text.replace("print_to_stdout: false", "print_to_stdout: true").replace(
        "tse/", f"{EVALUATIONS}/syntax/starters/tse/"
    )
    (tmp_path / "own.yaml").write_text(text + "unique: true\n", encoding="utf-8")
    done = lmassay("tse", "run", "own.yaml", cwd=tmp_path)
    assert "--------Summary Results--------" in done.stdout
    (run,) = (tmp_path / "results/nearest-noun/across_prep/tse_ew").iterdir()
    assert run.name.startswith("custom_nearest-noun_ML-main-margin_")


def test_plots_writes_the_table_and_the_figures(place, tmp_path, capsys):
    pytest.importorskip("typst", reason="the figures extra is not installed")
    assert tse(place, "plots", "-o", tmp_path / "plots") == 0
    stdout = capsys.readouterr().out.splitlines()
    names = [f"{model}-{voting}.png" for model in ("bert-tiny", "gpt2-tiny") for voting in ("ew", "mw")]
    names += ["supp_top-bottom-scores.png", "supp_probcounted.png", "supp_invalid-pcnt.png"]
    assert stdout == [str(tmp_path / "plots" / name) for name in ["latex_table.tex", *names]]
    table = (tmp_path / "plots/latex_table.tex").read_text(encoding="utf-8")
    assert r"Simple & \textit{0.53} & \textbf{0.50} & \textbf{0.50} & \textit{0.52}" in table


def test_plots_of_a_folder_without_results_says_where_they_should_lie(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    assert tse(tmp_path, "plots") == 2
    assert "<model>/<templates>/<metric>/<run>" in capsys.readouterr().err
