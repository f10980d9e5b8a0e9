"""``lmassay init``: a configuration that runs as it is written."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
import yaml

from lmassay.cli import main
from lmassay.cli.actions.first_steps import find_missing, run_commands
from lmassay.cli.actions.init import names, samples
from lmassay.errors import UserError
from tests.helpers import lmassay, lmassay_process
from tests.terminal import in_terminal

TASKS = ["robustness", "syntax", "minimal_pairs", "bias", "fewshot"]
OWN = """
class M:
    name, can = "m", frozenset({"slot"})
    def identity(self):
        return {"name": self.name}
    def slot(self, requests):
        yield from ()
"""


@pytest.mark.parametrize("evaluation", TASKS)
def test_what_is_written_is_accepted_by_check(evaluation, tmp_path):
    done = lmassay("init", evaluation, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"wrote {evaluation}.yaml, and sample data to {evaluation}-data",
        f"next:  lmassay check {evaluation}.yaml",
        f"       lmassay run {evaluation}.yaml",
    ]
    assert done.stdout == ""
    checked = lmassay("check", f"{evaluation}.yaml", "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert {run["task"] for run in json.loads(checked.stdout)["runs"]} == {evaluation}


def test_the_robustness_configuration_runs_without_any_model_fetched(tmp_path):
    assert lmassay("init", "robustness", "-o", "sub/what's: it.yaml", cwd=tmp_path).returncode == 0
    done = lmassay("run", "sub/what's: it.yaml", "--json", "--limit", 5, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["status"] for run in runs] == ["done"] * 3
    shown = lmassay("show", runs[0]["run"], "--yaml", cwd=tmp_path)
    assert yaml.safe_load(shown.stdout)["name"] == "what's: it"


def test_the_bias_configuration_runs_on_the_embedded_model(smollm2, tmp_path):
    written = lmassay("init", "bias", "--model", "smollm2", cwd=tmp_path)
    assert "first:" not in written.stderr
    assert sorted(path.name for path in (tmp_path / "bias-data").iterdir()) == ["questions.jsonl", "questions.yaml"]
    done = lmassay("run", "bias.yaml", "--limit", 2, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["model"] == "SmolLM2-135M"


def uncommented(lines: list[str]) -> list[str]:
    """The options without words right above them. One that is switched off is no words; two scorers share theirs."""
    return [
        line.split(":")[0].strip()
        for above, line in itertools.pairwise(["", *lines])
        if re.match(r"(  )?\w+:", line)
        and not line.startswith(("task:", "  name:"))
        and not re.match(r" *#\s+(?!\w+: )\S", above)
        and (above, line) != ("  s_src: chrf", "  s_tgt: chrf")
    ]


@pytest.mark.parametrize("evaluation", TASKS)
def test_every_option_has_a_comment(evaluation):
    lines = (samples()[evaluation].folder / "config.yaml").read_text(encoding="utf-8").splitlines()
    assert uncommented(lines) == []
    assert max(map(len, lines)) <= 112
    # It would be seen: without any comment, all options but the second scorer lack theirs.
    bare = [line for line in lines if not line.lstrip().startswith("#")]
    document = yaml.safe_load("\n".join(lines).replace("@", ""))
    assert set(uncommented(bare)) == ({*document, *document["task"]} - {"task", "s_tgt"})


def test_nothing_is_overwritten_unless_asked_to(tmp_path):
    assert lmassay("init", "bias", cwd=tmp_path).returncode == 0
    (tmp_path / "bias-data" / "questions.yaml").write_text("mine", encoding="utf-8")
    done = lmassay("init", "bias", cwd=tmp_path)
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert "--force" in done.stderr
    assert (tmp_path / "bias-data" / "questions.yaml").read_text(encoding="utf-8") == "mine"
    assert lmassay("init", "bias", "--force", cwd=tmp_path).returncode == 0
    assert (tmp_path / "bias-data" / "questions.yaml").read_text(encoding="utf-8") != "mine"


def test_a_dash_is_no_file_to_write(tmp_path):
    done = lmassay("init", "bias", "-o", "-", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: -o -: sample data is written next to a configuration; give the name of a file\n"
    assert not list(tmp_path.iterdir())


def test_without_a_name_it_lists_what_it_can_write(tmp_path):
    done = lmassay("init", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for name in names():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert len(line.split()) > 3, "it says what that is"
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_nearly_right_is_suggested(tmp_path):
    done = lmassay("init", "scorrer", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: there is no sample 'scorrer'; did you mean 'scorer'?\n")
    done = lmassay("init", "zzz", cwd=tmp_path)
    assert "there is no sample 'zzz'; lmassay init lists what can be written" in done.stderr


def test_in_a_terminal_it_asks_which(tmp_path):
    done = in_terminal("init", cwd=tmp_path, typed="nonsense\nrobustness\n")
    assert done.returncode == 0, done.screen
    assert "is it biased?" in done.screen
    assert "your own few-shot method" in done.screen
    assert (tmp_path / "robustness.yaml").is_file()


def test_the_model_is_filled_in(tmp_path):
    done = lmassay("init", "bias", "--model", "openai:gpt-4o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = yaml.safe_load((tmp_path / "bias.yaml").read_text(encoding="utf-8"))
    assert written["model"] == {"name": "openai", "model": "gpt-4o"}
    assert written["task"]["answer_by"] == "generate"
    assert lmassay("init", "robustness", "--model", "echo", cwd=tmp_path).returncode == 0
    written = yaml.safe_load((tmp_path / "robustness.yaml").read_text(encoding="utf-8"))
    assert written["model"] == "echo"
    assert "{x}" in written["task"]["prompt"]
    assert lmassay("check", "robustness.yaml", cwd=tmp_path).returncode == 0


def test_the_way_to_a_model_of_ones_own_starts_at_the_configuration(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "m.py").write_text(OWN, encoding="utf-8")
    for number, (name, wanted) in enumerate(
        {"folder": {"name": "hf", "model": "../folder"}, "m.py:M": "../m.py:M", "smollm2": "smollm2"}.items()
    ):
        done = lmassay("init", "syntax", "--model", name, "-o", f"sub/{number}.yaml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert yaml.safe_load((tmp_path / "sub" / f"{number}.yaml").read_text(encoding="utf-8"))["model"] == wanted


def test_a_model_that_there_is_not_is_refused_with_what_was_meant(tmp_path):
    done = lmassay("init", "bias", "--model", "smolm2", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'smollm2'" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", "--model '' does not name a model"),
        ("hf:", "--model 'hf:' does not name a model"),
        ("[1,2]", "--model [1,2]: give one model here"),
        ("{name: smolm2}", "model.name: there is no model 'smolm2'; did you mean 'smollm2'?"),
        ("{name: openai, modl: x}", "unknown key; did you mean 'model'?"),
        ("{name: openai", "the brackets of '{name: openai' do not match"),
        ("own.py", "own.py names only a file; write own.py:NAME"),
        ("none.py:M", "there is no file {here}/none.py"),
        ("own.py:N", "{here}/own.py has no model 'N'; available: M"),
        ("openai:gpt-4o", "openai cannot rank words at a blank, which the task syntax needs; it can generate text"),
        ("echo", "echo cannot rank words at a blank"),
    ],
)
def test_a_model_that_cannot_be_asked_is_refused_in_one_line(tmp_path, monkeypatch, capfd, model, message):
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["init", "syntax", "--model", model])
    assert stop.value.code == 2
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert message.replace("{here}", str(tmp_path)) in shown.err
    assert len(shown.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["own.py"]


def test_one_run_of_several_that_the_model_cannot_do_is_enough(tmp_path):
    """The first method needs no model at all."""
    own_model = tmp_path / "own.py"
    own_model.write_text(
        "import lmassay\n\n\nclass Slots(lmassay.Model):\n    name = 'slots'\n    can = frozenset({'slot'})\n\n"
        "    def identity(self):\n        return {'name': 'slots'}\n\n"
        "    def slot(self, requests):\n        return []\n",
        encoding="utf-8",
    )
    done = lmassay("init", "fewshot", "--model", "own.py:Slots", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["own.py"]


def test_what_the_model_lacks_on_this_machine_is_reported_and_no_hindrance(tmp_path):
    nothing = {"OPENAI_API_KEY": "", "OPENAI": ""}
    done = lmassay("init", "bias", "--model", "openai:gpt-4o", cwd=tmp_path, env=nothing)
    assert done.returncode == 0
    assert "warning: none of the environment variables OPENAI_API_KEY, OPENAI is set" in done.stderr
    assert lmassay("check", "bias.yaml", cwd=tmp_path, env={"OPENAI_API_KEY": "k"}).returncode == 0


# --- what must be done first ------------------------------------------------------------------------------------------


def test_a_model_that_must_be_fetched_is_named_and_nothing_is_run_unasked(tmp_path):
    done = lmassay("init", "syntax", "--model", "no-such/model", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[1:] == [
        "first: lmassay models get no-such/model",
        "next:  lmassay check syntax.yaml",
        "       lmassay run syntax.yaml",
    ]


def test_data_that_must_be_fetched_are_named(tmp_path):
    """The sample of a package may name a published data set."""
    texts = {Path("c.yaml"): "task: {name: bias, data: bbq/Age}\nmodel: echo\n"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMASSAY_CACHE", str(tmp_path))
        assert find_missing(texts, Path("c.yaml"), None).commands == ("lmassay data get bbq",)


def test_on_a_terminal_it_asks_and_no_means_no(tmp_path):
    done = in_terminal("init", "syntax", "--model", "no-such/model", cwd=tmp_path, typed="n\n")
    assert done.returncode == 0, done.screen
    assert "Run this command now? [y/N]" in done.screen
    assert "running" not in done.screen


def test_with_yes_the_commands_are_run_in_order_and_the_first_failure_ends_it(tmp_path):
    """This model does not exist, so that the download fails."""
    offline = {"HF_HUB_OFFLINE": "1"}
    done = lmassay_process("init", "syntax", "--model", "no-such/model", "--yes", cwd=tmp_path, env=offline)
    assert done.returncode == 2
    assert (tmp_path / "syntax.yaml").is_file()
    assert "running lmassay models get no-such/model" in done.stderr
    assert "lmassay models get no-such/model failed with exit code 2; fix this and run it again" in done.stderr


def test_commands_are_run_with_this_python(capfd):
    run_commands(["pip --version", "lmassay --version"])
    shown = capfd.readouterr()
    assert re.search(r"^pip \d.*\n.*lmassay", shown.out, re.MULTILINE)
    assert shown.err.splitlines() == ["running pip --version", "running lmassay --version"]
    with pytest.raises(UserError, match=r"nonsense failed with exit code 2; fix this and run .* && pip check"):
        run_commands(["lmassay nonsense", "pip check"])
