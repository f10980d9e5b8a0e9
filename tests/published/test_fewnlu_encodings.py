"""Encodings of the running FewNLU: every family, task, mode, pattern and window, token for token."""

from __future__ import annotations

import hashlib
import json

import pytest

from lmassay.errors import ConfigError, DataError, UserError
from tests.published import fewnlu_gold
from tests.published.fewnlu_gold import gold_task, of_families, tokenizer


def setup_module() -> None:
    """Import transformers when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")


TASKS = ("boolq", "cb", "copa", "multirc", "rte", "wic", "wsc")
KNOWN = of_families("encodings")
CASES = [(family, name) for family, keys in KNOWN.items() for name in sorted({key.split("/")[0] for key in keys})]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """FewGLUE's training files, and FewNLU's own one for WSC."""
    return {name: gold_task(name, tmp_path_factory.mktemp(name)) for name in (*TASKS, "record")}


@pytest.fixture(scope="module")
def words():
    """The tokenizer of a family."""
    made = {}
    return lambda family: made.setdefault(family, made.get(family) or tokenizer(family))


@pytest.fixture(scope="module")
def bert(words):
    return words("bert")


@pytest.fixture(scope="module")
def albert(words):
    return words("albert")


def training_examples(task):
    examples = task.examples("train")
    # FewNLU trains WSC on true referents only.
    return [e for e in examples if e.label == "True"] if task.name == "wsc" else examples


def parts_of(key):
    name, mode, pattern, window = key.split("/")
    return name, mode, int(pattern[1:]), int(window[1:])


def combinations(family, name):
    return [(key, value) for key, value in KNOWN[family].items() if key.startswith(f"{name}/")]


@pytest.mark.parametrize(("family", "name"), CASES)
def test_every_encoding_equals_fewnlus(family, name, tasks, words):
    task = tasks[name]
    for key, expected in combinations(family, name):
        if "error" in expected:
            continue
        _, mode, pattern, window = parts_of(key)
        pvp = task.pvp(words(family), mode=mode, pattern_id=pattern, max_seq_length=window)
        encoded = [pvp.encode(example) for example in training_examples(task)]
        rows = [[e.ids, e.types, e.masks, e.prompts] for e in encoded]
        assert len(rows) == expected["n"], key
        assert [len(e.ids) for e in encoded] == expected["lens"], key
        text = json.dumps(rows, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == expected["sha"], key


@pytest.mark.parametrize(("family", "name"), CASES)
def test_every_verbalizer_equals_fewnlus(family, name, tasks, words):
    task = tasks[name]
    for key, expected in combinations(family, name):
        if "verbalizers" in expected:
            _, mode, pattern, window = parts_of(key)
            pvp = task.pvp(words(family), mode=mode, pattern_id=pattern, max_seq_length=window)
            assert {label: pvp.words(label) for label in task.labels} == expected["verbalizers"], key
            assert pvp.label_token_ids() == expected["m2c"], key


@pytest.mark.parametrize("family", KNOWN)
def test_patterns_that_fewnlu_declares_and_lacks_are_refused_with_those_there_are(family, tasks, words):
    missing = [key for key, value in KNOWN[family].items() if "TypeError" in value.get("error", "")]
    assert len(missing) == 16
    for key in missing:
        name, mode, pattern, _ = parts_of(key)
        assert pattern not in tasks[name].patterns[mode]
        with pytest.raises(ConfigError, match=f"superglue/{name} has no {mode} pattern {pattern}; it has "):
            tasks[name].pvp(words(family), mode=mode, pattern_id=pattern)


@pytest.mark.parametrize("family", KNOWN)
def test_what_does_not_fit_the_window_is_named_where_fewnlu_breaks_down(family, tasks, words):
    too_long = [key for key, value in KNOWN[family].items() if "ValueError" in value.get("error", "")]
    for key in too_long:
        name, mode, pattern, window = parts_of(key)
        pvp = tasks[name].pvp(words(family), mode=mode, pattern_id=pattern, max_seq_length=window)
        with pytest.raises(DataError, match=r"train-\S+: the parts that may not be shortened have \d+ tokens"):
            [pvp.encode(example) for example in tasks[name].examples("train")]


@pytest.mark.parametrize("family", KNOWN)
def test_whatever_fewnlu_breaks_down_on_is_reported_plainly(family, tasks, words):
    def read(name, mode, pattern, window):
        pvp = tasks[name].pvp(words(family), mode=mode, pattern_id=pattern, max_seq_length=window)
        return [(pvp.encode(example), pvp.label_token_ids()) for example in tasks[name].examples("train")]

    for key, value in KNOWN[family].items():
        if "error" in value:
            with pytest.raises(UserError):
                read(*parts_of(key))


def test_all_combinations_of_the_gold_are_covered():
    assert "bert" in KNOWN
    for keys in KNOWN.values():
        assert len(keys) >= 232
        assert {parts_of(key)[0] for key in keys} == set(TASKS)


@pytest.mark.parametrize("name", [*TASKS, "record"])
def test_albert_reads_every_pattern_within_the_window(name, tasks, albert):
    task = tasks[name]
    examples = training_examples(task)[:3]
    for mode, patterns in task.patterns.items():
        for pattern in patterns:
            pvp = task.pvp(albert, mode=mode, pattern_id=pattern, max_seq_length=256)
            for example in examples:
                encoded = pvp.encode(example)
                assert len(encoded.ids) == len(encoded.types) <= 256
                assert encoded.ids[0] == albert.cls_token_id
                assert encoded.ids[-1] == albert.sep_token_id
                assert [p for p, token in enumerate(encoded.ids) if token == albert.mask_token_id] == encoded.masks
                assert len(encoded.masks) >= 1 if mode != "cls" else not encoded.masks
                assert len(encoded.masks) <= 1 or task.kind != "labels"
                assert len(encoded.prompts) == pvp.prompt_length == (pattern if mode == "ptuning" else 0)
                assert {encoded.ids[p] for p in encoded.prompts} <= {len(albert.get_vocab())}


def test_alberts_tokens_read_as_the_words_of_the_example(tasks, albert):
    task = tasks["wic"]
    example = task.examples("train")[0]
    encoded = task.pvp(albert, pattern_id=1).encode(example)
    text = albert.decode(encoded.ids, skip_special_tokens=True)
    for part in (example.text_a, example.text_b, "does feel have the same meaning in both sentences?"):
        assert part.lower() in text


def test_albert_knows_the_words_of_every_task(tasks, albert):
    for name in ("boolq", "cb", "multirc", "rte", "wic"):
        for pattern in tasks[name].patterns["cloze"]:
            ids = tasks[name].pvp(albert, pattern_id=pattern).label_token_ids()
            assert len(ids) == len(tasks[name].labels)
            assert all(ids)


def test_record_has_as_many_masks_as_its_longest_entity(tasks, bert):
    task = tasks["record"]
    pvp = task.pvp(bert, max_seq_length=512)
    for example in task.examples("train")[:5]:
        assert len(pvp.encode(example).masks) == max(map(len, pvp.choices(example)))


def test_record_has_the_input_of_pet_but_for_the_choice_of_wrong_entities(tasks, bert):
    # PET draws wrong entities in the order of a hash, so only the text around the masks can be compared.
    task = tasks["record"]
    pvp = task.pvp(bert, max_seq_length=512)
    ours = {tuple(i for i in pvp.encode(e).ids if i != bert.mask_token_id) for e in task.examples("train")}
    for ids in fewnlu_gold.record_training()["input_ids"]:
        assert tuple(i for i in ids if i not in (bert.mask_token_id, bert.pad_token_id)) in ours
