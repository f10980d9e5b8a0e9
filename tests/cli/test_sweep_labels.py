"""Runs of a sweep have labels that tell them apart, in the terminal, on the page, in LaTeX, Markdown and figures."""

from __future__ import annotations

import html
import json
import re

import pytest

from lmassay.evaluations.bias.report.section import section
from lmassay.reporting.run_labels import label_runs
from lmassay.storage.store import Store
from tests.evaluations.bias.report import small_bias
from tests.helpers import lmassay, write_config, write_lines
from tests.tiny_models import save_model

SENTENCES = ["the cat sees the white house", "a dog eats some dry bread", "we drink cold water at noon"]
LONG = "Translate the sentence that follows into plain English, and do not add a word of your own: "
SWEPT = {
    "scorer of the source": ({"s_src": ["chrf", "bleu"]}, {}, ["s_src=chrf", "s_src=bleu"]),
    "scorer of the target": (
        {"s_tgt": ["chrf", {"name": "chrf", "beta": 1}]},
        {},
        ["charswap, s_tgt.beta=default", "charswap, s_tgt.beta=1"],
    ),
    "threshold": (
        {"success_threshold": [0.9, 1.0]},
        {},
        ["success_threshold=0.9", "success_threshold=1"],
    ),
    "prompt": ({"prompt": ["{x}", "> {x}"]}, {}, ["prompt={x}", 'prompt="> {x}"']),
    "long prompts": (
        {"prompt": [f"{LONG}{{x}}", f"{LONG}\n{{x}}!"]},
        {},
        ['prompt="…', 'prompt="…'],
    ),
    "Korean prompts": ({"prompt": ["{x}", "번역: {x}"]}, {}, ["prompt={x}", 'prompt="번역: {x}"']),
    "max_tokens": ({"max_tokens": [5, 10]}, {}, ["max_tokens=5", "max_tokens=10"]),
    "rate of the attack": ({"attack": {"name": "charswap", "rate": [0.2, 0.4]}}, {}, ["rate=0.2", "rate=0.4"]),
    "option of the model": ({}, {"transform": ["none", "upper"]}, ["echo (transform=none)", "echo (transform=upper)"]),
}


@pytest.fixture
def folder(tmp_path):
    write_lines(tmp_path / "src.txt", SENTENCES)
    return tmp_path


def swept(folder, task, model, **more):
    """A configuration of a sweep, run; its runs as JSON."""
    parts = {"name": "robustness", "src": "src.txt", "ref": "src.txt", "attack": "charswap", **task}
    config = {"task": parts, "model": {"name": "echo", **model}, "resamples": 100, **more}
    done = lmassay("run", write_config(folder / "c.yaml", config), "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]


def named(run):
    return f"{run['label']} on {run['model']}"


def figure_texts(folder):
    """The words of all figures, without the blanks where lines are broken."""
    texts = []
    for path in sorted((folder / "figures").glob("*.svg")):
        drawn = re.sub(r"<title>.*?</title>|<style>.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        texts.append(re.sub(r"\s", "", html.unescape(re.sub(r"<[^>]*>", "", drawn))))
    return texts


@pytest.mark.parametrize("what", SWEPT)
def test_every_output_tells_the_runs_of_a_sweep_apart(folder, what):
    task, model, expected = SWEPT[what]
    runs = swept(folder, task, model)
    names = [named(run) for run in runs]
    assert len(set(names)) == len(expected)
    for name, part in zip(names, expected, strict=True):
        assert part in name
    outputs = {"terminal": lmassay("ls", cwd=folder).stdout}
    for form in ("html", "md", "tex"):
        outputs[form] = lmassay("report", "--format", form, "-o", "-", cwd=folder).stdout
    assert lmassay("report", "--figures", "figures", cwd=folder).returncode == 0
    for run, name in zip(runs, names, strict=True):
        assert run["label"] in outputs["terminal"]
        assert run["model"] in outputs["terminal"]
        assert html.escape(run["label"]).replace("&quot;", "&#34;") in outputs["html"], name
    # The first two cells of a row are the label and the model.
    rows = {tuple(line.split("&")[:2]) for line in outputs["tex"].splitlines() if line.startswith("charswap")}
    assert len(rows) == len(runs)
    # A chart of equal rates is not drawn, so the runs may be named in one figure or in one figure each.
    figures = " ".join(figure_texts(folder))
    for run in runs:
        assert re.sub(r"\s", "", run["label"]) in figures
        assert re.sub(r"\s", "", run["model"]) in figures


def test_the_way_a_masked_model_scores_is_distinguished(tmp_path):
    save_model(tmp_path / "tiny", "bert")
    pairs = [{"sentence_good": "the author laughs", "sentence_bad": "the author laugh"}]
    write_lines(tmp_path / "pairs.jsonl", [json.dumps(pair) for pair in pairs])
    config = {
        "task": {"name": "minimal_pairs", "data": "pairs.jsonl"},
        "model": {"name": "hf", "model": "tiny", "pll": ["original", "within_word_l2r"]},
    }
    checked = lmassay("check", write_config(tmp_path / "c.yaml", config), "--json", cwd=tmp_path)
    models = [run["model"] for run in json.loads(checked.stdout)["runs"]]
    assert models == ["tiny (pll=original)", "tiny (pll=within_word_l2r)"]


def test_a_label_names_no_option_that_all_runs_share(folder):
    runs = swept(folder, {"s_src": ["chrf", "bleu"], "max_tokens": 7, "attack": {"name": "charswap", "rate": 0.4}}, {})
    assert [run["label"] for run in runs] == ["charswap, s_src=chrf", "charswap, s_src=bleu"]


def test_a_sweep_of_one_value_is_a_run_like_any_other(folder):
    (run,) = swept(folder, {"s_src": ["bleu"]}, {"transform": ["upper"]})
    assert named(run) == "charswap on echo"


def test_runs_of_other_sweeps_with_the_same_label_are_distinguished(folder):
    for threshold in (0.9, 1.2):
        swept(folder, {"success_threshold": threshold}, {})
    swept(folder, {"success_threshold": 1.2}, {})
    again = json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"][-1]["run"].rpartition("-")[2]
    listed = lmassay("ls", cwd=folder).stdout
    assert "charswap, success_threshold=0.9 [a]" in listed
    assert f"charswap, success_threshold=1.2, {again} [b]" in listed
    page = lmassay("report", "--all", "-o", "-", cwd=folder).stdout
    assert "charswap, success_threshold=0.9 [a] on echo" in page


# --- runs that were measured differently ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ({"s_src": ["chrf", "bleu"]}, ["s_src ([a] chrF2", "[b] BLEU"]),
        ({"success_threshold": [0.9, 1.0]}, ["threshold ([a] 0.9; [b] 1)"]),
    ],
)
def test_another_scorer_or_threshold_is_marked_wherever_runs_stand_together(folder, task, values):
    swept(folder, task, {})
    outputs = [lmassay("ls", cwd=folder).stdout]
    outputs += [lmassay("report", "--format", form, "-o", "-", cwd=folder).stdout for form in ("html", "md")]
    parts = {"name": "robustness", "src": "src.txt", "ref": "src.txt", "attack": "charswap", **task}
    write_config(folder / "again.yaml", {"task": parts, "model": "echo"})
    outputs.append(lmassay("run", "again.yaml", cwd=folder).stdout)
    for text in outputs:
        assert "Runs with different marks were measured differently; compare with care." in text
        assert " [a]" in text
        assert " [b]" in text
        for value in values:
            assert value in text
    latex = " ".join(lmassay("report", "--format", "tex", "-o", "-", cwd=folder).stdout.split())
    assert "measured differently" in latex
    assert lmassay("report", "--figures", "figures", cwd=folder).returncode == 0
    figures = " ".join(figure_texts(folder))
    assert "[a]" in figures
    assert "[b]" in figures


def test_runs_that_can_be_compared_have_no_mark(folder):
    swept(folder, {"attack": ["charswap", "worddrop"], "prompt": ["{x}", "> {x}"]}, {"transform": ["none", "upper"]})
    for text in (lmassay("ls", cwd=folder).stdout, lmassay("report", "-o", "-", cwd=folder).stdout):
        assert " [a]" not in text
        assert "measured differently" not in text


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_the_plan_says_which_lists_start_several_runs(folder):
    write_lines(folder / "more.txt", SENTENCES)
    task = {"name": "robustness", "src": ["src.txt", "more.txt"], "attack": "charswap", "max_tokens": [5, 6, 7]}
    write_config(folder / "c.yaml", {"task": task, "model": "echo"})
    note = "lists start one run per value: task.src (2 values), task.max_tokens (3 values)"
    assert note in lmassay("check", "c.yaml", cwd=folder).stdout
    assert note in lmassay("run", "c.yaml", cwd=folder).stderr


def test_keys_of_the_items_of_one_list_are_counted_once(folder):
    models = [{"name": "outputs", "files": {"out": "src.txt", "adv_out": "src.txt"}, "label": "first"}]
    write_lines(folder / "other.txt", SENTENCES)
    models.append({"name": "outputs", "files": {"out": "other.txt", "adv_out": "other.txt"}, "label": "second"})
    write_lines(folder / "adv.txt", [sentence.upper() for sentence in SENTENCES])
    attacks = [{"name": "a", "file": "adv.txt"}, {"name": "b", "file": "adv.txt"}]
    write_config(
        folder / "c.yaml", {"task": {"name": "robustness", "src": "src.txt", "attack": attacks}, "model": models}
    )
    plan = lmassay("check", "c.yaml", cwd=folder)
    assert "lists start one run per value: task.attack (2 values), model (2 values)\n" in plan.stdout, plan.stderr


def test_a_list_whose_items_differ_in_name_and_options_is_counted_once(folder):
    attacks = ["charswap", {"name": "charswap", "rate": 0.8, "seed": 1}, "case"]
    write_config(
        folder / "c.yaml", {"task": {"name": "robustness", "src": "src.txt", "attack": attacks}, "model": "echo"}
    )
    plan = lmassay("check", "c.yaml", cwd=folder).stdout
    assert "lists start one run per value: task.attack (3 values)\n" in plan


def test_the_plan_does_not_count_an_option_that_one_run_leaves_at_its_default(folder):
    attacks = [{"perturb": "charswap", "rate": 0.2}, {"perturb": "charswap", "rate": 0.4, "seed": 0}]
    write_config(
        folder / "c.yaml", {"task": {"name": "robustness", "src": "src.txt", "attack": attacks}, "model": "echo"}
    )
    plan = lmassay("check", "c.yaml", cwd=folder).stdout
    assert "lists start one run per value: task.attack.rate (2 values)\n" in plan


def test_the_plan_of_one_run_says_nothing_about_lists(folder):
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap", "stop": ["a", "b"]}
    write_config(folder / "c.yaml", {"task": task, "model": "echo"})
    assert "per value" not in lmassay("check", "c.yaml", cwd=folder).stdout


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_json_has_the_same_keys_for_one_run_and_for_several(folder):
    one = {"name": "robustness", "src": "src.txt", "attack": "charswap"}
    write_config(folder / "one.yaml", {"task": one, "model": "echo"})
    write_config(folder / "two.yaml", {"task": {**one, "max_tokens": [5, 6]}, "model": "echo"})
    for name, number in (("one.yaml", 1), ("two.yaml", 2)):
        for command in (["check", name], ["run", name], ["run", name, "--dry-run"], ["resume"]):
            document = json.loads(lmassay(*command, "--json", cwd=folder).stdout)
            assert list(document) == ["runs"]
            assert len(document["runs"]) == number
    shown = json.loads(lmassay("show", "latest", "--json", cwd=folder).stdout)
    assert shown == {"runs": json.loads(lmassay("ls", "--json", cwd=folder).stdout)["runs"][-1:]}


# --- bias -------------------------------------------------------------------------------------------------------------


def test_a_list_of_data_files_in_the_bias_task_is_announced_as_several_runs(tmp_path):
    for name in ("one", "two"):
        small_bias.write_samples(tmp_path / f"{name}.tsv")
    task = {"name": "bias", "data": ["one.tsv", "two.tsv"]}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "echo"})
    checked = lmassay("check", "c.yaml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "lists start one run per value: task.data (2 values)" in checked.stdout
    runs = json.loads(lmassay("check", "c.yaml", "--json", cwd=tmp_path).stdout)["runs"]
    assert [run["label"] for run in runs] == ["one, prompt 1", "two, prompt 1"]


def test_bias_runs_that_were_measured_differently_are_marked_in_tables_by_model(tmp_path):
    small_bias.run(tmp_path, {"label": "made"}, parsing="robust")
    small_bias.run(tmp_path, {"label": "other"}, parsing="reference")
    with Store(tmp_path / "results") as store:
        shown = label_runs(store.runs())
        text = str(section(store, shown.records).blocks)
    assert shown.notes == [
        "Runs with different marks were measured differently; compare with care. They differ in parsing "
        "([a] robust; [b] reference)."
    ]
    assert "[a]" in text
    assert "[b]" in text
