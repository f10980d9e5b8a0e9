"""White-box attacks find more than random ones at the same budget, and their rounds cost no more than they must."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

import lmassay
from lmassay.contracts import ask
from lmassay.datasets.questions import PublishedQuestion
from lmassay.evaluations.robustness import questions
from lmassay.models.hf.model import HuggingFace
from lmassay.plugins.registry import current_registry
from lmassay.running import runner
from lmassay.running.config import read_config
from lmassay.storage.store import Store
from lmassay.types import LogProbs, Substitute
from tests.helpers import write_config, write_lines
from tests.models.hf import translators
from tests.servers import completion, openai_server


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")


SEEDS = 10
GRADIENT = {"gradient": {"kind": "unconstrained", "budget": 7, "substitutions": 3}}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    return translators.save("t5", tmp_path_factory.mktemp("attacked") / "t5")


def gains(model, seed, kind):
    """How much two queries raise the loss: a backward pass with the best substitution, or two random substitutions."""
    sources = translators.sentences(10, seed=seed)
    references = [translators.translated(source) for source in sources]
    requests = [Substitute(*pair, kind, count=1000) for pair in zip(sources, references, strict=True)]
    substitutions = dict(ask(model, "gradients", requests))
    draw = random.Random(seed)
    texts = []
    for number, source in enumerate(sources):
        items = substitutions[number].answer.items
        drawn = draw.sample(list(items), 2)
        texts.append([source, items[0].text, *(item.text for item in drawn)])
    scored = [LogProbs(text, references[number]) for number, row in enumerate(texts) for text in row]
    responses = dict(ask(model, "logprobs", scored))
    totals = np.array([responses[index].answer.total for index in range(len(scored))]).reshape(-1, 4)
    losses = totals[:, :1] - totals[:, 1:]
    return losses[:, 0].mean(), losses[:, 1:].max(axis=1).mean()


@pytest.mark.parametrize("kind", ["any", "neighbours"])
def test_a_gradient_beats_random_substitutions_at_the_same_budget(untrained, kind):
    """Over ten seeds, paired: the 95 % interval of the difference lies above 0. A backward pass counts as a query."""
    from scipy.special import stdtrit

    model = HuggingFace(str(untrained), threads=1)
    pairs = np.array([gains(model, seed, kind) for seed in range(SEEDS)])
    differences = pairs[:, 0] - pairs[:, 1]
    margin = stdtrit(SEEDS - 1, 0.975) * differences.std(ddof=1) / SEEDS**0.5
    assert differences.mean() - margin > 0


def test_questions_are_attacked_by_gradients(tmp_path, untrained, monkeypatch):
    """The text and the question are attacked; the choices, which are part of the prompt, are not."""
    published = []
    for number, text in enumerate(translators.sentences(3, seed=2)):
        published.append(PublishedQuestion(text, "four five", ("one", "two"), "two", str(number), "age"))
    selection = SimpleNamespace(entry=SimpleNamespace(questions=object(), name="numbers"), paths=[])
    monkeypatch.setattr(questions.catalogue, "select", lambda spec: selection)
    monkeypatch.setattr(questions, "read_questions", lambda paths, question_format: published)
    task = {
        "name": "robustness",
        "questions": "numbers",
        "attack": {"gradient": {"kind": "unconstrained", "budget": 5, "substitutions": 2}},
        "prompt": "{x} six {choices}",
        "s_tgt": "zero_one",
        "max_tokens": 3,
    }
    config = {"task": task, "model": {"name": "hf", "model": str(untrained)}}
    (run,) = lmassay.evaluate(config, tmp_path / "results")
    assert run["success"].n == 3
    with Store(tmp_path / "results") as store:
        exchanges = dict(store.requests_and_responses(run.id))
        rows = list(store.rows(run.id))
    for row in rows:
        requests = [request for request, _ in exchanges[row.example.id]]
        gradient_requests = [request for request in requests if request["verb"] == "gradients"]
        assert len(gradient_requests) == 2
        for request in gradient_requests:
            assert (request["target"], request["right"]) == ("two", " six one, two")
        prompts = [request["prompt"] for request in requests if request["verb"] == "generate"]
        assert len(set(prompts)) == len(prompts) == 3
        assert all(prompt.endswith(" six one, two") for prompt in prompts)


class CountingScorer(lmassay.Scorer):
    """Counts the pairs that it scores."""

    by_chunks = True
    pairs = 0

    def score_sentence(self, hyp, ref, lang=None):
        CountingScorer.pairs += 1
        return float(hyp == ref)


def attack_config(folder, model, attack):
    sources = translators.sentences(4, seed=4)
    references = [translators.translated(source) for source in sources]
    task = {
        "name": "robustness",
        "src": str(write_lines(folder / "src.en", sources)),
        "ref": str(write_lines(folder / "ref.fr", references)),
        "attack": attack,
        "max_tokens": 8,
    }
    return {"task": task, "model": model}


def test_an_input_that_could_not_be_attacked_does_not_count_as_unchanged(tmp_path, untrained):
    config = attack_config(tmp_path, {"name": "hf", "model": str(untrained)}, GRADIENT)
    write_lines(tmp_path / "src.en", ["one two", "one " * 500])
    write_lines(tmp_path / "ref.fr", ["un deux", "un"])
    (run,) = lmassay.evaluate(config, tmp_path / "results")
    assert (run["success"].n, run["success"].n_unscored) == (1, 1)
    assert (run["unchanged"].value, run["unchanged"].n) == (0.0, 1)


def test_every_candidate_is_scored_once_while_the_attack_goes_on(tmp_path, untrained):
    config = attack_config(tmp_path, {"name": "hf", "model": str(untrained)}, GRADIENT)
    config["task"]["s_src"] = f"{__file__}:CountingScorer"
    (run,) = lmassay.evaluate(config, tmp_path / "results")
    candidates = sum(len(row["inputs"]["adv_src"]) for row in run.rows())
    # The file was loaded as a plug-in, so its class is another object.
    loaded = current_registry().get("scorer", f"{__file__}:CountingScorer")
    # Once in the rounds and once for the result.
    assert 0 < loaded.pairs <= 2 * candidates


@pytest.mark.parametrize("attack", [GRADIENT, {"search": {"perturbations": ["charswap"], "budget": 7, "beam": 2}}])
def test_the_progress_of_an_attack_in_rounds_never_goes_back(tmp_path, untrained, attack):
    config = attack_config(tmp_path, {"name": "hf", "model": str(untrained)}, attack)
    (run,) = read_config(write_config(tmp_path / "c.yaml", config), [], None).runs()
    progress_values = []
    with Store(tmp_path / "results", create=True) as store:
        runner.start(runner.plan(run), store, progress=lambda done, total: progress_values.append(done))
    assert len(progress_values) > 8
    assert progress_values == sorted(progress_values)
    assert progress_values[-1] == 4


def test_a_beam_search_against_a_server_reports_progress_by_requests(tmp_path):
    """A round is a part of the whole: after the first of several rounds, the bar is not at its end."""
    attack = {"search": {"perturbations": ["charswap", "delete"], "budget": 9, "beam": 2, "steps": 4}}
    with openai_server(lambda body, _: completion("un deux")) as server:
        config = attack_config(tmp_path, {"name": "openai", "model": "m", "base_url": server.url}, attack)
        (run,) = read_config(write_config(tmp_path / "c.yaml", config), [], None).runs()
        progress_values = []
        with Store(tmp_path / "results", create=True) as store:
            runner.start(runner.plan(run), store, progress=lambda done, total: progress_values.append(done))
    first_round = progress_values[:4]
    assert max(first_round) < 1
    assert progress_values == sorted(progress_values)
    assert progress_values[-1] == 4
