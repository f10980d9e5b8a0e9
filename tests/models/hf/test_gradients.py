"""Substitutions by gradient: the first-order scores, the candidates, and texts that are tokenized as intended."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.contracts import ask
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Substitute, response_as_dict, response_from_dict
from tests.models.hf import translators
from tests.tiny_models import FIGURES_GPT2


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, transformers
    torch = pytest.importorskip("torch", reason="the hf extra is not installed")
    transformers = pytest.importorskip("transformers", reason="the hf extra is not installed")
    pytest.importorskip("sentencepiece", reason="the fewshot extra is not installed")


# Marian's tokenizer works without it.
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

TEXT = "two seven three four"
TARGET = translators.translated(TEXT)
KINDS = ("any", "neighbours", "unknown")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    return {family: translators.save(family, folder / family) for family in translators.FAMILIES}


def opened(models, family):
    languages = {"source_lang": "en", "target_lang": "fr"} if family == "m2m_100" else {}
    return HuggingFace(str(models[family]), **languages)


def substitutions(model, *requests):
    responses = sorted(ask(model, "gradients", requests), key=lambda pair: pair[0])
    answers = [response.answer.items for _, response in responses]
    return answers[0] if len(answers) == 1 else answers


def direct_gradient(folder):
    """The gradient of the loss by a plain call of transformers, the embeddings, and the tokens of the text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    table = model.get_encoder().get_input_embeddings().weight.detach()
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    # The end of the text is not part of the target.
    labels = tokenizer(text_target=TARGET, return_tensors="pt")["input_ids"][:, :-1]
    embedded = table[ids].clone().requires_grad_(True)
    (model(inputs_embeds=embedded, labels=labels).loss * labels.shape[1]).backward()
    return embedded.grad[0].numpy(), table.numpy(), ids[0].tolist(), tokenizer


def test_gains_are_the_gradient_times_the_difference_of_embeddings(models):
    gradient, table, ids, tokenizer = direct_gradient(models["t5"])
    proposals = substitutions(opened(models, "t5"), Substitute(TEXT, TARGET, "any", count=40))
    assert len(proposals) == 40
    for item in proposals:
        new_ids = tokenizer(item.text)["input_ids"]
        (position,) = [place for place, (old, new) in enumerate(zip(ids, new_ids, strict=True)) if old != new]
        gain = (table[new_ids[position]] - table[ids[position]]) @ gradient[position]
        assert item.gain == pytest.approx(gain, abs=1e-4)


def test_the_first_substitution_is_the_best_of_the_whole_vocabulary(models):
    gradient, table, ids, tokenizer = direct_gradient(models["t5"])
    gains = (table @ gradient.T).T - np.sum(table[ids] * gradient, axis=1, keepdims=True)
    special = tokenizer.all_special_ids
    gains[:, special] = -np.inf
    # The end of the text cannot be replaced.
    position, token = np.unravel_index(np.argmax(gains[:-1]), gains[:-1].shape)
    best = substitutions(opened(models, "t5"), Substitute(TEXT, TARGET, "any"))[0]
    words = TEXT.split()
    words[position] = tokenizer.convert_ids_to_tokens(int(token))
    assert best.text == " ".join(words)
    assert best.text[best.start : best.end] == words[position]


@pytest.mark.parametrize("family", translators.FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_family_gets_texts_with_one_word_replaced(models, family, kind):
    proposals = substitutions(opened(models, family), Substitute(TEXT, TARGET, kind, count=4))
    assert len(proposals) == 4
    for item in proposals:
        old, new = TEXT.split(), item.text.split()
        changed = [place for place, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
        assert len(changed) == 1
        assert item.text[item.start : item.end] == new[changed[0]]
    assert len({item.start for item in proposals}) == 4, (
        "the best of every position comes before the second best of any"
    )
    assert [item.gain for item in proposals] == sorted((item.gain for item in proposals), reverse=True)


def test_neighbours_are_the_nearest_in_embedding_space(models):
    _, table, ids, tokenizer = direct_gradient(models["t5"])
    special = tokenizer.all_special_ids
    proposals = substitutions(opened(models, "t5"), Substitute(TEXT, TARGET, "neighbours", neighbours=3, count=100))
    assert len(proposals) == 4 * 3
    for position, old in enumerate(ids[:-1]):
        distances = np.linalg.norm(table - table[old], axis=1)
        distances[[*special, old]] = np.inf
        nearest = set(tokenizer.convert_ids_to_tokens(np.argsort(distances)[:3].tolist()))
        words = {item.text.split()[position] for item in proposals} - {TEXT.split()[position]}
        assert words == nearest


def test_swapped_words_have_the_same_letters_and_are_unknown(models):
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["t5"])
    proposals = substitutions(opened(models, "t5"), Substitute(TEXT, TARGET, "unknown", count=100))
    for item in proposals:
        assert sorted(item.text) == sorted(TEXT)
        assert tokenizer(item.text)["input_ids"].count(tokenizer.unk_token_id) == 1


def test_the_last_letter_is_repeated_if_no_swap_is_unknown(models):
    # "a" and "b" are words of the vocabulary, and a word with two equal letters has no swap.
    model = opened(models, "marian")
    (item,) = substitutions(model, Substitute("oo", TARGET, "unknown"))
    assert set(item.text) == {"o"}
    assert len(item.text) > 2


def test_kept_parts_and_the_rest_of_the_prompt_stay(models):
    request = Substitute(TEXT, TARGET, "any", count=100, keep=((0, 3), (10, 15)), left="translate : ", right=" .")
    proposals = substitutions(opened(models, "t5"), request)
    changed = {item.start for item in proposals}
    assert changed == {4, 16}
    assert all(item.text.startswith("two ") and " three " in item.text for item in proposals)


def test_a_seed_decides_between_equal_gains_only(models):
    model = opened(models, "t5")
    by_seed = [substitutions(model, Substitute(TEXT, TARGET, "unknown", seed=seed)) for seed in range(6)]
    assert len({items[0].text for items in by_seed}) > 1, "all spellings of one word are the same unknown token"
    assert len({items[0].start for items in by_seed}) == 1, "the gains of words differ"
    again = substitutions(model, Substitute(TEXT, TARGET, "unknown", seed=0))
    assert again == by_seed[0]


def test_answers_do_not_depend_on_the_batch(models):
    model = opened(models, "bart")
    requests = [Substitute(text, TARGET, "any", count=3) for text in translators.sentences(5, seed=3)]
    together = substitutions(model, *requests)
    for request, items in zip(requests, together, strict=True):
        alone = substitutions(model, request)
        assert [item.text for item in alone] == [item.text for item in items]
        assert [item.gain for item in alone] == pytest.approx([item.gain for item in items], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_causal_models_are_attacked_in_their_prompt(kind):
    model = HuggingFace(FIGURES_GPT2)
    assert "gradients" in model.can
    request = Substitute("The author laughs at the manager", "and smiles", kind, count=3, left="Text: ", right="\n")
    proposals = substitutions(model, request)
    assert proposals
    tokenizer = transformers.AutoTokenizer.from_pretrained(FIGURES_GPT2)
    old = tokenizer("Text: The author laughs at the manager\n")["input_ids"]
    for item in proposals:
        new = tokenizer(f"Text: {item.text}\n")["input_ids"]
        assert new != old
        if kind != "unknown":
            assert sum(a != b for a, b in zip(old, new, strict=True)) == 1


def test_the_target_of_a_causal_model_is_counted_once():
    request = Substitute("The author laughs at the manager", " and smiles")
    ((_, response),) = ask(HuggingFace(FIGURES_GPT2), "gradients", [request])
    tokenizer = transformers.AutoTokenizer.from_pretrained(FIGURES_GPT2)
    assert response.tokens_in == len(tokenizer(request.text + request.target)["input_ids"])


def test_without_a_target_or_words_there_is_nothing_to_replace(models):
    model = opened(models, "t5")
    assert substitutions(model, Substitute(TEXT, "", "any")) == ()
    assert substitutions(model, Substitute("", TARGET, "any")) == ()
    assert substitutions(model, Substitute("1 2", TARGET, "unknown")) == ()


def test_a_text_beyond_the_window_is_reported(models):
    ((_, response),) = ask(opened(models, "t5"), "gradients", [Substitute("one " * 100, TARGET)])
    assert response.finish == "too_long"


def test_gradients_leave_the_weights_alone(models):
    model = opened(models, "t5")
    substitutions(model, Substitute(TEXT, TARGET))
    weights = model._engine.model
    assert all(parameter.grad is None for parameter in weights.parameters())


def test_an_answer_survives_storage(models):
    ((_, response),) = ask(opened(models, "t5"), "gradients", [Substitute(TEXT, TARGET, count=2)])
    assert response_from_dict(response_as_dict(response)) == response
