"""Encoder-decoder models: generation and log-probabilities are those of transformers itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lmassay.contracts import ask
from lmassay.errors import ConfigError, DataError
from lmassay.models.hf.model import HuggingFace
from lmassay.storage.store import Store
from lmassay.types import Generate, LogProbs
from tests.helpers import lmassay
from tests.models.hf import translators


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, transformers
    torch = pytest.importorskip("torch", reason="the hf extra is not installed")
    transformers = pytest.importorskip("transformers", reason="the hf extra is not installed")
    pytest.importorskip("sentencepiece", reason="the fewshot extra is not installed")


# Marian's tokenizer works without it.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

TEXTS = translators.sentences(12, seed=5)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translators")
    return {family: translators.save(family, folder / family) for family in translators.FAMILIES}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return translators.save_trained(tmp_path_factory.mktemp("trained") / "numbers")


def options_of(family):
    return {"source_lang": "en", "target_lang": "fr"} if family == "m2m_100" else {}


def direct(folder, text, **options):
    """What a direct call of transformers generates, as token ids without the first one."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if hasattr(tokenizer, "src_lang"):
        tokenizer.src_lang = "en"
        options["forced_bos_token_id"] = tokenizer.get_lang_id("fr")
    with torch.inference_mode():
        ids = model.generate(**tokenizer(text, return_tensors="pt"), do_sample=False, max_new_tokens=9, **options)
    text = tokenizer.decode(ids[0], skip_special_tokens=True)
    # M2M100's own decoder keeps the language, which is not part of the translation.
    return text.removeprefix("__fr__")


def generated(model, texts, **settings):
    requests = [Generate(prompt=text, max_tokens=9, **settings) for text in texts]
    return [response.answer for _, response in sorted(ask(model, "generate", requests))]


@pytest.mark.parametrize("family", translators.FAMILIES)
def test_generation_equals_a_direct_call(models, family):
    model = HuggingFace(str(models[family]), **options_of(family))
    model.check()
    assert model.kind == "encoder-decoder"
    assert model.can == {"generate", "logprobs", "gradients"}
    assert generated(model, TEXTS[:4]) == [direct(models[family], text) for text in TEXTS[:4]]


@pytest.mark.parametrize("family", ["t5", "marian"])
def test_beams_are_those_of_a_direct_call_and_part_of_the_identity(models, family):
    model = HuggingFace(str(models[family]), beams=3)
    assert generated(model, TEXTS[:3]) == [direct(models[family], text, num_beams=3) for text in TEXTS[:3]]
    assert model.identity()["beams"] == 3
    assert "beams" not in HuggingFace(str(models[family])).identity()


def direct_logprobs(folder, context, continuation):
    """Log-probabilities of the continuation's own tokens by a plain forward pass with labels."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if hasattr(tokenizer, "src_lang"):
        tokenizer.src_lang, tokenizer.tgt_lang = "en", "fr"
    inputs = tokenizer(context, return_tensors="pt")
    labels = tokenizer(text_target=continuation, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        logprobs = model(**inputs, labels=labels).logits.log_softmax(-1)[0]
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    if hasattr(tokenizer, "get_lang_id"):
        special.add(tokenizer.get_lang_id("fr"))
    return [float(logprobs[place, token]) for place, token in enumerate(labels[0].tolist()) if token not in special]


@pytest.mark.parametrize("family", translators.FAMILIES)
def test_log_probabilities_equal_a_direct_forward_pass(models, family):
    model = HuggingFace(str(models[family]), **options_of(family))
    pairs = [(text, translators.translated(text)) for text in TEXTS]
    responses = [r for _, r in sorted(ask(model, "logprobs", [LogProbs(*pair) for pair in pairs]))]
    for pair, response in zip(pairs[:3], responses[:3], strict=True):
        assert response.answer.tokens == pytest.approx(direct_logprobs(models[family], *pair), abs=1e-4)
        assert response.answer.total == pytest.approx(sum(response.answer.tokens))
    alone = [next(iter(ask(model, "logprobs", [LogProbs(*pair)])))[1].answer.total for pair in pairs[:4]]
    assert alone == pytest.approx([response.answer.total for response in responses[:4]], abs=1e-4)


def test_a_trained_model_does_its_task(trained):
    model = HuggingFace(str(trained))
    answers = generated(model, TEXTS)
    right = [answer == translators.translated(text) for answer, text in zip(answers, TEXTS, strict=True)]
    assert sum(right) >= 10
    good, bad = (
        next(iter(ask(model, "logprobs", [LogProbs("one two", text)])))[1].answer.total
        for text in ("un deux", "dix neuf")
    )
    assert good > bad + 5


def test_samples_differ_by_draw_and_not_by_batch(trained):
    model = HuggingFace(str(trained))
    first = generated(model, TEXTS[:4], temperature=2.0, draw=0)
    assert first == [generated(model, [text], temperature=2.0, draw=0)[0] for text in TEXTS[:4]]
    assert first != generated(model, TEXTS[:4], temperature=2.0, draw=1)


def test_stop_texts_cut_the_answer(trained):
    model = HuggingFace(str(trained))
    (whole,) = generated(model, ["one two three"])
    (cut,) = generated(model, ["one two three"], stop=("deux",))
    assert whole.startswith("un deux")
    assert cut.strip() == "un"
    (cut_with_beams,) = generated(HuggingFace(str(trained), beams=2), ["one two three"], stop=("deux",))
    assert cut_with_beams.strip() == "un"


def test_texts_beyond_the_window_and_empty_continuations_are_counted(trained):
    model = HuggingFace(str(trained))
    ((_, response),) = ask(model, "generate", [Generate(prompt="one " * 100, max_tokens=4)])
    assert response.finish == "too_long"
    ((_, response),) = ask(model, "logprobs", [LogProbs("one", "")])
    assert response.finish == "empty"


def test_no_more_is_generated_than_the_decoder_has_positions(models):
    model = HuggingFace(str(models["marian"]))
    ((_, response),) = ask(model, "generate", [Generate(prompt="one two", max_tokens=500)])
    assert response.error is None
    assert response.tokens_out <= 64


def test_the_tokenizer_does_not_limit_what_t5_writes(models, tmp_path):
    folder = Path(shutil.copytree(models["t5"], tmp_path / "t5"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 10}), encoding="utf-8")
    # Without an end of text, every output reaches the limit.
    generation = {"decoder_start_token_id": 0, "pad_token_id": 0, "suppress_tokens": [1]}
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    model = HuggingFace(str(folder))
    ((_, response),) = ask(model, "generate", [Generate(prompt="one two", max_tokens=25)])
    assert (response.tokens_out, response.finish) == (25, "length")
    ((_, response),) = ask(model, "logprobs", [LogProbs("one", "un deux " * 10)])
    assert len(response.answer.tokens) == 20


def test_an_end_that_the_model_is_forced_to_write_counts_as_cut_off(models, tmp_path):
    folder = Path(shutil.copytree(models["bart"], tmp_path / "bart"))
    generation = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    end = generation["eos_token_id"]
    generation |= {"forced_eos_token_id": end, "min_new_tokens": 5}
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    model = HuggingFace(str(folder))
    ((_, response),) = ask(model, "generate", [Generate(prompt="one two", max_tokens=6)])
    assert (response.tokens_out, response.finish) == (5, "length")


def test_a_piece_of_a_word_is_not_taken_for_a_language(models, tmp_path):
    folder = Path(shutil.copytree(models["m2m_100"], tmp_path / "m2m"))
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    last, before = sorted(vocabulary, key=vocabulary.get)[-2:]
    pieces = {last: "fr", before: "the"}
    renamed = {pieces.get(piece, piece): index for piece, index in vocabulary.items()}
    (folder / "vocab.json").write_text(json.dumps(renamed), encoding="utf-8")
    model = HuggingFace(str(folder), source_lang="en", target_lang="fr")
    assert generated(model, TEXTS[:2]) == [direct(folder, text) for text in TEXTS[:2]]
    with pytest.raises(ConfigError, match="'the' is not a language of this model; it has af, am"):
        HuggingFace(str(folder), target_lang="the").check()


def test_the_first_mbart_starts_its_decoder_with_the_language(tmp_path):
    folder = translators.save_mbart(tmp_path / "mbart")
    model = HuggingFace(str(folder), source_lang="en_XX", target_lang="fr_XX")
    model.check()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, src_lang="en_XX", tgt_lang="fr_XX")
    network = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    french = tokenizer.convert_tokens_to_ids("fr_XX")
    inputs = tokenizer("one two three", text_target="un deux", return_tensors="pt")
    labels = inputs.pop("labels")
    with torch.inference_mode():
        ids = network.generate(**inputs, do_sample=False, max_new_tokens=9, decoder_start_token_id=french)
        logprobs = network(**inputs, labels=labels).logits.log_softmax(-1)[0]
    assert generated(model, ["one two three"]) == [tokenizer.decode(ids[0], skip_special_tokens=True)]
    ((_, response),) = ask(model, "logprobs", [LogProbs("one two three", "un deux")])
    expected = [float(logprobs[position, labels[0, position]]) for position in range(2)]
    assert response.answer.tokens == pytest.approx(expected, abs=1e-4)


# --- what is refused, and when ----------------------------------------------------------------------------------------


def test_a_multilingual_model_needs_a_language_that_it_has(models):
    folder = str(models["m2m_100"])
    with pytest.raises(ConfigError, match=r"model\.target_lang: 'xx' is not a language of this model; it has"):
        HuggingFace(folder, target_lang="xx").check()
    with pytest.raises(ConfigError, match=r"model\.target_lang: this model writes several languages"):
        HuggingFace(folder).check()


def test_options_that_have_no_effect_are_refused(models):
    from tests.tiny_models import FIGURES_GPT2

    with pytest.raises(ConfigError, match=r"model\.source_lang: this model has no language tokens"):
        HuggingFace(str(models["t5"]), source_lang="en").check()
    with pytest.raises(ConfigError, match=r"model\.prefix: an encoder-decoder model does not use"):
        HuggingFace(str(models["t5"]), prefix="bos").check()
    with pytest.raises(ConfigError, match=r"model\.beams: this option is for encoder-decoder models"):
        HuggingFace(FIGURES_GPT2, beams=2).check()
    with pytest.raises(ConfigError, match=r"is not an encoder-decoder model"):
        HuggingFace(FIGURES_GPT2, kind="encoder-decoder").check()


@pytest.mark.parametrize("of_task", [True, False])
def test_a_beam_search_at_a_temperature_is_refused_at_check(models, tmp_path, of_task):
    (tmp_path / "src").write_text("one two\n", encoding="utf-8")
    task = {"name": "robustness", "src": "src", "attack": {"name": "delete", "rate": 1.0}}
    config = {"task": task, "model": {"name": "hf", "model": str(models["t5"]), "beams": 3}}
    (task if of_task else config)["temperature"] = 0.7
    (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = lmassay("check", "config.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "model.beams: a beam search finds the most probable text, so temperature 0.7 would have no effect" in (
        done.stderr
    )
    done = lmassay("check", "config.yaml", "--set", "model.beams=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ((_, response),) = ask(
        HuggingFace(str(models["t5"]), beams=3), "generate", [Generate(prompt="one", temperature=0.7)]
    )
    assert "a beam search cannot sample" in response.error


def test_an_encoder_without_its_decoder_is_refused_at_check(models, tmp_path):
    folder = Path(shutil.copytree(models["t5"], tmp_path / "encoder"))
    config = json.loads((models["t5"] / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["T5EncoderModel"]}), encoding="utf-8")
    with pytest.raises(DataError, match="an encoder without its decoder; use the whole model"):
        HuggingFace(str(folder)).check()


def test_check_says_what_a_checkpoint_cannot_do(models, tmp_path):
    (tmp_path / "pairs.jsonl").write_text(
        json.dumps({"sentence_good": "the dog barks", "sentence_bad": "the dog bark", "label": -1}) + "\n",
        encoding="utf-8",
    )
    config = {"task": {"name": "syntax", "data": "pairs.jsonl"}, "model": {"name": "hf", "model": str(models["bart"])}}
    (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = lmassay("check", "config.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "hf cannot rank words at a blank, which the task syntax needs" in done.stderr
    assert "it can generate text, compute log-probabilities and compute gradients" in done.stderr


def test_a_translator_is_attacked_live_and_compared(trained, tmp_path):
    lines = translators.sentences(20, seed=9)
    (tmp_path / "src.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "ref.fr").write_text("\n".join(map(translators.translated, lines)) + "\n", encoding="utf-8")
    config = {
        "task": {
            "name": "robustness",
            "src": "src.en",
            "ref": "ref.fr",
            "max_tokens": 12,
            "attack": [{"name": "worddrop", "rate": 0.4, "redraws": 20}, {"name": "charswap", "rate": 1.0}],
        },
        "model": {"name": "hf", "model": str(trained)},
    }
    (tmp_path / "attack.yaml").write_text(json.dumps(config), encoding="utf-8")
    done = lmassay("run", "attack.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    for run in runs:
        with Store(tmp_path / "results") as store:
            scores = [row.score.values for row in store.rows(run["run"])]
        assert len(scores) == 20
        assert sum(values["s_out"] > 0.9 for values in scores) >= 18, "without attack, it translates correctly"
        assert sum(values["s_adv"] < values["s_out"] for values in scores) >= 15
    done = lmassay("compare", runs[0]["run"], runs[1]["run"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
