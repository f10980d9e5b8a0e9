"""Encodings of the running FewNLU: every task, mode, pattern and window, token for token."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from lmassay.errors import ConfigError, DataError
from lmassay.fewshot.tasks import open_task

TASKS = ("boolq", "cb", "copa", "multirc", "rte", "wic", "wsc")


@pytest.fixture(scope="module")
def gold(shared):
    return json.loads((shared / "gold" / "fewnlu" / "encodings_bert.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tasks(shared, tmp_path_factory):
    """FewGLUE's training files, and FewNLU's own one for WSC."""
    pairs = tmp_path_factory.mktemp("wsc")
    shutil.copy(shared / "gold" / "fewnlu" / "wsc_pairs_train.jsonl", pairs / "train.jsonl")
    fewglue = shared / "data" / "fewglue"
    return {name: open_task(name, pairs if name == "wsc" else fewglue) for name in (*TASKS, "record")}


def tokenizer(shared, name, **options):
    transformers = pytest.importorskip("transformers", reason="the hf extra is not installed")
    return transformers.AutoTokenizer.from_pretrained(shared / "gold" / "fewnlu" / name, **options)


@pytest.fixture(scope="module")
def bert(shared):
    return tokenizer(shared, "tiny_bert", do_lower_case=False)


@pytest.fixture(scope="module")
def albert(shared):
    return tokenizer(shared, "tiny_albert")


def training_examples(task):
    examples = task.examples("train")
    # FewNLU trains WSC on true referents only.
    return [e for e in examples if e.label == "True"] if task.name == "wsc" else examples


def parts_of(key):
    name, mode, pattern, window = key.split("/")
    return name, mode, int(pattern[1:]), int(window[1:])


def combinations(gold, name):
    found = {key: value for key, value in gold.items() if key.startswith(f"{name}/")}
    assert found
    return found.items()


@pytest.mark.parametrize("name", TASKS)
def test_every_encoding_equals_fewnlus(name, gold, tasks, bert):
    task = tasks[name]
    for key, expected in combinations(gold, name):
        if "error" in expected:
            continue
        _, mode, pattern, window = parts_of(key)
        pvp = task.pvp(bert, mode=mode, pattern_id=pattern, max_seq_length=window)
        encoded = [pvp.encode(example) for example in training_examples(task)]
        rows = [[e.ids, e.types, e.masks, e.prompts] for e in encoded]
        assert len(rows) == expected["n"], key
        assert [len(e.ids) for e in encoded] == expected["lens"], key
        if "first2" in expected:
            assert rows[:2] == [list(row) for row in expected["first2"]], key
        text = json.dumps(rows, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:16] == expected["sha"], key


@pytest.mark.parametrize("name", TASKS)
def test_every_verbalizer_equals_fewnlus(name, gold, tasks, bert):
    task = tasks[name]
    for key, expected in combinations(gold, name):
        if "verbalizers" in expected:
            _, mode, pattern, window = parts_of(key)
            pvp = task.pvp(bert, mode=mode, pattern_id=pattern, max_seq_length=window)
            assert {label: pvp.words(label) for label in task.labels} == expected["verbalizers"], key
            assert pvp.label_token_ids() == expected["m2c"], key


def test_patterns_that_fewnlu_declares_and_lacks_are_refused_with_those_there_are(gold, tasks, bert):
    missing = [key for key, value in gold.items() if "TypeError" in value.get("error", "")]
    assert len(missing) == 16
    for key in missing:
        name, mode, pattern, _ = parts_of(key)
        assert pattern not in tasks[name].patterns[mode]
        with pytest.raises(ConfigError, match=f"superglue/{name} has no {mode} pattern {pattern}; it has "):
            tasks[name].pvp(bert, mode=mode, pattern_id=pattern)


def test_what_does_not_fit_the_window_is_named_where_fewnlu_breaks_down(gold, tasks, bert):
    too_long = [key for key, value in gold.items() if "ValueError" in value.get("error", "")]
    assert {parts_of(key)[0] for key in too_long} == {"multirc"}
    for key in too_long:
        name, mode, pattern, window = parts_of(key)
        pvp = tasks[name].pvp(bert, mode=mode, pattern_id=pattern, max_seq_length=window)
        with pytest.raises(DataError, match=r"train-p\d+-q\d+-\d+: what may not be shortened has \d+ tokens"):
            [pvp.encode(example) for example in tasks[name].examples("train")]


def test_all_combinations_of_the_gold_are_covered(gold):
    assert len(gold) == 232
    assert {parts_of(key)[0] for key in gold} == set(TASKS)


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


def test_record_has_the_input_of_pet_but_for_the_choice_of_wrong_entities(shared, tasks, bert):
    # PET draws wrong entities in the order of a hash, so only the text around the masks can be compared.
    gold = json.loads((shared / "gold" / "fewnlu" / "pet_record.json").read_text(encoding="utf-8"))["train"]
    task = tasks["record"]
    pvp = task.pvp(bert, max_seq_length=512)
    ours = {tuple(i for i in pvp.encode(e).ids if i != bert.mask_token_id) for e in task.examples("train")}
    for ids in gold["input_ids"]:
        assert tuple(i for i in ids if i not in (bert.mask_token_id, bert.pad_token_id)) in ours
