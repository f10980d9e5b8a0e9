"""Local models: every family answers slot and logprobs as a plain forward pass, one text at a time, would."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from lmassay.contracts import Model, ask
from lmassay.errors import ConfigError, DataError, FatalModelError
from lmassay.models.hf.logits import candidate_columns
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Generate, LogProbs, Slot
from tests.helpers import lmassay, write_config
from tests.tiny_models import CAUSAL, MASKED, RECURRENT, SENTENCES, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    global torch, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer, load
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

    from lmassay.models.hf import load


WORDS = ("laugh", "laughs", "swim", "swims", "is", "are", "was", "admires", "unpopular", "been", "near", "zebra")


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")

    @lru_cache
    def folder(family: str) -> Path:
        return save_model(root / family, family)

    return folder


def plain(folder: Path, family: str):
    """Model and tokenizer as anybody would load them."""
    kind = AutoModelForMaskedLM if family in MASKED else AutoModelForCausalLM
    return kind.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def plain_logprobs(model, ids, at):
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, at].double(), dim=-1)


def answers(model, verb, requests):
    response_of = dict(ask(model, verb, requests))
    return [response_of[number] for number in range(len(requests))]


@pytest.mark.parametrize("family", [*CAUSAL, *RECURRENT])
def test_a_causal_model_gives_the_next_word_as_a_plain_forward_pass_does(folder_of, family):
    model, tokenizer = plain(folder_of(family), family)
    contexts = ["The author ", "The authors ", "The author near the ", "Some dancers that the teacher ", "The author "]
    responses = answers(HuggingFace(str(folder_of(family))), "slot", [Slot(c, ".", WORDS) for c in contexts])
    for context, response in zip(contexts, responses, strict=True):
        ids = tokenizer(context.rstrip())["input_ids"]
        expected = plain_logprobs(model, ids, -1)
        order = torch.argsort(expected, descending=True).tolist()
        for word, candidate in zip(WORDS, response.answer, strict=True):
            spelled = tokenizer(f"the {word}", add_special_tokens=False)["input_ids"]
            before = len(tokenizer("the", add_special_tokens=False)["input_ids"])
            if len(spelled) != before + 1 or spelled[-1] == tokenizer.unk_token_id:
                assert candidate.logprob is None
                continue
            token = spelled[-1]
            assert candidate.logprob == pytest.approx(float(expected[token]), abs=1e-4)
            assert candidate.rank == order.index(token)
            above = math.fsum(math.exp(expected[t]) for t in order[: order.index(token)])
            assert candidate.mass_above == pytest.approx(above, abs=1e-5)
            assert candidate.mass_above + math.exp(candidate.logprob) + candidate.mass_below == pytest.approx(
                1, abs=1e-5
            )


@pytest.mark.parametrize("family", MASKED)
def test_a_masked_model_fills_the_blank_as_a_plain_forward_pass_does(folder_of, family):
    model, tokenizer = plain(folder_of(family), family)
    blanks = [
        ("The author ", " near the pilot."),
        ("The authors ", "."),
        ("Some dancers that the teacher ", " are old."),
    ]
    local = HuggingFace(str(folder_of(family)), leading_space=False)
    responses = answers(local, "slot", [Slot(*blank, WORDS) for blank in blanks])
    for (left, right), response in zip(blanks, responses, strict=True):
        ids = tokenizer(left + tokenizer.mask_token + right)["input_ids"]
        expected = plain_logprobs(model, ids, ids.index(tokenizer.mask_token_id))
        scored = 0
        for word, candidate in zip(WORDS, response.answer, strict=True):
            token = local._word_tokenizer.spell(word)
            if candidate.logprob is not None:
                scored += 1
                assert candidate.logprob == pytest.approx(float(expected[token[0]]), abs=1e-4)
        assert scored >= 1


@pytest.mark.parametrize("family", [*CAUSAL, *RECURRENT])
def test_a_text_has_the_probability_that_a_plain_forward_pass_gives(folder_of, family):
    model, tokenizer = plain(folder_of(family), family)
    local = HuggingFace(str(folder_of(family)), prefix="bos" if tokenizer.bos_token_id is not None else "eos")
    prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    texts = [*SENTENCES, "The author laughs.", "The author laugh.", "The"]
    for text, response in zip(texts, answers(local, "logprobs", [LogProbs("", t) for t in texts]), strict=True):
        ids = [prefix, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        expected = [float(plain_logprobs(model, ids[:at], -1)[ids[at]]) for at in range(1, len(ids))]
        assert response.answer.tokens == pytest.approx(expected, abs=2e-4)
        assert response.answer.total == pytest.approx(sum(expected), abs=1e-3)


@pytest.mark.parametrize(("family", "shares"), [("gpt2", True), ("llama", True), ("mamba", False)])
def test_prefixes_are_shared_where_the_architecture_allows(folder_of, family, shares):
    local = HuggingFace(str(folder_of(family)))
    assert local._engine._reader._causal.shares_prefixes is shares


@pytest.mark.parametrize("family", ["mistral", "gpt_neo", "gemma2"])
@pytest.mark.parametrize("batch_tokens", [None, 1000])
def test_local_attention_reaches_as_far_as_it_should(tmp_path, family, batch_tokens):
    """A tree's own mask must not widen the window of a model that looks back a few tokens only."""
    folder = save_model(tmp_path / family, family, reach=8, window=256)
    model, tokenizer = plain(folder, family)
    texts = [f"{s} {t}" for s in SENTENCES for t in SENTENCES] + SENTENCES
    local = HuggingFace(str(folder), prefix="eos", batch_tokens=batch_tokens)
    for text, response in zip(texts, answers(local, "logprobs", [LogProbs("", t) for t in texts]), strict=True):
        ids = [tokenizer.eos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        expected = [float(logits[at - 1, ids[at]]) for at in range(1, len(ids))]
        assert response.answer.tokens == pytest.approx(expected, abs=5e-4)


def test_a_model_that_computes_no_numbers_is_reported_at_once(tmp_path):
    for family, verb, request in (
        ("gpt2", "slot", Slot("The author ", ".", WORDS)),
        ("gpt2", "logprobs", LogProbs("", "The author")),
        ("gpt2", "generate", Generate("The author", max_tokens=2)),
        ("bert", "logprobs", LogProbs("", "The author")),
    ):
        folder = save_model(tmp_path / f"{family}-{verb}", family)
        local = HuggingFace(str(folder))
        answers(local, verb, [request])
        with torch.no_grad():
            local._engine._loaded.model.get_input_embeddings().weight.fill_(float("nan"))
        with pytest.raises(FatalModelError, match="computes NaN or infinity"):
            answers(local, verb, [request])


def test_a_probability_of_zero_is_a_finite_number(folder_of):
    logits = np.array([0.0, -np.inf, 1.0], dtype=np.float32)
    answer = candidate_columns(logits, np.exp(logits) / np.exp(logits).sum(), np.array([0, 1, 2]))
    assert np.isfinite(answer.logprobs).all()
    assert answer[1].logprob < -1e6


def test_words_that_do_not_fit_the_window_have_no_score(folder_of):
    for family in ("gpt2", "bert"):
        local = HuggingFace(str(folder_of(family)))
        window = local._engine._loaded.window
        left = "The " * (window - 3)
        for words in range(window - 12, window + 1):
            left = "The " * words
            (answer,) = answers(local, "slot", [Slot(left, "", ("unpopularity", "is"), ranked=False, multi_token=True)])
            assert answer.usable or answer.finish == "too_long"


def test_where_one_word_begins_another_a_causal_model_gives_neither_a_score(folder_of):
    local = HuggingFace(str(folder_of("gpt2")))
    words = ("unpopular", "unpopularity", "laughs")
    (answer,) = answers(local, "slot", [Slot("The author ", "", words, ranked=False, multi_token=True)])
    spelled = [local._word_tokenizer.spell(word) for word in words]
    assert spelled[1][: len(spelled[0])] == spelled[0]
    assert (answer.answer[0].logprob, answer.answer[1].logprob) == (None, None)


def test_a_blank_at_the_beginning_is_spelled_with_the_space_that_the_model_reads(folder_of):
    local = HuggingFace(str(folder_of("roberta")))
    (answer,) = answers(local, "slot", [Slot("", " the author near.", ("is", "laughs", "the"))])
    for word, candidate in zip(("is", "laughs", "the"), answer.answer, strict=True):
        assert (candidate.logprob is None) == (len(local._word_tokenizer.spell(word)) != 1)


def test_options_that_do_not_apply_are_refused(folder_of):
    with pytest.raises(ConfigError, match=r"model\.prefix: a masked model"):
        HuggingFace(str(folder_of("bert")), prefix="bos").check()
    with pytest.raises(ConfigError, match=r"model\.pll: this option is for masked models"):
        HuggingFace(str(folder_of("gpt2")), pll="original").check()
    with pytest.raises(ConfigError, match="both directions"):
        HuggingFace(str(folder_of("bert")), kind="causal").check()


def test_a_neighbour_in_the_batch_takes_no_room_away(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    short, long = Generate("The", max_tokens=30), Generate("The author near the pilot laughs " * 4, max_tokens=30)
    alone = answers(local, "generate", [short])[0]
    assert answers(local, "generate", [short, long])[0].text == alone.text


def test_a_sample_depends_on_its_draw_and_not_on_its_neighbours(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    one, other, again = (Generate("The", max_tokens=12, temperature=1.0, draw=draw) for draw in ("a", "b", "a"))
    together = [r.text for r in answers(local, "generate", [one, other, again])]
    assert together[0] == together[2] != together[1]
    assert answers(local, "generate", [one])[0].text == together[0]


def test_samples_follow_the_distribution(folder_of):
    model, tokenizer = plain(folder_of("llama"), "llama")
    local = HuggingFace(str(folder_of("llama")))
    asked = [Generate("The author", max_tokens=1, temperature=1.5, draw=str(i)) for i in range(600)]
    texts = [r.text for r in answers(local, "generate", asked)]
    ids = tokenizer("The author")["input_ids"]
    with torch.no_grad():
        p = torch.softmax(model(input_ids=torch.tensor([ids])).logits[0, -1] / 1.5, dim=-1)
    best = int(p.argmax())
    share = texts.count(tokenizer.decode([best], skip_special_tokens=True)) / len(texts)
    assert share == pytest.approx(float(p[best]), abs=0.08)


def test_a_continuation_is_scored_after_its_context_only(folder_of):
    local = HuggingFace(str(folder_of("gpt2")), prefix="bos")
    whole, rest = answers(local, "logprobs", [LogProbs("", "The author laughs"), LogProbs("The author", " laughs")])
    assert rest.answer.tokens == pytest.approx(whole.answer.tokens[-len(rest.answer.tokens) :], abs=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 7, 64, 5000])
@pytest.mark.parametrize("family", ["gpt2", "bert", "mamba"])
def test_the_size_of_a_batch_changes_nothing(folder_of, family, batch_tokens):
    requests = [Slot(f"{s.rpartition(' ')[0]} ", ".", WORDS) for s in SENTENCES]
    one, other = (
        answers(HuggingFace(str(folder_of(family)), batch_tokens=n), "slot", requests) for n in (batch_tokens, 100)
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.answer.logprobs, b.answer.logprobs, atol=2e-5)


def test_words_of_several_tokens_are_spelled_out_when_asked_for(folder_of):
    for family in ("gpt2", "bert"):
        local = HuggingFace(str(folder_of(family)))
        words = ("laughs", "unpopularity", "is")
        plainly, spelled = (
            answers(local, "slot", [Slot("The author ", " here.", words, ranked=False, multi_token=multi)])[0].answer
            for multi in (False, True)
        )
        assert plainly[1].logprob is None
        assert spelled[1].logprob is not None
        assert spelled[1].logprob < 0
        for number in (0, 2):
            if plainly[number].logprob is not None:
                assert spelled[number].logprob == plainly[number].logprob
    gpt2 = HuggingFace(str(folder_of("gpt2")))
    chained = answers(gpt2, "logprobs", [LogProbs("The author", " unpopularity")])[0].answer.total
    answer = answers(gpt2, "slot", [Slot("The author ", "", ("unpopularity",), multi_token=True)])[0].answer
    assert answer[0].logprob == pytest.approx(chained, abs=1e-4)


def test_a_word_at_the_beginning_is_read_after_the_separator(folder_of):
    local = HuggingFace(str(folder_of("gpt2")))
    answer = answers(local, "slot", [Slot("", " the author laugh?", ("Some", "The"))])[0].answer
    model, tokenizer = plain(folder_of("gpt2"), "gpt2")
    expected = plain_logprobs(model, [tokenizer.bos_token_id], -1)
    assert answer[1].logprob == pytest.approx(float(expected[tokenizer("The")["input_ids"][0]]), abs=1e-4)


def test_a_mask_written_in_the_text_is_not_taken_for_the_blank(folder_of):
    local = HuggingFace(str(folder_of("bert")))
    ids, position = local._word_tokenizer.blank("The [MASK] author ", " near.", "found")
    masks = [i for i, token in enumerate(ids) if token == local._word_tokenizer.tokenizer.mask_token_id]
    assert len(masks) == 2
    assert position == masks[1]


def test_the_blank_of_roberta_is_found_behind_its_leading_space(folder_of):
    local = HuggingFace(str(folder_of("roberta")))
    for left in ("The author ", "unpopularity ", "Zz "):
        ids, position = local._word_tokenizer.blank(left, ".", "found")
        assert ids[position] == local._word_tokenizer.tokenizer.mask_token_id


def test_a_context_beyond_the_window_is_reported_and_not_cut(folder_of):
    for family in ("gpt2", "bert", "roberta"):
        local = HuggingFace(str(folder_of(family)))
        long = "The author near " * 40
        slot, short = answers(local, "slot", [Slot(long, ".", WORDS), Slot("The author ", ".", WORDS)])
        text = answers(local, "logprobs", [LogProbs("", long)])[0]
        assert (slot.finish, slot.usable, text.finish) == ("too_long", False, "too_long")
        assert short.usable


def test_a_text_that_just_fits_the_window_is_scored(folder_of):
    for family in ("gpt2", "roberta", "bert"):
        local = HuggingFace(str(folder_of(family)), prefix="auto")
        text = "The " * 200
        tokens = local._word_tokenizer.tokenizer(text, add_special_tokens=False)["input_ids"]
        special = 0 if family == "gpt2" else 2
        fitting = local._word_tokenizer.tokenizer.decode(tokens[: 64 - special]) if family != "gpt2" else "The " * 10
        response = answers(local, "logprobs", [LogProbs("", fitting)])[0]
        assert response.usable, (family, response)


def test_a_text_whose_last_boundary_is_beyond_the_window_is_reported(folder_of):
    local = HuggingFace(str(folder_of("gpt2")), prefix="none")
    words = 1
    while len(local._word_tokenizer.continuation("", "The " * words + "The").ids) <= local._engine._loaded.window:
        words += 1
    text = "The " * words + "The"
    # The last token is not read unless the boundary after it is scored.
    assert len(local._word_tokenizer.continuation("", text).ids) == local._engine._loaded.window + 1
    ((_, scored),) = local.token_scores([text], "none")
    assert len(scored.logprobs) == local._engine._loaded.window + 1
    ((_, error),) = local.token_scores([text], "space")
    assert "longer than the model's window" in str(error)


def test_running_out_of_memory_halves_the_batch_and_goes_on(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("bert")), batch_tokens=4096)
    requests = [Slot(f"{s.rpartition(' ')[0]} ", ".", WORDS) for s in SENTENCES]
    expected = answers(local, "slot", requests)
    masked = local._engine._reader._masked
    sizes = []
    honest = masked._logits

    def small_machine(blanks):
        sizes.append(len(blanks))
        if len(blanks) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return honest(blanks)

    monkeypatch.setattr(masked, "_logits", small_machine)
    for a, b in zip(answers(local, "slot", requests), expected, strict=True):
        np.testing.assert_allclose(a.answer.logprobs, b.answer.logprobs, atol=2e-5)
    assert sizes[0] > 1


def test_a_text_that_alone_does_not_fit_into_memory_is_an_error_of_its_own(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("bert")))
    requests = [
        Slot("The author ", ".", WORDS),
        Slot("Some dancers that the teacher admires and the authors ", ".", WORDS),
    ]
    answers(local, "slot", requests)
    masked = local._engine._reader._masked
    honest = masked._logits

    def tiny_machine(blanks):
        if max(len(blank.ids) for blank in blanks) > 8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return honest(blanks)

    monkeypatch.setattr(masked, "_logits", tiny_machine)
    fine, failed = answers(local, "slot", requests)
    assert fine.usable
    assert "out of memory" in failed.error


def test_generation_is_what_a_plain_greedy_search_gives(folder_of):
    model, tokenizer = plain(folder_of("llama"), "llama")
    local = HuggingFace(str(folder_of("llama")))
    prompts = ["The author", "Some dancers that the teacher", "A"]
    responses = answers(local, "generate", [Generate(p, max_tokens=6) for p in prompts])
    for prompt, response in zip(prompts, responses, strict=True):
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            whole = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, ids.shape[1] :].tolist()
        ended = tokenizer.eos_token_id in whole
        kept = whole[: whole.index(tokenizer.eos_token_id)] if ended else whole
        assert response.text == tokenizer.decode(kept, skip_special_tokens=True)
        assert response.finish == ("stop" if ended else "length")


def test_generation_stops_at_a_stop_text(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    (whole,) = answers(local, "generate", [Generate("The author", max_tokens=8)])
    stop = whole.text.strip()[2:4]
    (cut,) = answers(local, "generate", [Generate("The author", max_tokens=8, stop=(stop,))])
    assert stop not in cut.text
    assert whole.text.startswith(cut.text)
    assert cut.finish == "stop"


def test_padding_after_a_stop_text_is_not_counted(tmp_path):
    folder = save_model(tmp_path / "model", "llama")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.unk_token
    tokenizer.save_pretrained(folder)
    # In one batch, the first answer ends long before the others.
    prompts = ["The author", "Some dancers that", "A"]
    (whole,) = answers(HuggingFace(str(folder)), "generate", [Generate(prompts[0], max_tokens=12)])
    requests = [Generate(prompt, max_tokens=12, stop=(whole.text.strip()[1:3],)) for prompt in prompts]
    together = answers(HuggingFace(str(folder)), "generate", requests)
    separate = answers(HuggingFace(str(folder), batch_tokens=1), "generate", requests)
    assert together[0].tokens_out < 12
    assert [r.tokens_out for r in together] == [r.tokens_out for r in separate]


def test_a_model_is_known_by_its_weights_and_manner(folder_of, tmp_path):
    same = save_model(tmp_path / "copy", "gpt2")
    other = save_model(tmp_path / "other", "gpt2", seed=1)
    identity = HuggingFace(str(folder_of("gpt2"))).identity()
    assert identity["weights"] == HuggingFace(str(same)).identity()["weights"]
    assert identity["weights"] != HuggingFace(str(other)).identity()["weights"]
    assert identity["prefix"] == "none/<|endoftext|>"
    assert HuggingFace(str(same), prefix="bos").identity()["prefix"] == "<|endoftext|>"
    assert (identity["device"], identity["dtype"]) == ("cpu", "float32")


def test_a_model_fits_the_contract_and_says_what_it_can(folder_of):
    masked, causal = HuggingFace(str(folder_of("bert"))), HuggingFace(str(folder_of("gpt2")))
    assert isinstance(masked, Model)
    assert (masked.can, masked.sees_right) == (frozenset({"slot", "logprobs", "train"}), True)
    abilities = {"slot", "logprobs", "train", "generate", "choices", "gradients"}
    assert (causal.can, causal.sees_right) == (abilities, False)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: [(f / n).unlink() for n in ("tokenizer.json", "tokenizer_config.json")], "no tokenizer"),
        (lambda f: (f / "config.json").unlink(), "no readable config.json"),
        (lambda f: (f / "config.json").write_text("{"), "is not valid JSON"),
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "no .safetensors weights"),
    ],
)
def test_a_spoilt_folder_is_reported_before_anything_is_loaded(tmp_path, spoil, words):
    folder = save_model(tmp_path / "model", "gpt2")
    spoil(folder)
    with pytest.raises(DataError, match=words):
        HuggingFace(str(folder)).check()


def test_weights_that_are_cut_off_are_reported(tmp_path):
    folder = save_model(tmp_path / "model", "gpt2")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(DataError, match="cannot be loaded"):
        answers(HuggingFace(str(folder)), "slot", [Slot("The author ", ".", WORDS)])


def test_a_checkpoint_without_its_head_is_refused_and_not_filled_with_noise(tmp_path):
    from transformers import AutoModel

    folder = save_model(tmp_path / "model", "bert")
    body = AutoModel.from_pretrained(folder)
    body.config.architectures = ["BertForMaskedLM"]
    body.save_pretrained(folder)
    with pytest.raises(DataError, match="head"):
        answers(HuggingFace(str(folder)), "slot", [Slot("The author ", ".", WORDS)])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./nowhere", "there is no model at"),
        ("not/a/hub/name", "is not a folder"),
        ("some-org/never-fetched", "lmassay models get some-org/never-fetched"),
    ],
)
def test_a_model_that_is_not_here_says_how_to_get_it(name, words):
    with pytest.raises(DataError, match=words):
        HuggingFace(name).check()


def test_a_misspelt_folder_gets_the_name_of_a_similar_one(tmp_path, monkeypatch):
    (tmp_path / "tiny-gpt2").mkdir()
    (tmp_path / "tiny-gpt2" / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"there is no model folder tiny-gpt; did you mean 'tiny-gpt2'\?"):
        HuggingFace("tiny-gpt").check()


def test_wrong_options_are_reported(folder_of):
    with pytest.raises(ConfigError, match=r"model\.prefix"):
        HuggingFace(str(folder_of("gpt2")), prefix="<nothing>").identity()
    with pytest.raises(ConfigError, match=r"model\.device"):
        HuggingFace(str(folder_of("gpt2")), device="toaster").identity()
    with pytest.raises(ConfigError, match="no mask"):
        HuggingFace(str(folder_of("gpt2")), position="counted").check()


def test_a_blank_inside_a_word_is_an_error_of_that_request(folder_of):
    for family in ("gpt2", "bert"):
        inside, fine = answers(
            HuggingFace(str(folder_of(family))), "slot", [Slot("The auth", "", ("or",)), Slot("The ", ".", ("author",))]
        )
        assert "inside a word" in inside.error
        assert fine.error is None


def test_a_classifier_is_no_language_model(tmp_path):
    folder = save_model(tmp_path / "model", "bert")
    config = (folder / "config.json").read_text().replace("BertForMaskedLM", "BertForSequenceClassification")
    (folder / "config.json").write_text(config)
    with pytest.raises(DataError, match="not a language model"):
        HuggingFace(str(folder)).check()


def test_the_command_runs_a_local_model_and_shows_its_manner(folder_of, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "The author laughs", "sentence_bad": "The author laugh", "label": -1}\n')
    config = write_config(
        tmp_path / "c.yaml",
        {
            "task": {"name": "minimal_pairs", "data": "pairs.jsonl"},
            "model": {"name": "hf", "model": str(folder_of("gpt2"))},
        },
    )
    done = lmassay("run", config, "--results", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    shown = lmassay("show", "latest", "--signature", "--results", tmp_path / "r")
    assert "dtype=float32" in shown.stdout
    assert "prefix=none/<|endoftext|>" in shown.stdout


@pytest.mark.parametrize(
    ("wanted", "saved_as", "instructions", "chosen"),
    [
        ("auto", "float32", True, "float32"),
        ("auto", "bfloat16", False, "float32"),
        ("auto", "bfloat16", True, "bfloat16"),
        ("auto", "float16", True, "float32"),
        ("auto", None, True, "float32"),
        ("bfloat16", "float32", False, "bfloat16"),
    ],
)
def test_the_number_format_is_what_the_processor_is_good_at(monkeypatch, wanted, saved_as, instructions, chosen):
    monkeypatch.setattr(load, "_cpu_has_bfloat16", lambda: instructions)
    assert load.choose_dtype(wanted, saved_as, torch.device("cpu")) == chosen
