"""Robustness as a task of the core: the same numbers as TEAPOT's command, per-example rows, live systems, search."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import lmassay
from lmassay.errors import ConfigError, DataError, PluginError
from lmassay.evaluations.robustness.attack import Attack, Search
from lmassay.evaluations.robustness.task import Robustness, signed_drop
from lmassay.evaluations.robustness.teapot.program import run as teapot
from lmassay.statistics.table import ScoreTable
from lmassay.types import Example, Row, Score, Settings
from tests.helpers import write_lines
from tests.published.teapot_scores import scores_of_sacrebleu
from tests.published_data import published_set
from tests.servers import completion, failure, openai_server, prompt_of

SRC = ["the cat sat on the mat", "a small dog barked at the moon", "we lost the house key"]
ADV = ["the cta sat on the mat", "a small dog braked at the moon", "we lost teh house key"]
OUT = ["le chat est sur le tapis", "un petit chien aboie", "nous avons perdu la clé"]
ADV_OUT = ["le cta est sur le tapis", "un petit chien aboie", "nous avons teh"]
REF = ["le chat est assis sur le tapis", "un petit chien aboyait", "nous avons perdu la clé"]


@pytest.fixture
def files(tmp_path):
    texts = {"src": SRC, "adv": ADV, "out": OUT, "adv_out": ADV_OUT, "ref": REF}
    return {name: str(write_lines(tmp_path / name, lines)) for name, lines in texts.items()}


def config(files, **changes):
    task = {
        "name": "robustness",
        "src": files["src"],
        "ref": files["ref"],
        "attack": {"name": "a", "file": files["adv"]},
    }
    model = {"name": "outputs", "files": {"out": files["out"], "adv_out": files["adv_out"]}}
    task |= changes.pop("task", {})
    return {"task": {k: v for k, v in task.items() if v is not None}, "model": model, "resamples": 200, **changes}


def evaluate(tmp_path, configuration):
    return lmassay.evaluate(configuration, tmp_path / "results")


def test_numbers_are_those_of_the_teapot_command(tmp_path, files):
    (run,) = evaluate(tmp_path, config(files))
    roles = {"--src": "src", "--adv-src": "adv", "--out": "out", "--adv-out": "adv_out", "--ref": "ref"}
    printed = teapot([part for option, role in roles.items() for part in (option, files[role])]).text.splitlines()
    assert printed[1] == f"Mean:\t{100 * run['s_src'].value:.3f}"
    assert printed[2] == f"Std:\t{100 * run['s_src.std'].value:.3f}"
    assert printed[3] == f"5%-95%:\t{100 * run['s_src.p5'].value:.3f}-{100 * run['s_src.p95'].value:.3f}"
    assert printed[6] == f"Mean:\t{100 * run['d_tgt'].value:.3f}"
    assert printed[10] == f"Success percentage: {100 * run['success'].value:.2f} %"
    assert run["success"].n == 3


def test_the_published_numbers_come_out_of_the_task(tmp_path):
    mt = published_set("teapot") / "MT"
    configuration = {
        "task": {
            "name": "robustness",
            "src": str(mt / "src.fr"),
            "ref": str(mt / "ref.en"),
            "attack": [{"name": n, "file": str(mt / f"adv.{n}.fr")} for n in ("charswap", "knn", "unconstrained")],
        },
        "model": {
            "name": "outputs",
            "label": "transformer",
            "files": {"out": str(mt / "base.en"), "adv_out": str(mt / "adv.${task.attack.name}.en")},
        },
    }
    runs = evaluate(tmp_path, configuration)
    percentages = [tuple(round(100 * run[m].value, 3) for m in ("s_src", "d_tgt", "success")) for run in runs]
    assert percentages == [(86.908, 21.085, 65.2), (78.177, 14.006, 26.1), (75.488, 22.756, 44.8)]
    gold = scores_of_sacrebleu("2.6.0")
    for run, attack in zip(runs[:2], ("charswap", "knn"), strict=True):
        expected = 1 - sum(gold[f"{attack}.advout-ref"]["chrf"]) / sum(gold["out-ref"]["chrf"])
        assert run["signed_drop"].value == pytest.approx(expected, abs=1e-12)
    success = runs[0]["success"]
    assert (success.low, success.high) == (pytest.approx(0.623, abs=0.002), pytest.approx(0.682, abs=0.002))
    (against,) = [c for c in lmassay.compare(runs[0], runs[2]) if c.metric == "success"]
    assert against.difference == pytest.approx(-0.204)
    assert against.p < 0.001
    assert against.n == 1000


def test_the_interval_of_the_signed_drop_allows_for_sentences_that_happened_not_to_change():
    """One sentence in fifty loses its whole score: the interval covered .83 with 0/1 scores of 200 sentences."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        out = (rng.random(200) < 0.8).astype(float)
        adv = np.where(rng.random(200) < 0.02, 0.0, out)
        rows = [
            Row(Example(str(i), {}), "scored", Score({"s_out": before, "s_adv": after}))
            for i, (before, after) in enumerate(zip(out.tolist(), adv.tolist(), strict=True))
        ]
        result = signed_drop(ScoreTable(rows), Settings())
        assert result.value == pytest.approx(1 - adv.sum() / out.sum())
        covered += result.low <= 0.02 <= result.high
    assert covered > 0.92 * 300


def test_without_a_reference_the_ratio_decides(tmp_path, files):
    (run,) = evaluate(tmp_path, config(files, task={"ref": None}))
    rows = list(run.rows())
    assert {"s_src", "s_tgt", "success"} == set(rows[0]["scores"])
    assert [row["scores"]["success"] for row in rows] == [
        float(row["scores"]["s_src"] > row["scores"]["s_tgt"]) for row in rows
    ]


def test_source_side_alone_asks_no_model(tmp_path, files):
    configuration = config(files, task={"side": "source", "ref": None}) | {"model": None}
    (run,) = evaluate(tmp_path, configuration)
    assert [r.metric for r in run.results] == ["s_src", "s_src.std", "s_src.p5", "s_src.p95", "unchanged"]


def test_target_side_alone_needs_no_source(tmp_path, files):
    (run,) = evaluate(tmp_path, config(files, task={"side": "target", "src": None, "attack": None}))
    assert run["d_tgt"].n == 3
    assert "s_src" not in {r.metric for r in run.results}


def test_target_side_alone_without_a_reference_counts_the_output_lines(tmp_path, files):
    (run,) = evaluate(tmp_path, config(files, task={"side": "target", "src": None, "attack": None, "ref": None}))
    assert run["s_tgt"].n == 3


def test_outputs_alone_pair_up_only_if_the_unattacked_ones_are_the_same(tmp_path, files):
    changes = {"side": "target", "src": None, "attack": None, "ref": None}
    (one,) = evaluate(tmp_path, config(files, task=changes))
    other_out = str(write_lines(tmp_path / "other", ["quite", "another", "text"]))
    model = {"name": "outputs", "files": {"out": other_out, "adv_out": files["adv_out"]}}
    (two,) = evaluate(tmp_path, config(files, task=changes) | {"model": model})
    with pytest.raises(lmassay.UserError, match="same data"):
        lmassay.compare(one, two)


def test_runs_of_two_folders_can_be_compared(tmp_path, files):
    (one,) = lmassay.evaluate(config(files), tmp_path / "one")
    (two,) = lmassay.evaluate(config(files, task={"attack": "worddrop"}), tmp_path / "two")
    assert lmassay.compare(one, two)[0].n == 3


def test_outputs_cut_at_max_tokens_are_scored_and_counted(tmp_path, files):
    (run,) = evaluate(tmp_path, config(files, task={"attack": "case", "max_tokens": 5}) | {"model": "echo"})
    assert run["cut_off"].value == pytest.approx(2 / 3)
    assert run["success"].n == 3


def test_a_sampled_system_is_asked_again_in_every_run(tmp_path, files):
    with openai_server() as server:
        model = {"name": "openai", "base_url": server.url, "model": "m"}
        for count in (1, 2):
            evaluate(tmp_path, config(files, task={"temperature": 0.7}) | {"model": model})
            assert len(server.bodies) == 6 * count


def test_a_system_that_fails_on_everything_shows_its_errors(tmp_path, files):
    with openai_server(lambda *_: failure(400, "no")) as server:
        model = {"name": "openai", "base_url": server.url, "model": "m"}
        (run,) = evaluate(tmp_path, config(files) | {"model": model})
    assert (run["success"].value, run["success"].n, run["success"].n_error) == (None, 0, 3)


def test_rows_hold_texts_and_scores(tmp_path, files):
    (run,) = evaluate(tmp_path, config(files))
    row = next(run.rows())
    assert row["inputs"]["src"] == SRC[0]
    assert row["details"] == {"adv_src": ADV[0], "out": OUT[0], "adv_out": ADV_OUT[0]}
    assert row["reference"] == REF[0]


def test_attacks_on_one_source_pair_up_by_example(tmp_path, files):
    first, second = evaluate(tmp_path, config(files, task={"attack": ["delete", "worddrop"]}))
    assert [r["id"] for r in first.rows()] == [r["id"] for r in second.rows()]
    assert {c.metric for c in lmassay.compare(first, second)} >= {"success", "s_src", "d_tgt"}


def test_a_live_system_is_asked_for_x_and_x_prime_through_the_prompt(tmp_path, files):
    task = {"attack": {"name": "charswap", "rate": 1.0}, "prompt": "Translate: {x} =>"}
    with openai_server(lambda body, _: completion(prompt_of(body)[11:-3].upper())) as server:
        model = {"name": "openai", "base_url": server.url, "model": "m"}
        (run,) = evaluate(tmp_path, config(files, task=task) | {"model": model})
        assert len(server.prompts) == 5, "the first sentence has no word to swap letters in, so it is asked about once"
        assert f"Translate: {SRC[0]} =>" in server.prompts
    row = next(run.rows())
    assert row["details"]["adv_out"] == row["details"]["adv_src"].upper()
    assert row["details"]["made_by"] == "charswap"


def test_a_search_keeps_the_worst_perturbation_within_its_budget(tmp_path, files):
    search = {"perturbations": ["charswap", "delete"], "rates": [0.5, 1.0], "budget": 6}
    task = {"attack": {"name": "best", "search": search}, "ref": None}
    with openai_server(lambda body, _: completion(prompt_of(body)[: 40 - 10 * prompt_of(body).count("hte")])) as server:
        model = {"name": "openai", "base_url": server.url, "model": "m"}
        (run,) = evaluate(tmp_path, config(files, task=task) | {"model": model})
        request_counts = Counter(server.prompts)
    assert max(request_counts.values()) == 1
    assert len(request_counts) <= 6 * len(SRC)
    chrf = lmassay.ChrF()
    for row in run.rows():
        candidates = row["inputs"]["adv_src"]
        assert 1 <= len(candidates) <= 5
        assert len(set(candidates)) == len(candidates)
        assert row["inputs"]["src"] not in candidates
        outputs = [text[: 40 - 10 * text.count("hte")] for text in candidates]
        s_src = chrf.score(candidates, [row["inputs"]["src"]] * len(candidates))
        s_tgt = chrf.score(outputs, [row["details"]["out"]] * len(candidates))
        best = max(a + 1 - b for a, b in zip(s_src, s_tgt, strict=True))
        assert row["scores"]["s_src"] + 1 - row["scores"]["s_tgt"] == pytest.approx(best)


def test_a_sentence_that_cannot_be_perturbed_stays_as_it_is(tmp_path, files):
    lines = str(write_lines(tmp_path / "odd", ["123", "", "!!!", "letters"]))
    task = {"src": lines, "ref": None, "attack": {"name": "s", "search": {"budget": 3}}}
    (run,) = evaluate(tmp_path, config(files, task=task) | {"model": "echo"})
    assert [row["details"]["adv_src"] for row in run.rows()][:3] == ["123", "", "!!!"]
    assert run["unchanged"].value == 0.75


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"src": None}, ConfigError, "give src and attack"),
        ({"attack": None}, ConfigError, "give src and attack"),
        ({"prompt": "no place"}, ConfigError, "'{x}' is missing"),
        ({"s_src": "chfr"}, PluginError, "did you mean 'chrf'"),
        ({"s_src": {"name": "bleu", "compat": "3.x"}}, ConfigError, "compat"),
        ({"attack": "charswop"}, PluginError, "did you mean 'charswap'"),
        ({"attack": {"name": "keyboard", "options": {"layuot": "azerty"}}}, ConfigError, "layout"),
        (
            {"attack": {"name": "keyboard", "layout": "azerty"}},
            ConfigError,
            r"task.attack: unknown key 'layout'; options of the perturbation belong in options: {layout: …}",
        ),
        (
            {"attack": {"name": "keyboard", "rat": 0.1}},
            ConfigError,
            "task.attack.rat: unknown key; did you mean 'rate'",
        ),
        ({"attack": {"name": "s", "search": {"budget": 5}}}, ConfigError, "live system"),
        ({"src": "nowhere.txt"}, DataError, "nowhere.txt does not exist"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(tmp_path, files, changes, error, message):
    with pytest.raises(error, match=message):
        evaluate(tmp_path, config(files, task=changes))
    assert not (tmp_path / "results").exists()


def test_outputs_of_another_length_are_refused(tmp_path, files):
    short = [str(write_lines(tmp_path / name, ["x"])) for name in ("s1", "s2")]
    model = {"name": "outputs", "files": {"out": short[0], "adv_out": short[1]}}
    with pytest.raises(DataError, match="the same number of lines"):
        evaluate(tmp_path, config(files) | {"model": model})
    model = {"name": "outputs", "files": {"out": files["out"], "adv_out": short[0]}}
    with pytest.raises(DataError, match="line 2 of the out file"):
        evaluate(tmp_path, config(files) | {"model": model})


def test_outputs_without_a_role_are_refused(tmp_path, files):
    with pytest.raises(DataError, match="adv_out is missing"):
        evaluate(tmp_path, config(files) | {"model": {"name": "outputs", "files": {"out": files["out"]}}})


def test_the_signature_changes_with_what_the_numbers_depend_on(tmp_path, files):
    (base,) = evaluate(tmp_path, config(files))
    for changes in (
        {"s_tgt": "bleu"},
        {"success_threshold": 1.2},
        {"attack": {"name": "a", "perturb": "delete"}},
        {"ref": None},
    ):
        (other,) = evaluate(tmp_path, config(files, task=changes))
        assert other.signature != base.signature
    write_lines(tmp_path / "adv_out", ["changed", *ADV_OUT[1:]])
    (other,) = evaluate(tmp_path, config(files))
    assert other.signature != base.signature


@pytest.mark.parametrize("beam", [{}, {"beam": 1, "steps": 1}])
def test_the_signature_of_a_search_depends_on_the_source_of_your_own_perturbation(tmp_path, files, beam):
    signatures = []
    for folder, letter in (("one", "o"), ("two", "e"), ("three", "o")):
        (tmp_path / folder).mkdir()
        code = f"def mine(text, rng, rate):\n    return text.replace({letter!r}, '0')\n"
        (tmp_path / folder / "mine.py").write_text(code)
        search = {"perturbations": [f"{tmp_path / folder / 'mine.py'}:mine", "delete"], "budget": 3, **beam}
        task = Robustness(src=Path(files["src"]), attack=Attack(name="worst", search=Search(**search)))
        signatures.append(task.signature()["attack"])
    assert signatures[0].startswith("search(mine[src:")
    assert signatures[0] != signatures[1]
    # The folder of the file does not matter.
    assert signatures[0] == signatures[2]


@pytest.mark.parametrize(
    "code",
    [
        "def odd(hypothesis, reference):\n    return 1.0\n",
        'def odd(hypothesis="", reference=""):\n    return 1.0\n',
        "def odd(*texts):\n    return float(texts[0] == texts[1])\n",
    ],
)
def test_a_function_of_two_texts_needs_no_decorator(tmp_path, files, code):
    (tmp_path / "mine.py").write_text(code)
    (run,) = evaluate(tmp_path, config(files, task={"s_src": f"{tmp_path / 'mine.py'}:odd"}))
    assert "odd(src:" in run.signature


def test_a_scorer_that_exits_when_it_is_created_is_named(tmp_path, files):
    code = "import sys\nimport lmassay\n\n\nclass Odd(lmassay.Scorer):\n    def __init__(self):\n        sys.exit(3)\n"
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(PluginError, match=r"task.s_src: the scorer '.*:Odd' cannot be created: SystemExit\(3\)"):
        evaluate(tmp_path, config(files, task={"s_src": f"{tmp_path / 'mine.py'}:Odd"}))


@pytest.mark.parametrize("parameters", ["beta=2.0", "beta=2.0, order=6", "*options"])
def test_a_function_without_texts_creates_a_scorer(tmp_path, files, parameters):
    (tmp_path / "mine.py").write_text(f"import lmassay\n\n\ndef odd({parameters}):\n    return lmassay.ZeroOne()\n")
    (run,) = evaluate(tmp_path, config(files, task={"s_src": f"{tmp_path / 'mine.py'}:odd"}))
    assert "odd(src:" not in run.signature


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "def odd(text):\n    return 1.0",
            r"odd takes \(text\), but a scorer takes two texts: ",
        ),
        ("@scorer('three')\ndef odd(a, b, c):\n    return 1.0", r"odd takes \(a, b, c\), but a scorer takes two texts"),
        ("class odd:\n    pass", "odd is not a scorer; write a function of two texts, or a subclass of lmassay.Scorer"),
        ("class odd(Scorer):\n    pass", "odd has neither score_sentence nor score_corpus; write one of them"),
        (
            "class odd(Scorer):\n    def score_sentence(self, hyp, ref):\n        return 1.0",
            r"odd has score_sentence\(hyp, ref\); it must take \(hyp, ref, lang=None\)",
        ),
        (
            "class odd(Scorer):\n    def score_corpus(self, hyps):\n        return []",
            r"odd has score_corpus\(hyps\); it must take \(hyps, refs, lang=None\)",
        ),
    ],
)
def test_a_scorer_that_cannot_be_called_is_refused_before_the_run(tmp_path, files, code, message):
    (tmp_path / "mine.py").write_text(f"from lmassay import Scorer, scorer\n\n\n{code}\n")
    with pytest.raises(ConfigError, match=rf"task\.s_src: .*mine\.py:{message}"):
        evaluate(tmp_path, config(files, task={"s_src": f"{tmp_path / 'mine.py'}:odd"}))


def test_a_scorer_that_fails_in_a_task_names_the_line(tmp_path, files):
    (tmp_path / "mine.py").write_text(
        "from lmassay import scorer\n@scorer('odd')\ndef odd(h, r):\n    return 2.0 if 'dog' in r else 1.0\n"
    )
    with pytest.raises(PluginError, match=r"src, line 2: .*gave 2\.0"):
        evaluate(tmp_path, config(files, task={"s_src": f"{tmp_path / 'mine.py'}:odd"}))
