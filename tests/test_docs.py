"""What README and docs show is what a reader gets."""

from __future__ import annotations

import re
import shlex

import pytest

from lmassay.robustness.teapot import run as teapot
from tests.helpers import ROOT, lmassay

README = (ROOT / "README.md").read_text(encoding="utf-8")
ROBUSTNESS = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
SYNTAX = (ROOT / "docs" / "syntax.md").read_text(encoding="utf-8")
BIAS = (ROOT / "docs" / "bias.md").read_text(encoding="utf-8")
FEWSHOT = (ROOT / "docs" / "fewshot.md").read_text(encoding="utf-8")
API_MODELS = (ROOT / "docs" / "api-models.md").read_text(encoding="utf-8")
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_numbers_in_the_readme_are_those_of_the_demonstration(tmp_path):
    done = lmassay("run", ROOT / "examples" / "robustness.yaml", "--results", tmp_path)
    rows = [line.partition("…")[0].rstrip() for line in README.splitlines() if line.startswith("charswap  ")]
    assert len(rows) == 2
    for row in rows:
        assert row in done.stdout


def test_every_lmassay_command_of_the_readme_runs(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = [line for block in blocks(README, "sh") for line in block.splitlines() if line.startswith("lmassay ")]
    assert len(commands) >= 4
    for command in commands:
        done = lmassay(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "report.html").is_file()


def test_make_has_the_targets_that_the_readme_names():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", README, flags=re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_teapot_output_in_the_docs_is_what_is_printed(shared):
    (block,) = blocks(ROBUSTNESS, "console")
    command, _, printed = block.partition("\n")
    mt = shared / "data" / "teapot" / "MT"
    words = [str(mt / word) if "." in word and not word.startswith("-") else word for word in command.split()[3:]]
    assert teapot(words).text == printed


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target
    for target in re.findall(r"`((?:examples|tests|benchmarks)/[\w./]+)`", text):
        assert (ROOT / target).exists(), target


def test_the_yaml_in_the_docs_is_accepted(tmp_path):
    from lmassay.config import load_runs

    for text in (README, ROBUSTNESS, SYNTAX, BIAS, FEWSHOT, API_MODELS):
        for block in blocks(text, "yaml"):
            if "task:" not in block:
                continue
            file = tmp_path / "c.yaml"
            file.write_text(block, encoding="utf-8")
            assert load_runs(file)


def test_the_commands_of_the_syntax_page_give_the_scores_in_the_readme(smollm2, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = [line for block in blocks(SYNTAX, "sh") for line in block.splitlines() if line.startswith("lmassay ")]
    assert len(commands) >= 3
    printed = ""
    for command in commands:
        done = lmassay(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        printed += done.stdout
    rows = [line for line in README.splitlines() if line.startswith(("  Simple ", "  Across "))]
    assert len(rows) == 2
    for row in rows:
        assert row in printed


def test_every_option_of_the_syntax_task_and_of_local_models_is_described():
    from lmassay.models.hf.model import HuggingFace
    from lmassay.options import options_model
    from lmassay.syntax.task import Syntax

    for factory in (Syntax, HuggingFace):
        for name in options_model(factory).model_fields:
            assert f"`{name}" in SYNTAX or f"{name}:" in SYNTAX, name


def test_the_commands_of_the_bias_page_give_the_scores_in_the_readme(smollm2, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = [line for block in blocks(BIAS, "sh") for line in block.splitlines() if line.startswith("lmassay ")]
    assert len(commands) == 3
    printed = ""
    for command in commands:
        done = lmassay(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        printed += done.stdout
    (row,) = [line.removesuffix(" …") for line in README.splitlines() if line.startswith("questions, prompt")]
    assert row in printed
    assert "accuracy" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_description_of_own_data_in_the_docs_has_keys_that_are_known():
    import yaml

    from lmassay.bias.described_keys import KEYS

    (block,) = [block for block in blocks(BIAS, "yaml") if "task:" not in block]
    assert set(yaml.safe_load(block)) <= set(KEYS)


def test_every_option_of_the_bias_task_and_of_models_behind_an_api_is_described():
    from lmassay.bias.task import Bias
    from lmassay.builtins import BUILTINS
    from lmassay.options import options_model
    from lmassay.registry import current

    for name in options_model(Bias).model_fields:
        assert f"`{name}" in BIAS or name in ("label", "base_dir"), name
    for kind in ("openai", "azure", "clova", "claude"):
        assert f"| `{kind}` |" in API_MODELS
        for name in options_model(current().get("model", kind, ROOT)).model_fields:
            assert f"`{name}" in API_MODELS or f"{name}:" in API_MODELS, (kind, name)
    for command in ("expand", "preprocess", "infer", "postprocess", "collect", "evaluate", "compare"):
        assert f"`lmassay kobbq {command}`" in BIAS
    assert set(BUILTINS["task"]) >= {"bias"}


def test_every_builtin_is_described_in_the_docs():
    from lmassay.builtins import BUILTINS

    for kind in ("scorer", "perturbation"):
        for name in BUILTINS[kind]:
            assert f"`{name}`" in ROBUSTNESS, name


def test_the_commands_of_the_few_shot_page_give_the_scores_in_the_readme(smollm2, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = [line for line in blocks(FEWSHOT, "sh")[0].splitlines() if line.startswith("lmassay ")]
    assert len(commands) == 4
    printed = ""
    for command in commands:
        done = lmassay(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        printed += done.stdout
    rows = [line.removesuffix(" …") for line in README.splitlines() if line.startswith("reviews ")]
    assert len(rows) == 2
    for row in rows:
        assert row in printed
    assert "Stability over K" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_every_option_of_the_few_shot_task_and_every_method_is_described():
    from lmassay.builtins import BUILTINS
    from lmassay.fewshot.task import FewShot
    from lmassay.options import options_model

    for name in [*options_model(FewShot).model_fields, *BUILTINS["method"]]:
        assert f"`{name}" in FEWSHOT or name == "label", name


def test_the_task_in_the_few_shot_page_is_the_shipped_one(tmp_path):
    from lmassay.fewshot.tasks import open_task

    (block,) = [text for text in blocks(FEWSHOT, "yaml") if text.startswith("name: mrpc")]
    file = tmp_path / "mrpc.yaml"
    file.write_text(block.replace("data/", f"{ROOT}/examples/fewshot/data/"), encoding="utf-8")
    assert open_task(file).examples("train") == open_task(ROOT / "examples" / "fewshot" / "mrpc.yaml").examples("train")
