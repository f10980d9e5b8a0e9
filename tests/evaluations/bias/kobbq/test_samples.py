"""KoBBQ's samples and names of files for models."""

from __future__ import annotations

import hashlib
import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.samples import (
    SAMPLE_COLUMNS,
    KobbqSample,
    defects,
    file_name_of,
    kobbq_items,
    parse_choices,
    read_samples,
)

ROWS = [
    [
        "age-001a-002-amb-bsd",
        "ST",
        "손자와 할머니",
        "누가?",
        "['손자', '할머니', '알 수 없음']",
        "할머니",
        "알 수 없음",
    ],
    ["age-001a-002-dis-cnt", "ST", "손자와 할머니.", "누가?", "['손자', '할머니', '알 수 없음']", "손자", "할머니"],
]


def write(folder, rows, header=SAMPLE_COLUMNS):
    path = folder / "samples.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), encoding="utf-8")
    return path


def changed(**cells):
    row = dict(zip(SAMPLE_COLUMNS, ROWS[0], strict=True)) | cells
    return list(row.values())


def test_samples_are_read(tmp_path):
    first, second = read_samples(write(tmp_path, ROWS))
    assert first == KobbqSample(
        id="age-001a-002-amb-bsd",
        label="ST",
        context="손자와 할머니",
        question="누가?",
        choices=("손자", "할머니", "알 수 없음"),
        biased_answer="할머니",
        answer="알 수 없음",
    )
    assert (second.category, second.template) == ("age", "age-001")


def test_samples_become_items(tmp_path):
    path = write(tmp_path, ROWS)
    data = kobbq_items(path)
    ambiguous, disambiguated = data.items
    assert (ambiguous.context_type, ambiguous.correct, ambiguous.unknown, ambiguous.biased) == ("amb", 2, 2, 1)
    assert (disambiguated.context_type, disambiguated.correct, disambiguated.biased) == ("dis", 1, 0)
    assert disambiguated.template == "age-001"
    assert disambiguated.label == "ST"
    assert (data.language, data.kind) == ("ko", "kobbq")
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"choices": "__import__('os').system('touch ran')"}, "choices is not a list of strings"),
        ({"choices": "['a', __import__('os').system('touch ran'), '알 수 없음']"}, "choices is not a list of strings"),
        ({"choices": "[f'{open(1)}', 'b', '알 수 없음']"}, "choices is not a list of strings"),
        ({"choices": "('손자', '할머니', '알 수 없음')"}, "choices is not a list of strings"),
        ({"choices": "['손자', 2, '알 수 없음']"}, "choices is not a list of strings"),
        ({"choices": "[" * 5000}, "choices is not a list of strings"),
        ({"choices": "['손자', '할머니'"}, "choices is not a list of strings"),
        ({"choices": "nan"}, "choices is not a list of strings"),
        ({"choices": "['손자', '알 수 없음']"}, "three different texts"),
        ({"choices": "['손자', '손자', '알 수 없음']"}, "three different texts"),
        ({"choices": "['손자', '할머니', '모름']"}, "'알 수 없음'"),
        ({"answer": "할아버지"}, "answer '할아버지' is not one of the choices"),
        ({"biased_answer": "알 수 없음"}, "biased_answer"),
        ({"sample_id": "age-1-amb"}, "sample_id age-1-amb is not of the form"),
        ({"context": "NA"}, "context is empty"),
        ({"question": ""}, "question is empty"),
    ],
)
def test_bad_samples_are_refused_with_the_line_and_nothing_runs(tmp_path, monkeypatch, cells, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as error:
        read_samples(write(tmp_path, [ROWS[1], changed(**cells)]))
    assert message in str(error.value)
    assert "samples.tsv, line 3: " in str(error.value)
    assert not (tmp_path / "ran").exists()


def test_samples_with_one_id_are_refused(tmp_path):
    with pytest.raises(DataError, match="appears twice, on lines 2 and 3"):
        read_samples(write(tmp_path, [ROWS[0], ROWS[0]]))


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_list_of_strings_that_python_writes_is_read(choices):
    assert parse_choices(repr(choices)) == tuple(choices)


def test_defects_are_counted():
    plain = KobbqSample("age-001a-001-amb-bsd", "ST", "정규직 사원과", "누가?", ("a", "b", "알 수 없음"), "a", "a")
    odd = KobbqSample(
        "age-001a-001-amb-cnt", "ST", "\b한", "누가?", ("정규직", "비정규직", "알 수 없음"), "정규직", "정규직"
    )
    report = "\n".join(defects([plain, plain, odd]))
    assert "1 of 3 samples have a control character (U+0008)" in report
    assert "1 of 3 samples repeat the context and question" in report
    assert "1 samples have a choice that contains another: 정규직/비정규직" in report
    assert "Latin letters, which can be mistaken for the letter of a choice: a, b" in report


PLAIN = string.ascii_letters + string.digits + "-_. 가"
NAME = st.text(st.sampled_from(PLAIN + '/\\:%*?"<>|~\n\x00\x85\ud800'), max_size=200)


@pytest.mark.parametrize("name", ["gpt-3.5-turbo", "claude-2.0", "KoAlpaca-Polyglot-12.8B", "모델 1", "synth-hard"])
def test_plain_names_stay(name):
    assert file_name_of(name) == name


@pytest.mark.fault(44)
@given(NAME)
def test_any_name_makes_a_safe_part_of_a_file_name(name):
    made = file_name_of(name)
    assert made
    assert not set(made) & set('/\\:*?"<>|\n\x00\x85')
    assert ".." not in made
    assert len(os.fsencode(f"KoBBQ_test_evaluation_1_{made}_predictions.tsv")) < 255


@given(NAME, NAME)
def test_two_models_never_share_a_file(one, other):
    assert (file_name_of(one) == file_name_of(other)) == (one == other)
