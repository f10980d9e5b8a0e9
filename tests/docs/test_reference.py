"""Options and built-ins are described where a reader looks for them."""

from __future__ import annotations

from tests.docs.blocks import page_text, texts
from tests.helpers import EVALUATIONS, ROOT

ROBUSTNESS = page_text("docs/robustness.md")
SYNTAX = page_text("docs/syntax.md")
BIAS = page_text("docs/bias.md")
FEWSHOT = page_text("docs/fewshot.md")
API_MODELS = page_text("docs/api-models.md")


def test_every_option_of_the_syntax_task_and_of_local_models_is_described():
    from lmassay.evaluations.syntax.task import Syntax
    from lmassay.models.hf.model import HuggingFace
    from lmassay.plugins.options import options_model

    for factory in (Syntax, HuggingFace):
        for name in options_model(factory).model_fields:
            assert f"`{name}" in SYNTAX or f"{name}:" in SYNTAX, name


def test_the_description_of_own_data_in_the_docs_has_keys_that_are_known():
    import yaml

    from lmassay.evaluations.bias.data_description import DataDescription

    described = [block for block in texts("docs/bias.md", "yaml") if "files:" in block]
    assert described
    for block in described:
        assert set(yaml.safe_load(block)) <= set(DataDescription.model_fields)


def test_every_option_of_the_bias_task_and_of_models_behind_an_api_is_described():
    from lmassay.evaluations.bias.task import Bias
    from lmassay.plugins.options import options_model
    from lmassay.plugins.registry import current_registry

    for name in options_model(Bias).model_fields:
        assert f"`{name}" in BIAS or name in ("label", "base_dir"), name
    for kind in ("openai", "azure", "clova", "claude"):
        assert f"| `{kind}` |" in API_MODELS
        for name in options_model(current_registry().get("model", kind, ROOT)).model_fields:
            assert f"`{name}" in API_MODELS or f"{name}:" in API_MODELS, (kind, name)
    assert set(current_registry().names("task")) >= {"bias"}


def test_every_step_of_kobbq_is_described():
    pages = BIAS + "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "migrating").glob("*.md"))
    for command in ("expand", "preprocess", "infer", "postprocess", "collect", "evaluate", "compare"):
        assert f"`lmassay kobbq {command}`" in pages, command


def test_every_builtin_is_described_in_the_docs():
    from lmassay.evaluations.robustness import evaluation

    for kind in ("scorer", "perturbation"):
        for name in evaluation.components[kind]:
            assert f"`{name}`" in ROBUSTNESS, name


def test_every_option_of_the_few_shot_task_and_every_method_is_described():
    from lmassay.evaluations.fewshot import evaluation
    from lmassay.evaluations.fewshot.task import FewShot
    from lmassay.plugins.options import options_model

    for name in [*options_model(FewShot).model_fields, *evaluation.components["method"]]:
        assert f"`{name}" in FEWSHOT or name == "label", name


def test_the_task_in_the_few_shot_page_is_the_shipped_one(tmp_path):
    from lmassay.evaluations.fewshot.tasks.nlu import open_task

    (block,) = [text for text in texts("docs/fewshot.md", "yaml") if text.startswith("name: mrpc")]
    file = tmp_path / "mrpc.yaml"
    file.write_text(block.replace("mrpc/", f"{EVALUATIONS}/fewshot/starters/mrpc/"), encoding="utf-8")
    assert open_task(file).examples("train") == open_task(EVALUATIONS / "fewshot/starters/mrpc.yaml").examples("train")
