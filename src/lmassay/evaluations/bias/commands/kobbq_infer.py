"""``lmassay kobbq infer``: KoBBQ's 2_model_inference"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import complain, progress, say, warn
from lmassay.contracts import Model
from lmassay.errors import BudgetReached, UserError

EXIT_WITH_ERRORS = 1


@click.command(
    epilog="Example: lmassay kobbq infer --data-path data/KoBBQ_test_evaluation_1.json --output-dir outputs/raw "
    "--model-name gpt-4",
    short_help="Step 2: ask a model.",
)
@click.option("--data-path", type=click.Path(path_type=Path), required=True, help="JSON file of the first step.")
@click.option("--model-name", required=True, help="gpt-4, claude-…, clova-x, KoAlpaca-Polyglot-12.8B, a folder, …")
@click.option("--output-dir", type=click.Path(path_type=Path), default=Path("outputs"), show_default=True)
@click.option("--max-tokens", type=click.IntRange(min=1), default=30, show_default=True, help="Most tokens an answer.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=1,
    help="Accepted; local models choose their batches by memory, servers are asked concurrently.",
)
@click.option("--base-url", help="Ask any OpenAI-compatible server (llama.cpp, vLLM, Ollama) at this address.")
@click.option("--model-config", type=click.Path(path_type=Path), help="YAML with `model: {name: …}` instead of a name.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="An option of the model; repeatable.")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), help="Stop when this much is spent.")
@click.option("--budget-tokens", type=click.IntRange(min=1), help="Stop when so many tokens are used.")
def infer(
    data_path: Path,
    model_name: str,
    output_dir: Path,
    max_tokens: int,
    batch_size: int,
    base_url: str | None,
    model_config: Path | None,
    overrides: Sequence[str],
    budget_usd: float | None,
    budget_tokens: int | None,
) -> int:
    """Put the prompts to a model; answers are kept as they come, and what is on file is not asked again.

    Keys come from the environment: OPENAI or OPENAI_API_KEY (OPENAI_ORG), CLAUDE or ANTHROPIC_API_KEY, CLOVA
    (CLOVA_URL), API_KEY with API_VERSION and AZURE_ENDPOINT.
    """
    from lmassay.budget import Budget
    from lmassay.evaluations.bias.kobbq import inference
    from lmassay.evaluations.bias.kobbq.model_names import strips_answers

    if not model_name.strip():
        raise UserError("--model-name: the name is empty")
    if data_path.suffix != ".json":
        raise UserError(f"--data-path {data_path}: give the .json file of `lmassay kobbq preprocess`")
    questions = inference.read_questions(data_path)
    spec = _spec(model_name, base_url, model_config, overrides)
    model = _built(spec, budget_usd, model_config)
    topic = data_path.name.removesuffix(".json")
    click.echo(topic)
    predictions = inference.Predictions(inference.predictions_path(data_path, output_dir, model_name), topic)
    budget = Budget(budget_usd, budget_tokens)
    stopped: BudgetReached | None = None
    told = inference.Told()
    with predictions.opened(), _notes(predictions.path) as notes:
        if predictions.cut:
            warn(f"the last row of {predictions.path} was broken off; it is asked again")
        if predictions.done:
            click.echo(f"Continue on {predictions.path}")
        try:
            with progress(f"{topic}: {model_name}") as advance:
                inference.infer(
                    model,
                    questions,
                    predictions,
                    max_tokens=max_tokens,
                    strip=strips_answers(spec["name"]),
                    budget=budget,
                    note=lambda q, r: notes.write(json.dumps(inference.answer_note(q, r)).encode() + b"\n"),
                    progress=advance,
                    told=told,
                )
        except BudgetReached as error:
            stopped = error
        finally:
            model.close()
            _account(told, model.prices)
    missing = sum(question.guid not in predictions.done for question in questions)
    if missing:
        why = f": {stopped}" if stopped else ""
        complain(f"{missing} of {len(questions)} questions have no answer{why}; the same command asks them again")
        for reason, count in told.worst():
            say(f"  {count} × {reason}")
        return EXIT_WITH_ERRORS
    predictions.in_order(questions)
    click.echo(f"{topic} - {model_name} done")
    return 0


def _spec(name: str, base_url: str | None, config: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    from lmassay.evaluations.bias.kobbq.model_names import model_spec
    from lmassay.running.config import set_value
    from lmassay.storage.yamlfile import read_mapping

    if config is not None:
        document, _ = read_mapping(config)
        found = document.get("model", document)
        spec = {"name": found} if isinstance(found, str) else found
        if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
            raise UserError(f"{config}: model: give a name or one mapping with a name")
        spec = spec if base_url is None else {**spec, "base_url": base_url}
    elif base_url is not None:
        spec = {"name": "openai", "model": name, "base_url": base_url}
    else:
        spec = model_spec(name)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise UserError(f"--set {override}: write key=value, e.g. --set concurrency=4")
        key, _, inner = key.strip().removeprefix("model.").partition(".")
        value: Any = set_value(text, override)
        if inner:
            known = spec.get(key)
            value = {**(known if isinstance(known, dict) else {}), inner: value}
        spec = {**spec, key: value}
    return spec


def _built(spec: dict[str, Any], budget_usd: float | None, config: Path | None) -> Model:
    from lmassay.plugins.compatibility import as_model
    from lmassay.plugins.options import build

    model = as_model(build("model", spec, config.parent if config else Path()), spec["name"])
    if "generate" not in model.can:
        raise UserError(f"the model {spec['name']} cannot generate text")
    model.check()
    if budget_usd is not None and model.prices is None:
        raise UserError(
            "--budget-usd: the prices are unknown; give them, e.g. --set 'prices={input: 0.5, output: 1.5}'"
        )
    return model


def _notes(predictions: Path) -> Any:
    """Beside the predictions: how each answer ended and how many tokens it took."""
    path = predictions.with_name(f"{predictions.name.removesuffix('.tsv')}.notes.jsonl")
    stream = path.open("a+b", buffering=0)
    if stream.tell() and path.read_bytes()[-1:] != b"\n":
        # A crash broke the last note off; the next one gets a line of its own.
        stream.write(b"\n")
    return stream


def _account(told: Any, prices: Any) -> None:
    if not told.asked:
        return
    cost = f", {prices.of(told.tokens_in, told.tokens_out):.4f} USD" if prices else ""
    ends = ", ".join(f"{count} {finish}" for finish, count in sorted(told.finishes.items()))
    say(f"{told.asked} asked ({ends}), {told.tokens_in:,} tokens in, {told.tokens_out:,} out{cost}")
