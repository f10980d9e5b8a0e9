"""Which token begins a continuation: right or refused, whatever the tokens look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import ModelError
from lmassay.models.api.alignment import continuation_start

TEXTS = st.text(alphabet="ab .,é나쁨\N{REPLACEMENT CHARACTER}\U0001f600", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("prompt", "tokens", "context", "start"),
    [
        ("The keys are", ["The", " keys", " are"], "The keys", 2),
        ("The keys are", ["<s>", "The", "keys", "are"], "The keys", 3),
        ("The keys are", [None, " keys", " are"], "The keys", 2),
        ("The keys are", [None, "The", " keys", " are"], "", 1),
        # A token that crosses the boundary belongs to the continuation.
        ("abcd", ["ab", "cd"], "abc", 1),
        # Parts of characters appear as U+FFFD, or only the last one shows the character.
        ("a:나", ["a", ":", "�", "�", "�"], "a:", 2),
        ("a:나", ["a", ":", "", "", "나"], "a:", 2),
        ("나쁨", ["�"] * 6, "나", 3),
    ],
)
def test_the_first_token_of_a_continuation_is_found(prompt, tokens, context, start):
    assert continuation_start(prompt, tokens, len(context)) == start


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (
            ["The", " key", " are"],
            "it returned ' are' where the prompt continues with 's are'",
        ),
        (["The", " keys"], "end before the prompt does: ' are' is missing"),
        (["The", " keys", " are", ""], "adds a token after the text"),
        (["he", " keys", " are"], "are not those of the prompt"),
        (["The", " keys", " are", "</s>"], "are not those of the prompt"),
    ],
)
def test_tokens_of_another_text_are_refused(tokens, message):
    with pytest.raises(ModelError, match=message):
        continuation_start("The keys are", tokens, 8)


@given(
    text=TEXTS,
    cuts=st.sets(st.integers(1, 40)),
    boundary=st.integers(0, 12),
    hides_first=st.booleans(),
    removes_spaces=st.booleans(),
)
def test_any_division_into_bytes_is_read_rightly_or_refused(text, cuts, boundary, hides_first, removes_spaces):
    content = text.encode()
    ends = [*sorted(cut for cut in cuts if cut < len(content)), len(content)]
    starts = [0, *ends[:-1]]
    tokens = [content[start:end].decode("utf-8", "replace") for start, end in zip(starts, ends, strict=True)]
    if removes_spaces:
        tokens = [token.removeprefix(" ") for token in tokens]
    shown = [None, *tokens[1:]] if hides_first else tokens
    context_bytes = len(text[:boundary].encode())
    expected = next((index for index, end in enumerate(ends) if end > context_bytes), len(ends))
    try:
        start = continuation_start(text, shown, min(boundary, len(text)))
    except ModelError as error:
        assert removes_spaces or "do not show where the continuation begins" in str(error)
    else:
        assert start == expected
