"""refining-tse's configurations: accepted as they are; all mistakes are reported at once, each with its line."""

from __future__ import annotations

import copy

import pytest
import yaml

from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.refining_tse.config import Plugins, read_tse_config, short_name
from tests.helpers import write_lines

SHIPPED = {
    "dataset": {
        "add_trailing_period": True,
        "capitalize_first_word": True,
        "max_examples_per_template": None,
        "name": "custom",
        "template_dir": "data/ML",
        "template_files": ["simple_agrmt_all.jsonl"],
    },
    "experiment": {"max_examples": None},
    "logger": {
        "path": "results/bert-base-cased/ML_simple_agrmt/mw",
        "print_metrics_to_general_log": False,
        "print_to_stdout": False,
    },
    "metrics": {
        "main": {
            "cutoffs_bot": [0.5, 0.1, 1.0e-06],
            "cutoffs_top": [0.1, 1.0],
            "example_aggregator": "mean",
            "lemma_inflections_path": "data/verbs/combined_verb_list.csv",
            "use_custom_dataset": True,
            "use_equal_verb_voting": False,
        }
    },
    "model": {"name": "bert-base-cased"},
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A working folder as refining-tse has it; ``write(change)`` puts a configuration there."""
    for folder in ("data/ML", "data/verbs", "configs/bert-base-cased/ML_simple_agrmt"):
        (tmp_path / folder).mkdir(parents=True)
    write_lines(tmp_path / "data/ML/simple_agrmt_all.jsonl", ["{}"])
    write_lines(tmp_path / "data/verbs/combined_verb_list.csv", ["idx,sing,plur,freq"])
    monkeypatch.chdir(tmp_path)

    def write(change=lambda data: None):
        data = copy.deepcopy(SHIPPED)
        change(data)
        path = tmp_path / "configs/bert-base-cased/ML_simple_agrmt/mw.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return path

    return write


def mistakes_of(path, **options):
    with pytest.raises(ConfigError) as caught:
        read_tse_config(path, **options)
    return str(caught.value).splitlines()


def test_a_shipped_configuration_becomes_the_task_and_model_that_it_means(tree, tmp_path):
    config = read_tse_config(tree())
    assert config.voting == "mw"
    assert config.templates == "ML_simple_agrmt"
    assert config.run_name == "custom_bert-base-cased_main"
    assert config.model_spec("none") == {"name": "hf", "model": "bert-base-cased", "label": "bert-base-cased"}
    task = config.task_spec("none")
    assert task["name"] == "syntax"
    assert task["data"] == {"simple_agrmt": [str(tmp_path / "data/ML/simple_agrmt_all.jsonl")]}
    assert task["cutoffs_bottom"] == [0.5, 0.1, 1e-6]
    assert "max_rows" not in task


def test_ew_and_mw_of_the_same_pairs_are_one_task(tree):
    def ew(data):
        data["metrics"] = {"ML": {"example_aggregator": "mean", "use_custom_dataset": True}, **data["metrics"]}
        data["metrics"]["main"]["use_equal_verb_voting"] = True
        data["logger"]["path"] = "results/bert-base-cased/ML_simple_agrmt/tse_ew"

    mw, ew = read_tse_config(tree()), read_tse_config(tree(ew))
    assert (ew.voting, ew.run_name) == ("ew", "custom_bert-base-cased_ML-main")
    assert mw.task_spec("none") == ew.task_spec("none")


@pytest.mark.parametrize(("limit", "rows"), [(1, 64), (64, 64), (65, 128), (100, 128)])
def test_max_examples_is_rounded_up_to_whole_batches(tree, limit, rows):
    config = read_tse_config(tree(lambda data: data["experiment"].update(max_examples=limit)))
    assert config.task_spec("none")["max_rows"] == rows


def test_paths_are_found_above_the_configuration_when_run_from_elsewhere(tree, tmp_path, monkeypatch):
    path = tree()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = read_tse_config(path)
    assert config.files == [tmp_path / "data/ML/simple_agrmt_all.jsonl"]
    assert config.verbs == tmp_path / "data/verbs/combined_verb_list.csv"


def test_a_folder_in_the_working_folder_that_lacks_the_file_does_not_hide_the_right_one(tree, tmp_path, monkeypatch):
    path = tree()
    (tmp_path / "elsewhere/data/ML").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert read_tse_config(path).files == [tmp_path / "data/ML/simple_agrmt_all.jsonl"]


def test_all_mistakes_are_reported_together_each_with_its_line_and_a_remedy(tree):
    def spoil(data):
        data["dataset"]["capitalize_first_word"] = "yes please"
        data["dataset"]["add_trailing_perod"] = True
        data["experiment"]["max_examples"] = 0
        data["metrics"]["main"]["lemma_inflections_path"] = "data/verbs/none.csv"
        data["metrics"]["main"]["cutoffs_top"] = [0.5, 2.0]
        data["metrics"]["mian"] = {}
        data["model"]["nmae"] = "x"
        data["loger"] = {}

    path = tree(spoil)
    messages = mistakes_of(path)
    text = "\n".join(messages)
    for part in (
        "dataset.capitalize_first_word",
        "dataset.add_trailing_perod: unknown key; did you mean 'add_trailing_period'?",
        "experiment.max_examples",
        "metrics.main.cutoffs_top[1]",
        "metrics.main.lemma_inflections_path: there is no verb list data/verbs/none.csv",
        "metrics.mian: unknown metric; did you mean 'main'?",
        "model.nmae: unknown key; use name",
        "loger: unknown key; did you mean 'logger'?",
    ):
        assert part in text
    lines = path.read_text(encoding="utf-8").splitlines()
    for line in messages:
        where, _, message = line.partition(": ")
        number = int(where.rpartition("line ")[2])
        key = message.partition(":")[0].rpartition(".")[2]
        # An entry of a list has its own line, on which its key does not stand.
        expected = "- 2.0" if key == "cutoffs_top[1]" else key
        assert expected in lines[number - 1], line


def test_missing_files_are_reported_with_key_and_near_names(tree):
    def spoil(data):
        data["dataset"]["template_files"] = ["simple_agrmt.jsonl"]
        data["metrics"]["main"]["lemma_inflections_path"] = "verbs.csv"

    text = "\n".join(mistakes_of(tree(spoil)))
    assert "dataset.template_files: there is no file simple_agrmt.jsonl" in text
    assert "did you mean 'simple_agrmt_all.jsonl'?" in text
    assert "metrics.main.lemma_inflections_path: there is no verb list verbs.csv" in text
    assert "run from the folder where it starts" in text


@pytest.mark.parametrize("section", ["dataset", "logger", "metrics", "model"])
def test_a_missing_section_is_named(tree, section):
    def drop(data):
        del data[section]

    assert any(f": {section}: " in line for line in mistakes_of(tree(drop)))


@pytest.mark.parametrize("value", ["text", [], 3])
@pytest.mark.parametrize("section", ["dataset", "experiment", "logger", "metrics", "model"])
def test_a_section_of_another_type_is_a_mistake_and_no_crash(tree, section, value):
    assert any(f"{section}:" in line for line in mistakes_of(tree(lambda data: data.update({section: value}))))


def test_only_custom_data_sets_are_known(tree):
    assert "dataset.name" in mistakes_of(tree(lambda data: data["dataset"].update(name="blimp")))[0]


def test_another_model_writes_under_its_own_name(tree):
    config = read_tse_config(tree(), model="models/bert-tiny")
    assert config.model_spec("none")["model"] == "models/bert-tiny"
    assert config.folder.as_posix() == "results/bert-tiny/ML_simple_agrmt/mw"
    assert config.run_name == "custom_bert-tiny_main"


@pytest.mark.parametrize("model", [".", "..", "./", "bert/..", "/"])
def test_no_model_leads_out_of_the_results_folder(tree, tmp_path, model):
    (tmp_path / "bert").mkdir()
    config = read_tse_config(tree(), model)
    assert not {".", "..", ""} & {*config.folder.parts, short_name(model)}
    assert config.folder.as_posix() == f"results/{short_name(model)}/ML_simple_agrmt/mw"
    assert config.overridden
    if model == ".":
        assert short_name(model) == tmp_path.name


def test_a_template_file_that_is_listed_twice_counts_twice(tree):
    config = read_tse_config(tree(lambda data: data["dataset"]["template_files"].append("simple_agrmt_all.jsonl")))
    ((_, files),) = config.task_spec("none")["data"].items()
    assert len(files) == 2


def test_a_class_is_found_by_its_file_and_by_the_name_it_was_registered_under(tree, tmp_path):
    write_lines(tmp_path / "mine.py", ["class Model: ...", "class Metric: ..."])

    def own(data):
        data["model"] = {"name": "bert-base-cased", "class": "mine.py:Model", "depth": 2}
        data["metrics"]["margin"] = {"class": "mine.py:Metric", "words": ["is"]}

    config = read_tse_config(tree(own))
    assert config.model_spec("none")["settings"] == {"name": "bert-base-cased", "depth": 2}
    assert config.task_spec("none")["metrics"]["margin"]["settings"] == {"words": ["is"]}
    registered = read_tse_config(tree(), plugins=Plugins({"bert": "mine.py:Model"}, {}))
    assert registered.model_spec("none")["file"] == "mine.py:Model"


def test_a_class_that_is_not_there_is_a_mistake(tree):
    assert "no file nowhere.py" in mistakes_of(tree(lambda d: d["model"].update({"class": "nowhere.py:Model"})))[0]
    assert "must be file.py:Name" in mistakes_of(tree(lambda d: d["model"].update({"class": "Model"})))[0]
