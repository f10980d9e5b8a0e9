"""Configurations: lists expand, every mistake is named with its key and line, nothing in them is executed."""

from pathlib import Path

import numpy as np
import pytest

from lmassay.errors import ConfigError
from lmassay.running.config import expand, load_runs, set_value
from tests.helpers import write_config

GOOD = """\
task:
  name: robustness
  src: src.txt
  attack: charswap
model: echo
"""


def load(tmp_path: Path, text: str, *overrides: str, **options):
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load_runs(file, overrides, **options)


def refuse(tmp_path, text, *overrides):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, *overrides)
    return str(caught.value)


def test_one_configuration_is_one_run_named_after_its_file(tmp_path):
    (run,) = load(tmp_path, GOOD)
    assert run.name == "config"
    assert run.base_dir == tmp_path


def test_lists_expand_to_every_combination(tmp_path):
    text = """\
task:
  name: robustness
  src: src.txt
  attack:
    - charswap
    - {name: keyboard, rate: [0.1, 0.2]}
  s_src: [chrf, bleu]
model: [echo, {name: echo, transform: [upper, reverse]}]
seed: [1, 2]
"""
    runs = load(tmp_path, text)
    assert len(runs) == 3 * 2 * 3 * 2
    assert len({run.model_dump_json() for run in runs}) == len(runs)


def test_a_list_that_is_one_value_does_not_expand(tmp_path):
    text = GOOD.replace("charswap", "{name: best, search: {perturbations: [delete, insert], rates: [0.1]}}")
    assert len(load(tmp_path, text)) == 1


def test_one_value_can_refer_to_another_of_the_same_run(tmp_path):
    text = GOOD.replace("charswap", "[charswap, {name: knn, file: adv.knn}]").replace(
        "model: echo", 'model: {name: outputs, files: {out: base, adv_out: "adv.${task.attack.name}.en"}}'
    )
    outs = [run.model["files"]["adv_out"] for run in load(tmp_path, text)]
    assert outs == ["adv.charswap.en", "adv.knn.en"]


def test_a_reference_to_nothing_is_an_error(tmp_path):
    assert "'${task.nothing}'" in refuse(tmp_path, GOOD + 'name: "${task.nothing}"\n')


def test_references_in_a_circle_are_reported_as_such(tmp_path):
    model = 'model: {name: outputs, files: {out: "${model.files.adv_out}", adv_out: "${model.files.out}"}}'
    assert "refers to itself through other keys" in refuse(tmp_path, GOOD.replace("model: echo", model))


def test_an_environment_variable_is_filled_in_when_the_run_is_built_and_not_before(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_LABEL", "secret-label")
    (run,) = load(tmp_path, GOOD.replace("model: echo", 'model: {name: echo, label: "${MY_LABEL}"}'))
    assert "secret-label" not in run.model_dump_json()
    assert run.build_model().label == "secret-label"
    monkeypatch.delenv("MY_LABEL")
    with pytest.raises(ConfigError, match="MY_LABEL is not set"):
        run.build_model()


@pytest.mark.fault(32)
def test_all_mistakes_are_reported_at_once_with_key_and_line(tmp_path):
    text = """\
task:
  name: robustness
  src: src.txt
  attack: {name: charswap, rate: 2}
  sucess_threshold: 1
model:
  name: openai
  modle: x
"""
    message = refuse(tmp_path, text)
    assert "line 4: task.attack.rate: Input should be less than or equal to 1 (got 2)" in message
    assert "line 5: task.sucess_threshold: unknown key; did you mean 'success_threshold'?" in message
    assert "line 8: model.modle: unknown key; did you mean 'model'?" in message
    assert "model.model: this key is required" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a mapping"),
        ("- a\n", "must be a mapping"),
        ("model: echo\n", "task: this key is required"),
        (GOOD + "seeds: 1\n", "line 6: seeds: unknown key; did you mean 'seed'"),
        (GOOD + "seed: x\n", "seed: Input should be a valid integer"),
        (GOOD + "limit: 0\n", "limit: Input should be greater than or equal to 1"),
        (GOOD + "seed: []\n", "seed: the list is empty"),
        (GOOD + "model: echo\n", "line 6: the key 'model' appears twice, first in line 5"),
        ("task: [1", "not valid YAML"),
        ("task: !!python/object/apply:os.system ['true']\n", "not valid YAML"),
        ("task: {attack: x}\n", "key 'name'"),
        ("task: robustnes\n", "did you mean 'robustness'"),
        (GOOD.replace("echo", "{name: ech}"), "did you mean 'echo'"),
        (GOOD.replace("charswap", "{name: x, file: a, perturb: b}"), "only one of file, perturb, search and gradient"),
    ],
)
def test_a_mistake_is_reported_in_words(tmp_path, text, message):
    assert message in refuse(tmp_path, text)


def test_the_line_is_that_of_the_entry_that_is_wrong(tmp_path):
    text = """\
task:
  name: robustness
  src: src.txt
  attack:
    - {name: a, perturb: case, rate: 0.5}
    - name: b
      rate: 5
"""
    assert "line 7: task.attack.rate" in refuse(tmp_path, text)


def test_a_wrong_limit_does_not_hide_the_mistakes_of_the_task(tmp_path):
    message = refuse(tmp_path, GOOD.replace("attack:", "atack:") + "limit: 0\n")
    assert "line 4: task.atack" in message
    assert "line 6: limit" in message


@pytest.mark.parametrize("text", ["${Home}", "${task.Attack}", "${home-dir}", "${"])
def test_what_looks_like_a_reference_but_is_none_is_an_error(tmp_path, text):
    assert "line 6: name:" in refuse(tmp_path, GOOD + f'name: "{text}"\n')


def test_every_leftover_reference_is_looked_at(tmp_path):
    assert "'${not a key}'" in refuse(tmp_path, GOOD + 'name: "${HOME} ${not a key}"\n')


@pytest.mark.parametrize("value", ["2026-01-01", ".nan", "-.inf", "!!binary aGVsbG8=", "!!set {a, b}"])
def test_a_value_that_cannot_be_kept_as_json_is_reported_with_its_line(tmp_path, value):
    (tmp_path / "own.py").write_text(
        "class Own:\n    name = 'own'\n    can = frozenset()\n    identity = dict\n"
        "    def __init__(self, since=None):\n        pass\n",
        encoding="utf-8",
    )
    message = refuse(tmp_path, GOOD.replace("model: echo", f"model:\n  name: own.py:Own\n  since: {value}"))
    assert "model.since" in message
    assert "put it in quotes" in message
    assert ", line " in message


def test_numbers_of_numpy_are_numbers(tmp_path):
    (tmp_path / "src.txt").write_text("a b\n", encoding="utf-8")
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "charswap", "rate": np.float32(0.5)}}
    runs = expand({"task": task, "model": "echo", "seed": [*np.arange(2)]}, tmp_path)
    assert [run.seed for run in runs] == [0, 1]
    assert runs[0].task["attack"]["rate"] == 0.5


def test_a_text_in_brackets_of_its_own_gets_the_advice_to_quote_it():
    with pytest.raises(ConfigError, match="in its own quotes"):
        set_value("{x} in German:", "task.prompt={x} in German:")


def test_a_value_that_looks_like_a_date_and_is_none_is_reported(tmp_path):
    assert "put the value in quotes" in refuse(tmp_path, GOOD + "name: 2020-13-45\n")


def test_a_reference_may_lead_to_another(tmp_path):
    text = GOOD.replace("model: echo", 'model: {name: echo, label: "${name}"}') + 'name: "on ${task.attack.name}"\n'
    assert load(tmp_path, text)[0].model["label"] == "on charswap"


def test_an_anchor_within_itself_is_refused(tmp_path):
    assert "refer to themselves" in refuse(tmp_path, "task: &a {name: robustness, x: *a}\n")


def test_lists_that_multiply_without_end_are_refused(tmp_path):
    many = ", ".join(str(n) for n in range(300))
    text = GOOD.replace("charswap", f"{{name: x, perturb: case, seed: [{many}]}}") + f"  max_tokens: [{many}]\n"
    text = text.replace("model: echo\n", "") + "model: echo\n"
    assert "more than 10000 runs" in refuse(tmp_path, text)


@pytest.mark.parametrize("bad", ["seed: -1", "limit: true", "task: {1: x, name: robustness}"])
def test_values_that_would_fail_later_are_refused_at_once(tmp_path, bad):
    text = GOOD + bad + "\n" if not bad.startswith("task") else bad + "\n"
    refuse(tmp_path, text)


@pytest.mark.parametrize("bad", [".nan", ".inf"])
def test_a_threshold_must_be_finite(tmp_path, bad):
    assert "finite" in refuse(tmp_path, GOOD.replace("attack:", f"success_threshold: {bad}\n  attack:"))


def test_a_sentence_can_be_set(tmp_path):
    (run,) = load(tmp_path, GOOD, "task.prompt=Translate: {x}")
    assert run.task["prompt"] == "Translate: {x}"


def test_a_subclass_has_the_options_of_its_parent(tmp_path):
    (tmp_path / "mine.py").write_text("from lmassay.models.echo import Echo\nclass Mine(Echo):\n    name = 'mine'\n")
    assert "transform" in refuse(tmp_path, GOOD.replace("echo", "{name: 'mine.py:Mine', transform: nonsense}"))


@pytest.mark.fault(32)
def test_a_bomb_of_anchors_is_refused(tmp_path):
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8))
    assert "anchors" in refuse(tmp_path, text)


def test_a_file_that_is_not_there_gets_a_suggestion(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*none\.yaml: no such file; `lmassay init`"):
        load_runs(tmp_path / "none.yaml")
    (tmp_path / "robustness.yaml").write_text("task: robustness\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"no such file; did you mean 'robustness\.yaml'\?"):
        load_runs(tmp_path / "robustnes.yaml")


def test_a_name_that_is_similar_only_in_its_suffix_is_not_suggested(tmp_path):
    (tmp_path / "e9.yaml").write_text("task: robustness\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no such file; `lmassay init` writes a sample"):
        load_runs(tmp_path / "nope.yaml")


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_runs(tmp_path / "latin.yaml")


def test_overrides_replace_extend_and_make_lists(tmp_path):
    runs = load(tmp_path, GOOD, "task.success_threshold=1.5", "seed=[1, 2]", "model.transform=upper")
    assert [run.seed for run in runs] == [1, 2]
    assert runs[0].task["success_threshold"] == 1.5
    assert runs[0].model == {"name": "echo", "transform": "upper"}


def test_an_override_reaches_every_entry_of_a_list(tmp_path):
    text = GOOD.replace("model: echo", "model: [echo, {name: echo, transform: upper}]")
    assert [run.model["label"] for run in load(tmp_path, text, "model.label=x")] == ["x", "x"]


@pytest.mark.fault(33)
def test_false_on_the_command_line_beats_true_in_the_file(tmp_path):
    text = GOOD.replace("model: echo", "model: {name: outputs, files: {out: a}, keep_bom: true}")
    (run,) = load(tmp_path, text, "model.keep_bom=false")
    assert run.model["keep_bom"] is False


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.atack=charswap", "--set task.atack: unknown key; did you mean 'attack'?"),
        ("model={name: echo, transfrom: upper}", "--set model: model.transfrom: unknown key"),
    ],
)
def test_a_mistake_on_the_command_line_is_not_blamed_on_the_file(tmp_path, override, message):
    assert refuse(tmp_path, GOOD, override).startswith(message)


@pytest.mark.parametrize("override", ["nonsense", "=1", "task.src=[", "seed.deep=1"])
def test_a_bad_override_is_an_error(tmp_path, override):
    refuse(tmp_path, GOOD + "seed: 1\n", override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.src=[a", "--set task.src: the brackets of '[a' do not match"),
        ("model={name: echo, name: x}", "--set model: the key 'name' appears twice"),
        ("task.attack=[2026-99-99]", "--set task.attack: not valid YAML: '2026-99-99' is not a date; put"),
        ("task.attack=[!!timestamp x]", "--set task.attack: not valid YAML: 'x' is not a date; put"),
        ("task.attack=[!!bool x]", "--set task.attack: not valid YAML: 'x' is not a truth value; put"),
        ("task.attack=[!!int '']", "--set task.attack: not valid YAML: '' is not a whole number; put"),
        ("task={name: !!python/object:os.system x}", "not valid YAML: could not determine a constructor"),
    ],
)
def test_brackets_on_the_command_line_are_read_as_strictly_as_a_file(tmp_path, override, message):
    assert message in refuse(tmp_path, GOOD, override)


def test_the_limit_of_the_command_line_wins(tmp_path):
    assert load(tmp_path, GOOD + "limit: 5\n", limit=3)[0].limit == 3


def test_all_mistakes_are_reported_at_once_also_next_to_an_unknown_key(tmp_path):
    config = {
        "sede": 1,
        "seed": "x",
        "base_dir": "nowhere",
        "limit": [],
        "task": {"name": "robustness", "src": "s", "atack": "x", "attack": {"name": "charswap", "rat": 1}},
        "model": {"name": "opnai"},
        "resamples": "${task.nothing}",
    }
    with pytest.raises(ConfigError) as caught:
        load_runs(write_config(tmp_path / "c.yaml", config))
    lines = str(caught.value).split("\n")
    for key in ("sede", "seed", "base_dir", "limit", "task.atack", "task.attack.rat", "model.name", "resamples"):
        assert sum(f" {key}: " in line for line in lines) == 1, (key, lines)
    assert len(lines) == 8, lines


def test_pasted_secrets_are_reported_next_to_an_unknown_key(tmp_path):
    key = "sk-proj-SENTINEL0123456789"
    model = {"name": "openai", "model": "m", "tris": 1, "api_key_env": key, "parameters": {"x": {"api_key": key}}}
    config = {"sede": 1, "task": {"name": "robustness", "src": "s", "attack": "charswap"}, "model": model}
    with pytest.raises(ConfigError) as caught:
        load_runs(write_config(tmp_path / "c.yaml", config))
    lines = str(caught.value).split("\n")
    assert "SENTINEL" not in str(caught.value)
    for path in ("sede", "model.tris", "model.api_key_env", "model.parameters.x.api_key"):
        assert any(f" {path}: " in line for line in lines), (path, lines)


def test_mistakes_of_the_model_are_reported_next_to_a_task_that_is_unknown_or_missing(tmp_path):
    model = {"name": "openai", "model": "m", "tris": 1}
    for task in ({"task": "robustnes"}, {}):
        with pytest.raises(ConfigError) as caught:
            load_runs(write_config(tmp_path / "c.yaml", {**task, "model": model}))
        first, second = str(caught.value).split("\n")
        assert "task" in first
        assert "model.tris: unknown key; did you mean 'tries'?" in second
