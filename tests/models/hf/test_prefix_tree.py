"""The shared beginning of prompts is computed once, and the results do not change."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.contracts import ask
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Generate, LogProbs
from tests.helpers import lmassay, write_config, write_lines
from tests.tiny_models import CAUSAL, RECURRENT, SENTENCES, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    global torch, causal, generation, DecodingTree, build_tree, count_nodes
    import torch

    from lmassay.models.hf import causal, generation
    from lmassay.models.hf.prefix_tree import DecodingTree, build_tree, count_nodes


INSTRUCTION = "Some dancers that the teacher admires are tall and the surgeons swim near the pilot. "
PROMPTS = [
    f"{INSTRUCTION}{context} {question} {answer}"
    for context in SENTENCES[:2]
    for question in ("The movie brings", "The guards laugh")
    for answer in ("the author", "the author and the pilot", "people")
]
LOCAL = {"mistral": 16, "gpt_neo": 16}


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("sharing")

    @lru_cache
    def folder(family: str) -> Path:
        return save_model(root / family, family, window=256, reach=LOCAL.get(family))

    return folder


@pytest.fixture
def one_by_one(monkeypatch):
    """Today's way for comparison: nothing is shared."""

    def texts(folder: Path, requests, **options):
        with monkeypatch.context() as patch:
            patch.setattr(generation, "_WORTH_SHARING", 0)
            return answers(HuggingFace(str(folder), batch_tokens=1, **options), "generate", requests)

    return texts


def answers(model, verb, requests):
    response_of = dict(ask(model, verb, requests))
    return [response_of[index] for index in range(len(requests))]


def outcomes(responses):
    return [(r.answer, r.finish, r.tokens_in, r.tokens_out, r.error) for r in responses]


def shares(local: HuggingFace) -> bool:
    return local._engine._generator._shares_prefixes


def tokens_read(local: HuggingFace, verb, requests) -> int:
    """How many tokens go through the model while it answers."""
    read = 0

    def count(module, arguments):
        nonlocal read
        read += arguments[0].numel()

    answers(local, verb, requests[:1])
    if verb == "generate":
        shares(local)
    hook = local._engine._loaded.model.get_input_embeddings().register_forward_pre_hook(count)
    try:
        answers(local, verb, requests)
    finally:
        hook.remove()
    return read


def distinct(local: HuggingFace, texts) -> int:
    # Other test modules call this, too, without the setup of this one.
    from lmassay.models.hf.prefix_tree import count_nodes

    return count_nodes(sorted(tuple(local._word_tokenizer.tokenizer(text)["input_ids"]) for text in texts))


# --- trees --------------------------------------------------------------------------------------------------------

sequences = st.lists(st.lists(st.integers(0, 2), max_size=6).map(tuple), min_size=1, max_size=8).map(sorted)


@given(sequences, st.lists(st.integers(0, 2), max_size=6).map(tuple))
def test_every_sequence_has_its_path_through_the_tree_and_a_node_sees_its_ancestors_only(rows, trunk):
    tree = build_tree(rows, trunk)
    read = (*trunk, *tree.tokens)
    sees = tree.visible()
    for row, path in zip(rows, tree.paths, strict=True):
        assert tuple(read[column] for column in path) == row
        for depth, column in enumerate(path):
            if column >= len(trunk):
                assert set(np.flatnonzero(sees[column - len(trunk)])) == set(path[: depth + 1])


@given(sequences)
def test_a_tree_has_one_node_for_each_distinct_beginning(rows):
    beginnings = {row[:end] for row in rows for end in range(1, len(row) + 1)}
    assert count_nodes(rows) == len(build_tree(rows).tokens) == len(beginnings)


# --- generation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [*CAUSAL, *RECURRENT, *LOCAL])
def test_answers_are_those_of_each_prompt_by_itself(folder_of, one_by_one, family):
    requests = [Generate(prompt, max_tokens=10) for prompt in PROMPTS]
    assert outcomes(answers(HuggingFace(str(folder_of(family))), "generate", requests)) == outcomes(
        one_by_one(folder_of(family), requests)
    )


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "gpt_neox", "qwen2"])
def test_beginnings_are_shared_where_layers_remember_all_tokens_alike(folder_of, family):
    assert shares(HuggingFace(str(folder_of(family))))


@pytest.mark.parametrize("family", ["mamba", "mistral", "gpt_neo", "gemma2"])
def test_beginnings_are_not_shared_where_layers_forget_or_look_back_a_little_way_only(folder_of, family):
    assert not shares(HuggingFace(str(folder_of(family))))


def test_every_distinct_token_is_read_once(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    requests = [Generate(prompt, max_tokens=3) for prompt in PROMPTS]
    # Of the answers all tokens but the last are read, which is at most three for each.
    most = distinct(local, PROMPTS) + 3 * len(PROMPTS)
    assert tokens_read(local, "generate", requests) <= most
    assert most < sum(len(local._word_tokenizer.tokenizer(prompt)["input_ids"]) for prompt in PROMPTS) / 2


def test_a_batch_begins_with_what_the_one_before_has_read(folder_of):
    local = HuggingFace(str(folder_of("llama")), batch_tokens=150)
    requests = [Generate(prompt, max_tokens=1) for prompt in PROMPTS]
    assert tokens_read(local, "generate", requests) <= distinct(local, PROMPTS) + len(PROMPTS)


@pytest.mark.parametrize("batch_tokens", [1, 150, 400, 100_000])
def test_the_size_of_a_batch_changes_no_answer(folder_of, batch_tokens):
    requests = [Generate(prompt, max_tokens=8) for prompt in (*PROMPTS, "The", *PROMPTS[:3])]
    one, other = (HuggingFace(str(folder_of("gpt2")), batch_tokens=n) for n in (batch_tokens, None))
    assert outcomes(answers(one, "generate", requests)) == outcomes(answers(other, "generate", requests))


@pytest.mark.parametrize("family", ["llama", "mamba"])
def test_the_first_answers_of_a_long_generation_are_stored_after_a_small_batch(
    folder_of, tmp_path, monkeypatch, family
):
    sizes = []
    original = generation.TextGenerator._generate_batch

    def interrupted(self, prompts, *rest):
        sizes.append(len(prompts))
        if len(sizes) == 2:
            raise KeyboardInterrupt
        return original(self, prompts, *rest)

    monkeypatch.setattr(generation.TextGenerator, "_generate_batch", interrupted)
    write_lines(tmp_path / "src.txt", [f"{sentence} {word}" for sentence in SENTENCES for word in "abcdefgh"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap", "max_tokens": 16}
    model = {"name": "hf", "model": str(folder_of(family)), "batch_tokens": 600}
    write_config(tmp_path / "c.yaml", {"task": task, "model": model})
    lmassay("run", "c.yaml", cwd=tmp_path)
    with closing(sqlite3.connect(tmp_path / "results" / "lmassay.sqlite")) as database:
        (stored,) = database.execute("SELECT COUNT(*) FROM responses").fetchone()
    assert stored == sizes[0]
    assert sizes[0] <= sizes[1] / 2


def test_samples_are_those_of_each_prompt_by_itself(folder_of, one_by_one):
    requests = [
        Generate(prompt, max_tokens=8, temperature=1.0, draw=draw) for prompt in PROMPTS for draw in ("one", "other")
    ]
    responses = answers(HuggingFace(str(folder_of("llama"))), "generate", requests)
    assert outcomes(responses) == outcomes(one_by_one(folder_of("llama"), requests))
    assert responses[0].text != responses[1].text


def test_stop_texts_and_the_settings_of_the_model_are_used(tmp_path, one_by_one):
    folder = save_model(tmp_path / "model", "llama", window=256)
    (folder / "generation_config.json").write_text('{"repetition_penalty": 1.7, "eos_token_id": 2}', encoding="utf-8")
    local = HuggingFace(str(folder))
    plainly = answers(local, "generate", [Generate(prompt, max_tokens=12) for prompt in PROMPTS])
    assert outcomes(plainly) == outcomes(one_by_one(folder, [Generate(prompt, max_tokens=12) for prompt in PROMPTS]))
    longest = max(range(len(PROMPTS)), key=lambda index: len(plainly[index].text.strip()))
    stop = plainly[longest].text.strip()[1:3]
    assert stop
    requests = [Generate(prompt, max_tokens=12, stop=(stop,)) for prompt in PROMPTS]
    stopped = answers(local, "generate", requests)
    assert shares(local)
    assert outcomes(stopped) == outcomes(one_by_one(folder, requests))
    assert stopped[longest].finish == "stop"
    assert stop not in stopped[longest].text


def test_what_has_ended_is_computed_no_further(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("llama")))
    requests = [Generate(prompt, max_tokens=12) for prompt in PROMPTS]
    lengths = [r.tokens_out for r in answers(local, "generate", requests)]
    grown = []
    honest = DecodingTree.append
    monkeypatch.setattr(
        DecodingTree, "append", lambda self, lines, tokens: (grown.append(len(lines)), honest(self, lines, tokens))[1]
    )
    answers(local, "generate", requests)
    assert min(lengths) < 12
    # An answer that ends has been computed up to the token that ends it.
    assert sum(grown) == sum(min(n + 1, 12) for n in lengths)


def test_prompts_that_have_little_in_common_are_batched_by_length(folder_of):
    generator = HuggingFace(str(folder_of("llama")))._engine._generator
    unlike = sorted((i, *range(20)) for i in range(5))
    same_beginning = sorted((*range(20), i) for i in range(5))
    assert generator._prefix_reader(unlike, 4) is None
    assert generator._prefix_reader(same_beginning, 4) is not None
    # Long answers outweigh what their prompts share.
    assert generator._prefix_reader(same_beginning, 400) is None


def test_a_batch_that_does_not_fit_into_memory_is_split(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("llama")))
    requests = [Generate(prompt, max_tokens=6) for prompt in PROMPTS]
    expected = outcomes(answers(local, "generate", requests))
    sizes = []
    honest = DecodingTree.append

    def small_machine(self, lines, tokens):
        sizes.append(len(lines))
        if len(lines) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return honest(self, lines, tokens)

    monkeypatch.setattr(DecodingTree, "append", small_machine)
    assert outcomes(answers(local, "generate", requests)) == expected
    assert sizes[0] > 2


def test_a_prompt_that_alone_does_not_fit_into_memory_is_an_error_of_its_own(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("llama")))
    requests = [Generate(prompt, max_tokens=2) for prompt in (*PROMPTS, PROMPTS[0] + " and the surgeons" * 8)]
    answers(local, "generate", requests)
    honest = DecodingTree.__init__

    def tiny_machine(self, walk, model, device, prompts, nodes):
        if max(map(len, prompts)) > max(len(local._word_tokenizer.tokenizer(p)["input_ids"]) for p in PROMPTS):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        honest(self, walk, model, device, prompts, nodes)

    monkeypatch.setattr(DecodingTree, "__init__", tiny_machine)
    *fine, failed = answers(local, "generate", requests)
    assert all(response.usable for response in fine)
    assert "out of memory" in failed.error


def test_a_prompt_beyond_the_window_is_reported_and_leaves_the_others_alone(folder_of):
    local = HuggingFace(str(folder_of("llama")))
    long, *others = answers(local, "generate", [Generate(p, max_tokens=4) for p in (PROMPTS[0] * 5, *PROMPTS)])
    assert (long.finish, long.usable) == ("too_long", False)
    assert long.tokens_in > 256
    assert all(response.usable for response in others)


# --- scoring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "llama", "opt", "qwen2", "mistral", "mamba"])
@pytest.mark.parametrize("batch_tokens", [1, 40, None])
def test_continuations_of_long_contexts_score_as_each_by_itself(folder_of, family, batch_tokens):
    requests = [LogProbs(prompt, word) for prompt in PROMPTS for word in (" laugh", " laughs near", " unpopular")]
    local = HuggingFace(str(folder_of(family)), batch_tokens=batch_tokens)
    alone = HuggingFace(str(folder_of(family)))
    responses = answers(local, "logprobs", requests)
    for request, response in list(zip(requests, responses, strict=True))[::5]:
        (expected,) = answers(alone, "logprobs", [request])
        assert response.answer.tokens == pytest.approx(expected.answer.tokens, abs=2e-4)


def test_contexts_that_share_a_beginning_are_read_once(folder_of):
    local = HuggingFace(str(folder_of("llama")), batch_tokens=40)
    requests = [LogProbs(prompt, word) for prompt in PROMPTS for word in (" laugh", " laughs near", " unpopular")]
    texts = [request.context + request.continuation for request in requests]
    # The end of a context, whose successor is asked for, may be read again.
    assert tokens_read(local, "logprobs", requests) <= distinct(local, texts) + len(requests)


def test_equal_texts_that_do_not_fit_into_memory_end_in_errors(folder_of, monkeypatch):
    local = HuggingFace(str(folder_of("gpt2")))
    requests = [LogProbs("The author", " laughs")] * 3
    answers(local, "logprobs", requests)

    def no_memory(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(causal, "logits_at", no_memory)
    assert all("out of memory" in response.error for response in answers(local, "logprobs", requests))
