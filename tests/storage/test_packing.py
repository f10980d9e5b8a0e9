"""Columns are read as they were packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.storage.packing import pack, unpack

# Includes lone surrogates, which a Python string may contain but UTF-8 may not.
TEXTS = st.text(st.characters(), max_size=20)
VALUES = st.one_of(st.none(), st.integers(), st.lists(TEXTS, max_size=3), TEXTS)


@given(st.dictionaries(TEXTS, st.lists(TEXTS, max_size=30), max_size=4))
def test_texts_are_read_as_they_were_packed(columns):
    assert unpack(pack(columns)) == columns


@given(st.lists(VALUES, max_size=30))
def test_other_values_are_read_as_they_were_packed(column):
    assert unpack(pack({"inputs/x": column})) == {"inputs/x": column}


@given(st.lists(st.sampled_from(["changed", "unchanged", "", "변경"]), max_size=30))
def test_labels_are_read_as_they_were_packed(labels):
    assert unpack(pack({"group": labels}, labels=["group"])) == {"group": labels}


@given(st.lists(st.floats(allow_infinity=False), max_size=30))
def test_numbers_are_read_to_the_last_bit(numbers):
    column = np.array(numbers, dtype=float)
    unpacked = unpack(pack({"s": column}))["s"]
    assert isinstance(unpacked, np.ndarray)
    assert unpacked.tobytes() == column.tobytes()


def test_a_range_is_read_as_a_list():
    assert unpack(pack({"line": range(1, 4)})) == {"line": [1, 2, 3]}


def test_a_number_that_json_does_not_have_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"inputs/x": [float("nan"), 1]})


def test_a_column_of_texts_is_a_sequence():
    texts = ["", "été", "강아지", "a\n"]
    (column,) = unpack(pack({"id": texts})).values()
    assert len(column) == 4
    assert [column[number] for number in range(-4, 4)] == [*texts, *texts]
    assert column[1:3] == texts[1:3]
    for outside in (4, -5):
        with pytest.raises(IndexError):
            column[outside]
