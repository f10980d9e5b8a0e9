"""Answers from files, looked up by role and line."""

import pytest

from lmassay.contracts import ask
from lmassay.errors import DataError
from lmassay.models.outputs import Outputs
from lmassay.types import Generate, SourceLocation
from tests.helpers import write_lines


@pytest.fixture
def model(tmp_path):
    return Outputs({"out": write_lines(tmp_path / "a", "abcde"), "adv_out": write_lines(tmp_path / "b", "vwxyz")})


def text(model, role, *lines):
    requests = [Generate(location=SourceLocation(role, line)) for line in lines]
    return "".join(response.text for _, response in ask(model, "generate", requests))


def test_lines_come_by_number_in_any_order(model):
    assert text(model, "out", 0, 1, 4) == "abe"
    assert text(model, "out", 3, 3, 1, 0) == "ddba"
    assert text(model, "adv_out", 2) == "x"


def test_the_identity_follows_the_contents(model, tmp_path):
    before = model.identity()
    write_lines(tmp_path / "a", "abcdX")
    assert Outputs({"out": tmp_path / "a", "adv_out": tmp_path / "b"}).identity() != before


@pytest.mark.parametrize(
    ("location", "message"),
    [(SourceLocation("none", 0), "role 'none'"), (None, "by line number"), (SourceLocation("out", 9), "no line 10")],
)
def test_a_request_that_no_line_answers_is_reported(model, location, message):
    with pytest.raises(DataError, match=message):
        list(ask(model, "generate", [Generate(location=location)]))


def test_files_of_different_length_and_no_files_are_refused(tmp_path, model):
    with pytest.raises(DataError, match="has no counterpart"):
        Outputs({"out": tmp_path / "a", "adv_out": write_lines(tmp_path / "c", "x")}).check()
    with pytest.raises(DataError, match="needs files"):
        Outputs({}).check()
