"""Classes written for refining-tse run as they are, and their mistakes are reported with their file."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import lmassay
from lmassay.contracts import ask
from lmassay.errors import ConfigError, PluginError
from lmassay.evaluations.syntax.refining_tse.modules import (
    METRICS,
    MODELS,
    EarlierTokenizer,
    load_class,
    load_plugins,
    punctuated_join,
)
from lmassay.evaluations.syntax.refining_tse.plugins import RefiningTse, UserMpeModel
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Row, Slot
from tests.helpers import write_lines

FIGURES = Path(__file__).parents[3] / "published/figures"
WORDS = ("is", "are", "sings", "sing", "hums")


@pytest.fixture
def source(tmp_path):
    """Write a Python file under a name of its own; gives its path."""
    count = 0

    def write(text, name="plugin"):
        nonlocal count
        count += 1
        path = tmp_path / f"{name}{count}.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    yield write
    MODELS.clear()
    METRICS.clear()


MODEL = """
    from src.models.MPE_model import MPEModel

    class Model(MPEModel):
        def __init__(self, config):
            self.seen, self.config = [], config

        @property
        def word_to_index(self):
            return {"is": 2, "are": 0, "sing": 1}

        def predict(self, left_context, right_context):
            self.seen.append((left_context, right_context))
            return [[0.0, 1.0, 3.0, 3.0] for _ in left_context]
"""


def answers(model, *requests):
    return [response for _, response in sorted(ask(model, "slot", requests))]


def test_a_model_answers_with_probabilities_ranks_and_masses(source):
    model = UserMpeModel(f"{source(MODEL)}:Model", {"name": "mine"})
    model.check()
    (response,) = answers(model, Slot("The dogs ", " loud.", WORDS))
    total = 1 + math.e + 2 * math.e**3
    is_, are, sings, sing, hums = response.answer
    assert is_.logprob == pytest.approx(3 - math.log(total))
    assert (is_.rank, are.rank, sing.rank) == (0, 3, 2)
    assert sing.mass_above == pytest.approx(2 * math.e**3 / total)
    assert sing.mass_below == pytest.approx(1 / total)
    assert sings.logprob is None
    assert hums.logprob is None


def test_a_model_is_given_words_with_the_full_stop_as_one_in_batches_of_64(source):
    model = UserMpeModel(f"{source(MODEL)}:Model", {"name": "mine"})
    requests = [Slot("The dogs of Mr. ", " loud.", WORDS)] * 65
    assert len(answers(model, *requests)) == 65
    seen = model._instance.seen
    assert [len(left) for left, _ in seen] == [64, 1]
    assert seen[0][0][0] == ["The", "dogs", "of", "Mr."]
    assert seen[0][1][0] == ["loud", "."]


def test_a_model_that_says_so_does_not_look_behind_the_blank(source):
    assert UserMpeModel(f"{source(MODEL)}:Model").sees_right
    assert UserMpeModel(f"{source(MODEL + '            self.x = 0')}:Model").sees_right is not None
    causal = MODEL.replace("self.seen, self.config = [], config", "self.bidirectional = False")
    assert not UserMpeModel(f"{source(causal)}:Model").sees_right


def test_word_to_index_may_be_a_method_as_the_readme_says(source):
    method = MODEL.replace("@property", "").replace("def word_to_index(self):", "def word_to_index(self, word):")
    method = method.replace('"sing": 1}', '"sing": 1}.get(word)')
    (response,) = answers(UserMpeModel(f"{source(method)}:Model"), Slot("", "", WORDS))
    assert [c.rank for c in response.answer] == [0, 3, None, 2, None]


def test_a_batch_that_the_model_passes_over_is_left_unscored(source):
    text = MODEL.replace("return [[0.0, 1.0, 3.0, 3.0] for _ in left_context]", "return None")
    (response,) = answers(UserMpeModel(f"{source(text)}:Model"), Slot("", "", WORDS))
    assert not response.usable
    assert response.finish == "empty"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("for _ in left_context", "for _ in range(7)"), "predict gave 7×4 logits for 1 contexts"),
        (("[0.0, 1.0", "[float('nan'), 1.0"), "NaN"),
        (("[0.0, 1.0", "[float('inf'), 1.0"), "a logit of +inf"),
        (("[0.0, 1.0", "[1e39, 1.0"), "too large for 32 bits"),
        (("[0.0, 1.0, 3.0, 3.0]", "[float('-inf')] * 4"), "-inf for all words of a context"),
        (("[0.0, 1.0, 3.0, 3.0]", "[]"), "predict gave 1×0 logits"),
        (('"is": 2', '"is": 9'), "word_to_index gives the index 9, but predict gives only 4 logits"),
        (("[0.0, 1.0", "[1 / 0, 1.0"), "predict failed: ZeroDivisionError"),
        (("self.seen, self.config = [], config", "config['depth']"), "__init__ failed: KeyError('depth')"),
        (("class Model(", "class Other("), "has no class 'Model'"),
        (("from src.models.MPE_model", "from src.models.nothing"), "failed to import: ModuleNotFoundError"),
        (("def predict(", "def forecast("), "predict is not implemented"),
    ],
)
def test_a_models_mistake_is_reported_with_its_file(source, change, message):
    path = source(MODEL.replace(*change))
    with pytest.raises(PluginError, match=r"plugin\d+\.py") as caught:
        answers(UserMpeModel(f"{path}:Model"), Slot("", "", WORDS))
    assert message in str(caught.value)


def test_a_model_without_words_is_refused_before_it_runs(source):
    text = "class Model:\n    def __init__(self, config): ...\n    def predict(self, left, right): ..."
    with pytest.raises(PluginError, match="word_to_index is missing"):
        UserMpeModel(f"{source(text)}:Model").check()


def test_a_logit_of_minus_infinity_is_a_word_that_is_impossible(source):
    path = source(MODEL.replace("[0.0, 1.0", "[float('-inf'), 1.0"))
    (response,) = answers(UserMpeModel(f"{path}:Model"), Slot("", "", WORDS))
    assert response.answer[1].logprob < -1e8


@pytest.mark.parametrize("name", ["predict", "word_to_index"])
def test_what_a_model_has_from_its_base_alone_is_reported_at_check_time(source, name):
    path = source(MODEL.replace(f"def {name}(", "def other("))
    with pytest.raises(PluginError, match=rf"plugin\d+\.py:Model: {name} is not implemented"):
        UserMpeModel(f"{path}:Model").check()


def test_a_metric_without_compute_is_reported_at_check_time(source, tmp_path):
    path = source(METRIC.replace("def _compute(", "def compute("), "metric")
    write_lines(tmp_path / "pairs.jsonl", ['{"sentence_good": "It is", "sentence_bad": "It are", "label": -1}'])
    task = RefiningTse(str(tmp_path / "pairs.jsonl"), {"margin": {"file": f"{path}:Metric"}})
    with pytest.raises(PluginError, match=r"metric\d+\.py:Metric: _compute is not implemented"):
        task.check()


def test_a_model_is_known_by_its_whole_file_and_its_settings(source):
    one, other = source(MODEL), source(MODEL + "\n    X = 1\n")
    identities = [
        UserMpeModel(f"{one}:Model", {"name": "a"}).identity(),
        UserMpeModel(f"{one}:Model", {"name": "b"}).identity(),
        UserMpeModel(f"{other}:Model", {"name": "a"}).identity(),
    ]
    assert len({tuple(identity.items()) for identity in identities}) == 3
    assert identities[0] == UserMpeModel(f"{one}:Model", {"name": "a"}).identity()


def test_a_file_of_the_originals_tree_may_import_relatively_and_its_neighbours(tmp_path):
    folder = tmp_path / "src" / "models"
    folder.mkdir(parents=True)
    write_lines(folder / "my_words.py", ["WORDS = {'is': 0}"])
    lines = ["from ..constants import BATCH_SIZE, Number", "from .MPE_model import MPEModel"]
    lines += [
        "from .my_words import WORDS",
        "from .utils import punctuated_join",
        "class Mine(MPEModel): words = WORDS",
    ]
    write_lines(folder / "mine_model.py", lines)
    assert load_class("mine_model.py:Mine", folder, "models").words == {"is": 0}


def test_the_identity_of_a_class_covers_the_modules_that_its_file_imports(tmp_path):
    write_lines(tmp_path / "mine_model.py", ["from .my_words import WORDS", "class Mine: words = WORDS"])
    identities = set()
    for word in ("is", "are"):
        write_lines(tmp_path / "my_words.py", [f"WORDS = {{'{word}': 0}}"])
        identities.add(UserMpeModel(f"{tmp_path / 'mine_model.py'}:Mine", {"name": "a"}).identity()["source"])
    assert len(identities) == 2


def test_registered_classes_are_found_by_their_names(source):
    text = MODEL + "\n    from src.models.models import model_name_to_MPEModel_class\n"
    path = source(text + "\n    model_name_to_MPEModel_class['mine'] = Model\n")
    assert load_plugins([path]).models == {"mine": f"{path}:Model"}


def test_the_tables_of_the_originals_own_modules_are_used(source, monkeypatch):
    # The entry is removed after the test.
    monkeypatch.setitem(MODELS, "adopted", None)
    path = source(MODEL + "\n    model_name_to_MPEModel_class = {'adopted': Model}\n")
    assert load_plugins([path]).models["adopted"] == f"{path}:Model"


def test_a_file_that_registers_no_class_is_refused(source):
    path = source(MODEL)
    with pytest.raises(PluginError, match=r"registers no class; add .* or write class: .*:YourModel"):
        load_plugins([path])


def test_words_are_joined_with_punctuation_glued_on():
    assert punctuated_join(["The dogs", "[MASK]", "."]) == "The dogs [MASK]."


# --- metrics ----------------------------------------------------------------------------------------------------------

METRIC = """
    from src.constants import INVALID_SCORE_VALUE, Number
    from src.metrics.metric_computer import MetricComputer

    class Metric(MetricComputer):
        def _compute(self, logits, label, template_id, word_to_index):
            scores = []
            for i, template in enumerate(template_id):
                right, wrong = template.lemma_inflections
                if right not in word_to_index or wrong not in word_to_index:
                    scores.append(INVALID_SCORE_VALUE)
                else:
                    scores.append(float(logits[i, word_to_index[right]] - logits[i, word_to_index[wrong]]))
            return scores, [n.value for n in label], {}
"""


@pytest.fixture
def judged(tmp_path, source):
    """Scores of three contexts under a metric: (scores, aggregated results)."""
    rows = ["dogs is are -2", "dog are is -1", "bees hums hum -2"]
    pairs = [
        f'{{"sentence_good": "The {noun} {good}", "sentence_bad": "The {noun} {bad}", "label": {label}}}'
        for noun, bad, good, label in (row.split() for row in rows)
    ]
    write_lines(tmp_path / "pairs.jsonl", pairs)
    write_lines(tmp_path / "verbs.csv", ["idx,sing,plur,freq", "_,is,are,_", "_,sings,sing,_"])

    def judge(text, **settings):
        model = UserMpeModel(f"{source(MODEL)}:Model")
        metrics = {"margin": {"file": f"{source(text, 'metric')}:Metric", "settings": settings}}
        task = RefiningTse({"all": str(tmp_path / "pairs.jsonl")}, metrics, verbs=tmp_path / "verbs.csv")
        task.check()
        task.check_model(model)
        examples = list(task.examples())
        responses = answers(model, *(task.requests(example)[0] for example in examples))
        scores = task.score(examples, [[response] for response in responses])
        table = ScoreTable(Row(e, "scored", s) for e, s in zip(examples, scores, strict=True))
        return scores, {r.metric: r for r in task.aggregate(table, Settings(resamples=100)) if r.group == "overall"}

    return judge


def test_a_metric_scores_each_context_beside_ew_mw_and_tse(judged):
    scores, results = judged(METRIC)
    assert [score.values.get("margin") for score in scores] == [pytest.approx(-3), pytest.approx(3), None]
    assert scores[2].unscored["margin"] == "the metric gave no score"
    assert scores[0].details["own"] == {"margin": [[0, -3.0, 1]]}, "row, score, extra information"
    assert scores[0].values["margin_rows"] == 1
    assert {"ew", "mw", "tse"} <= scores[0].values.keys()
    assert (results["margin"].value, results["margin"].n, results["margin"].n_unscored) == (0.0, 2, 1)


def test_a_metric_that_speaks_of_one_example_is_asked_one_by_one(judged):
    one = METRIC.replace("return scores, [n.value for n in label], {}", "return scores[0], None, {}")
    assert [score.values.get("margin") for score in judged(one)[0]] == [pytest.approx(-3), pytest.approx(3), None]


def test_the_probabilities_that_a_metric_is_given_sum_to_one(judged):
    text = METRIC.replace(
        "return scores, [n.value for n in label], {}",
        "return [sum(float(x.exp()) for x in r) for r in logits], None, {}",
    )
    if "torch" not in sys.modules:
        text = text.replace("x.exp()", "__import__('math').exp(x)")
    assert [score.values["margin"] for score in judged(text)[0]] == pytest.approx([1, 1, 1])


def test_a_word_that_was_not_asked_about_is_reported_and_can_be_asked_about(judged):
    text = METRIC.replace("right, wrong =", "'purr' in word_to_index; right, wrong =")
    with pytest.raises(PluginError, match=r"looks for 'purr'.*words: \[purr\]"):
        judged(text)
    assert judged(text, words=["purr"])[1]["margin"].n == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("return scores,", "return scores[:1],"), "_compute gave 1 scores for 3 examples"),
        (("{}\n", "{}, 4\n"), "must return"),
        (("scores.append(INVALID_SCORE_VALUE)", "scores.append('none')"), "'none' as a score"),
        (("scores = []", "scores = 1 / 0"), "ZeroDivisionError"),
        (("def _compute(", "def compute("), "_compute is not implemented"),
    ],
)
def test_a_metrics_mistake_is_reported_with_its_file(judged, change, message):
    with pytest.raises(PluginError, match=r"metric\d+\.py") as caught:
        judged(METRIC.replace(*change))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["ew", "tse_rows", "margin_rows", "ew@top1"])
def test_a_metric_may_not_take_the_name_of_ours(tmp_path, name):
    with pytest.raises(ConfigError, match="this name is taken"):
        RefiningTse("pairs.jsonl", {name: {"file": "x.py:Y"}}, base_dir=tmp_path)


def test_max_rows_limits_the_rows_as_in_the_task_syntax(tmp_path):
    pair = {"sentence_good": "The dog sings.", "sentence_bad": "The dog sing.", "label": -1}
    write_lines(tmp_path / "pairs.jsonl", [json.dumps(pair)] * 5)
    write_lines(tmp_path / "verbs.csv", ["idx,sing,plur,freq", "_,sings,sing,_"])
    task = RefiningTse({"all": str(tmp_path / "pairs.jsonl")}, verbs=tmp_path / "verbs.csv", max_rows=3)
    assert sum(len(example.inputs["rows"]) for example in task.examples()) == 3
    assert task.signature()["max_rows"] == 3


def test_lemma_stats_are_kept_when_asked_for(tmp_path, source):
    write_lines(
        tmp_path / "pairs.jsonl", ['{"sentence_good": "The dog is", "sentence_bad": "The dog are", "label": -1}']
    )
    write_lines(tmp_path / "verbs.csv", ["idx,sing,plur,freq", "_,is,are,_", "_,sings,sing,_"])
    task = RefiningTse(
        {"all": str(tmp_path / "pairs.jsonl")}, lemma_stats=True, verbs=tmp_path / "verbs.csv", cutoffs_top=[1.0]
    )
    model = UserMpeModel(f"{source(MODEL)}:Model")
    task.check_model(model)
    (example,) = task.examples()
    (score,) = task.score([example], [answers(model, *task.requests(example))])
    stats = score.details["lemma_stats"]
    assert stats.keys() == {"is", "are", "sing"}
    total = np.exp([0.0, 1.0, 3.0, 3.0]).sum()
    assert stats["sing"] == pytest.approx([2, math.e / total, (1 + math.e) / total])


ROBERTA = """
    import torch
    import transformers

    from .transformers_model import TransformersModel
    from .utils import punctuated_join


    class Roberta(TransformersModel):
        def __init__(self, config):
            super().__init__(
                config, transformers.RobertaTokenizer, transformers.RobertaForMaskedLM, use_prefix_space=True
            )

        @torch.no_grad()
        def predict(self, left_contexts, right_contexts):
            mask = self.tokenizer.mask_token
            texts = []
            for left, right in zip(left_contexts, right_contexts):
                texts.append(punctuated_join([punctuated_join(left), mask, punctuated_join(right)]))
            inputs = self.tokenizer(texts, padding=True, add_prefix_space=True, return_tensors="pt")
            blanks = inputs["input_ids"] == self.tokenizer.mask_token_id
            return self.model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[blanks]
"""

GPT2 = """
    import torch
    import transformers

    from .transformers_model import TransformersModel
    from .utils import punctuated_join


    class Gpt2(TransformersModel):
        def __init__(self, config):
            super().__init__(
                config, transformers.GPT2Tokenizer, transformers.GPT2LMHeadModel,
                use_prefix_space=True, add_padding_token=True, bidirectional=False,
            )

        @torch.no_grad()
        def predict(self, left_contexts, right_contexts):
            texts = [punctuated_join(left) for left in left_contexts]
            inputs = self.tokenizer.batch_encode_plus(
                texts, padding=True, add_prefix_space=False, return_tensors="pt"
            )
            last = inputs["attention_mask"].sum(dim=1) - 1
            logits = self.model(inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
            return logits[torch.arange(len(texts)), last]
"""


@pytest.mark.parametrize(
    ("text", "name", "folder"), [(ROBERTA, "Roberta", "roberta-tiny"), (GPT2, "Gpt2", "gpt2-tiny")]
)
def test_a_class_for_an_earlier_transformers_reads_the_same_tokens_as_our_own_model(source, text, name, folder):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from lmassay.models.hf.model import HuggingFace

    weights = FIGURES / "tse/models" / folder
    requests = [
        Slot("The authors ", " old.", ("is", "are")),
        Slot("The old man by the ducks ", " tall.", ("is", "are")),
    ]
    model = UserMpeModel(f"{source(text)}:{name}", {"name": str(weights)})
    model.check()
    expected = answers(HuggingFace(str(weights)), *requests)
    for response, own in zip(answers(model, *requests), expected, strict=True):
        assert response.answer.logprobs == pytest.approx(own.answer.logprobs, abs=1e-4)


def test_a_tokenizer_of_ones_own_that_would_ignore_the_prefix_space_is_refused(source):
    text = MODEL.replace(
        "self.seen.append", "self.own_tokenizer(left_context, add_prefix_space=True)\n            self.seen.append"
    )
    path = source(text)
    with pytest.raises(PluginError, match=r"line 13: current tokenizers ignore add_prefix_space .* inherit from"):
        UserMpeModel(f"{path}:Model", {"name": "mine"}).check()


def test_a_prefix_space_given_when_the_tokenizer_is_loaded_is_fine(source):
    text = MODEL.replace(
        "self.seen, self",
        "self.load = lambda t: t.from_pretrained('x', add_prefix_space=True)\n            self.seen, self",
    )
    UserMpeModel(f"{source(text)}:Model", {"name": "mine"}).check()


class RecordingTokenizer:
    """Keeps what it was given."""

    pad_token = None

    def __call__(self, text, text_pair=None, **options):
        return (text, text_pair, options)

    encode = tokenize = __call__


def test_the_earlier_tokenizer_writes_the_space_and_has_the_earlier_methods():
    inner = RecordingTokenizer()
    tokenizer = EarlierTokenizer(inner)
    assert tokenizer(["a b", " c", ""], add_prefix_space=True, padding=True) == (
        [" a b", " c", ""],
        None,
        {"padding": True},
    )
    assert tokenizer("a", add_prefix_space=False)[0] == "a"
    assert tokenizer.encode("a", add_prefix_space=True)[0] == " a"
    assert tokenizer.tokenize("a", add_prefix_space=True)[0] == " a"
    assert tokenizer.encode_plus("a", "b")[:2] == ("a", "b")
    assert tokenizer.batch_encode_plus([("a", "b"), ("c", "d")])[:2] == (["a", "c"], ["b", "d"])
    tokenizer.pad_token = "<pad>"
    assert inner.pad_token == "<pad>"
    with pytest.raises(PluginError, match="is_split_into_words"):
        tokenizer(["a", "b"], add_prefix_space=True, is_split_into_words=True)


ENTROPY = """
    import torch

    from src.metrics.metric_computer import MetricComputer

    class Entropy(MetricComputer):
        def _compute(self, logits, label, template_id, word_to_index):
            logprobs = torch.as_tensor(logits).log_softmax(-1)
            scores = -(logprobs.exp() * logprobs.clamp(min=-1e9)).sum(-1)
            assert word_to_index.get("is") is None or logits.shape[1] > word_to_index["is"]
            return scores, [None] * len(scores), {}
"""


def entropy_run(tmp_path, source, model, **settings):
    pair = {"sentence_good": "The authors are old.", "sentence_bad": "The authors is old.", "label": -2}
    write_lines(tmp_path / "pairs.jsonl", [json.dumps(pair)])
    metric = {"file": f"{source(ENTROPY)}:Entropy", "settings": settings}
    task = {"name": "refining_tse", "data": str(tmp_path / "pairs.jsonl"), "metrics": {"entropy": metric}}
    return lmassay.evaluate({"task": task, "model": model}, results=tmp_path / "results")[0]


def test_a_metric_over_the_whole_distribution_gets_all_logits_if_it_asks_for_them(tmp_path, source):
    torch = pytest.importorskip("torch", reason="the hf extra is not installed")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights = str(FIGURES / "tse/models/gpt2-tiny")
    run = entropy_run(tmp_path, source, {"name": "hf", "model": weights}, full_logits=True)
    ids = AutoTokenizer.from_pretrained(weights)("The authors", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        logprobs = AutoModelForCausalLM.from_pretrained(weights)(ids).logits[0, -1].log_softmax(-1)
    assert run["entropy"].value == pytest.approx(float(-(logprobs.exp() * logprobs).sum()), abs=1e-3)
    partial = entropy_run(tmp_path, source, {"name": "hf", "model": weights})
    assert partial["entropy"].value < run["entropy"].value - 1, "without it, all other words are one"


def test_logits_of_the_whole_vocabulary_are_never_stored(tmp_path, source):
    pytest.importorskip("torch", reason="the hf extra is not installed")
    entropy_run(tmp_path, source, {"name": "hf", "model": str(FIGURES / "tse/models/gpt2-tiny")}, full_logits=True)
    assert (tmp_path / "results/lmassay.sqlite").stat().st_size < 400_000


def test_a_model_without_logits_and_a_wrong_setting_are_reported(tmp_path, source):
    path = tmp_path / "slots.py"
    path.write_text(
        "import lmassay\n\n\nclass Slots(lmassay.Model):\n    name = 'slots'\n    can = frozenset({'slot'})\n\n"
        "    def identity(self):\n        return {'name': 'slots'}\n\n    def slot(self, requests):\n"
        "        return [lmassay.Response(lmassay.Candidates([-1.0] * len(r.candidates))) for r in requests]\n",
        encoding="utf-8",
    )
    with pytest.raises(PluginError, match="the metric entropy needs the logits of the whole vocabulary"):
        entropy_run(tmp_path, source, f"{path}:Slots", full_logits=True)
    with pytest.raises(ConfigError, match=r"metrics\.entropy\.full_logits: must be true or false"):
        entropy_run(tmp_path, source, f"{path}:Slots", full_logits="yes")
