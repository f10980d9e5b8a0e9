"""Tasks and models with options say what they are."""

from __future__ import annotations

import pytest

import lmassay


def test_the_repr_is_the_call():
    assert repr(lmassay.task("spelling", text="a", rates=[0.1])) == "task('spelling', text='a', rates=[0.1])"
    assert repr(lmassay.model("hf", model="gpt2")) == "model('hf', model='gpt2')"
    assert repr(lmassay.task(lmassay.Task, data=["a"] * 9)) == "task(Task, data=<9 items>)"


def test_the_repr_has_no_secrets():
    assert "sk-123" not in repr(lmassay.model("openai", api_key="sk-123", headers={"Authorization": "sk-1234567890"}))


def test_a_table_is_shown_by_its_columns():
    pandas = pytest.importorskip("pandas")
    task = lmassay.task("spelling", data=pandas.DataFrame({"a": [1, 2]}), empty=pandas.DataFrame())
    assert repr(task) == "task('spelling', data=<2 rows in memory: a>, empty=<no rows>)"


def test_a_column_of_numbers_can_be_shown():
    pandas = pytest.importorskip("pandas")
    assert repr(lmassay.task("spelling", data=pandas.Series([1, 2]))) == "task('spelling', data=<Series>)"
