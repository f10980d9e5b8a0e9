"""White-box attacks and beam search: budget, criterion, unchanged inputs, kill and resume, refusals."""

from __future__ import annotations

import pytest

import lmassay
from lmassay.errors import ConfigError, UserError
from lmassay.evaluations.robustness.adaptive import BeamSearch, GradientAttack
from lmassay.evaluations.robustness.attack import Attack, Gradient, Search
from lmassay.models.hf.model import HuggingFace
from lmassay.running import runner
from lmassay.storage.store import Store
from lmassay.types import Substitution, Substitutions
from tests.helpers import write_lines
from tests.models.hf import translators


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")


KINDS = ("unconstrained", "knn", "charswap")


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    return translators.save("t5", tmp_path_factory.mktemp("attacked") / "t5")


def configuration(folder, model, attack, sources=None, **task):
    sources = sources or translators.sentences(8, seed=4)
    references = [" ".join(translators.TRANSLATION.get(word, word) for word in line.split()) for line in sources]
    return {
        "task": {
            "name": "robustness",
            "src": str(write_lines(folder / "src.en", sources)),
            "ref": str(write_lines(folder / "ref.fr", references)),
            "attack": attack,
            "max_tokens": 8,
            **task,
        },
        "model": {"name": "hf", "model": str(model)},
    }


def exchanges_of(folder, run):
    with Store(folder) as store:
        return dict(store.requests_and_responses(run.id)), list(store.rows(run.id))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gradient_attack_keeps_to_its_budget_and_its_criterion(tmp_path, untrained, kind):
    attack = {"gradient": {"kind": kind, "budget": 7, "substitutions": 2}}
    (run,) = lmassay.evaluate(configuration(tmp_path, untrained, attack), tmp_path / "results")
    exchanges, rows = exchanges_of(tmp_path / "results", run)
    assert len(rows) == 8
    for row in rows:
        verbs = [request["verb"] for request, _ in exchanges[row.example.id]]
        assert verbs[:2] == ["generate", "gradients"]
        assert len(verbs) <= 7
        assert verbs.count("gradients") <= 2
        texts = row.example.inputs["adv_src"]
        assert len(texts) == verbs.count("generate") - 1
        assert len(set(texts)) == len(texts)
        values = row.score.values
        assert values["success"] == (values["s_src"] + values["d_tgt"] > 1)
        # The best of the candidates counts, not the last one.
        assert row.score.details["adv_src"] in texts
    assert any(len(exchanges[row.example.id]) == 7 for row in rows)
    assert run["success"].n == 8
    assert run["unchanged"].value == 0


def test_without_references_the_output_itself_is_the_target(tmp_path, untrained):
    config = configuration(tmp_path, untrained, {"gradient": {"kind": "knn", "budget": 3, "substitutions": 1}})
    del config["task"]["ref"]
    (run,) = lmassay.evaluate(config, tmp_path / "results")
    exchanges, rows = exchanges_of(tmp_path / "results", run)
    assert run["s_tgt"].n == 8
    for row in rows:
        (_, output), (gradient_request, _), *_ = exchanges[row.example.id]
        assert gradient_request["target"] == output.text


def test_inputs_without_words_are_counted_as_unchanged(tmp_path, untrained):
    sources = ["1 2 3", "one two", "four five six"]
    attack = {"gradient": {"kind": "charswap"}}
    (run,) = lmassay.evaluate(configuration(tmp_path, untrained, attack, sources), tmp_path / "results")
    assert run["unchanged"].value == pytest.approx(1 / 3)
    _, rows = exchanges_of(tmp_path / "results", run)
    assert rows[0].score.details["made_by"] == "none"
    assert rows[0].score.values["success"] == 0


def test_an_interrupted_attack_is_resumed_with_the_same_result(tmp_path, untrained, monkeypatch):
    attack = {"gradient": {"kind": "unconstrained", "budget": 7}}
    config = configuration(tmp_path, untrained, attack)
    (undisturbed,) = lmassay.evaluate(config, tmp_path / "undisturbed")
    _, expected = exchanges_of(tmp_path / "undisturbed", undisturbed)
    sent: list[str] = []
    gradients = HuggingFace.gradients

    def interrupted(self, requests):
        sent.extend(request.text for request in requests)
        if len(sent) > 10:
            raise KeyboardInterrupt
        return gradients(self, requests)

    with monkeypatch.context() as patched:
        patched.setattr(HuggingFace, "gradients", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lmassay.evaluate(config, tmp_path / "results")
    answered = set(sent[:8])
    sent.clear()

    def watched(self, requests):
        sent.extend(request.text for request in requests)
        return gradients(self, requests)

    monkeypatch.setattr(HuggingFace, "gradients", watched)
    with Store(tmp_path / "results") as store:
        (record,) = store.runs()
        assert record.status == "cancelled"
        assert runner.resume(record, store).status == "done"
        rows = list(store.rows(record.id))
    assert not answered & set(sent), "what was answered before is not requested again"
    assert [row.score for row in rows] == [row.score for row in expected]
    assert [row.example.inputs for row in rows] == [row.example.inputs for row in expected]


def test_a_word_is_replaced_only_once_and_its_place_moves_with_the_text():
    attack = GradientAttack(Gradient(kind="unconstrained", substitutions=2, budget=5), seed=0)
    inputs = {"src": "one two three", "line": 1, **attack.first_inputs()}
    inputs = attack.next_inputs(inputs, [], None)
    assert inputs["gradient_queries"][-1]["keep"] == []
    inputs = attack.next_inputs(inputs, [], Substitutions((Substitution("one two x", 8, 9, 1.0),)))
    inputs = attack.next_inputs(inputs, [0.7], None)
    assert inputs["gradient_queries"][-1]["text"] == "one two x"
    assert inputs["gradient_queries"][-1]["keep"] == [[8, 9]]
    inputs = attack.next_inputs(inputs, [0.7], Substitutions((Substitution("eleven two x", 0, 6, 1.0),)))
    assert inputs["replaced"][-1] == [[0, 6], [11, 12]]
    assert attack.next_inputs(inputs, [0.7, 0.8], None) is None


def test_a_beam_search_perturbs_the_best_candidates_again(tmp_path):
    search = Search(perturbations=["delete"], rates=[0.3], budget=7, beam=1, steps=2)
    attack = BeamSearch(search, 1, seed=0, base_dir=tmp_path)
    inputs = {"src": "several words in one sentence", "line": 1, **attack.first_inputs()}
    first = attack.next_inputs(inputs, [], None)
    assert len(first["adv_src"]) == 3
    second = attack.next_inputs(first, [0.1, 0.9, 0.2], None)
    assert len(set(second["adv_src"])) == 6
    assert second["made_by"][3:] == ["delete@0.3 + delete@0.3"] * 3
    best = first["adv_src"][1]
    # Letters are left out one after the other, so every new candidate consists of letters of the best one.
    for text in second["adv_src"][3:]:
        letters = iter(best)
        assert all(letter in letters for letter in text)
    assert attack.next_inputs(second, [0.0] * 6, None) is None


def test_a_beam_search_keeps_to_its_budget(tmp_path, untrained):
    attack = {"search": {"perturbations": ["charswap", "delete"], "rates": [0.4], "budget": 8, "beam": 2}}
    (run,) = lmassay.evaluate(configuration(tmp_path, untrained, attack), tmp_path / "results")
    exchanges, rows = exchanges_of(tmp_path / "results", run)
    assert max(len(exchange) for exchange in exchanges.values()) == 8
    assert any(" + " in made_by for row in rows for made_by in row.example.inputs["made_by"])
    assert run.record.provenance.signature["attack"] == (
        "search(charswap,delete|rates:0.4|budget:8|beam:2|steps:3|seed:0)"
    )


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_model_without_gradients_is_refused_before_the_run(tmp_path, untrained):
    config = configuration(tmp_path, untrained, {"gradient": {"kind": "knn"}})
    message = "cannot compute gradients, which the task robustness needs; it can generate.*; only local causal and"
    with pytest.raises(ConfigError, match=f"model: openai {message}"):
        lmassay.evaluate({**config, "model": {"name": "openai", "model": "x"}}, tmp_path / "results")
    outputs = {"name": "outputs", "files": {"out": config["task"]["ref"], "adv_out": config["task"]["ref"]}}
    with pytest.raises(ConfigError, match=f"model: outputs {message}"):
        lmassay.evaluate({**config, "model": outputs}, tmp_path / "results")


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        ({"gradient": {"kind": "knn", "budget": 6}}, "3 substitutions need a budget of at least 7"),
        ({"gradient": {"kind": "charswap", "k": 5}}, "k is for kind: knn; leave it out"),
        ({"gradient": {"kind": "random"}}, "unconstrained"),
        ({"gradient": {"kind": "knn"}, "rate": 0.5}, "rate has no effect on a gradient attack"),
        ({"search": {}, "redraws": 5}, "redraws has no effect on a search"),
        ({"file": "attacked.txt", "options": {"x": 1}}, "options has no effect on a file of attacked texts"),
        ({"gradient": {"kind": "knn"}, "search": {}}, "give only one of file, perturb, search and gradient"),
        ({"search": {"steps": 2}}, "steps is for a beam search; give beam as well"),
        ({"search": {"beam": 2, "budget": 3}}, "a beam search with 3 steps needs a budget of at least 4"),
    ],
)
def test_options_that_cannot_work_are_refused_in_one_line(tmp_path, untrained, attack, message):
    with pytest.raises(UserError, match=message) as refused:
        lmassay.evaluate(configuration(tmp_path, untrained, attack), tmp_path / "results")
    assert "\n" not in str(refused.value)


def test_attacks_that_need_a_model_refuse_to_do_without(tmp_path, untrained):
    for attack, option in (({"gradient": {"kind": "knn"}}, "gradient"), ({"search": {"beam": 2}}, r"search\.beam")):
        config = configuration(tmp_path, untrained, attack, side="source")
        with pytest.raises(ConfigError, match=rf"task\.attack\.{option}: this attack needs a model"):
            lmassay.evaluate(config, tmp_path / "results")
    config = configuration(tmp_path, untrained, {"gradient": {"kind": "knn"}}, prompt="{x} or {x}")
    with pytest.raises(ConfigError, match=r"task\.prompt: a gradient attack needs a prompt with a single"):
        lmassay.evaluate(config, tmp_path / "results")


def test_the_label_names_the_kind():
    assert Attack(gradient=Gradient(kind="knn")).label == "gradient (knn)"
    assert Attack(name="mine", gradient=Gradient(kind="knn")).label == "mine"
