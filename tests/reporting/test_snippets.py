"""Texts in a column show what distinguishes them."""

from __future__ import annotations

import doctest

from lmassay.reporting import snippets
from lmassay.reporting.snippets import distinct_parts

STORY = "The pensioner and the student were waiting at the counter of the library on a rainy day."


def test_instructions_that_all_prompts_share_are_left_out():
    prompts = [f"Answer with one letter.\n\n{question}" for question in ("Who left?", "What is it?")]
    assert distinct_parts(prompts, 100) == ["… Who left?", "… What is it?"]


def test_a_text_that_begins_like_the_one_above_goes_on_where_they_differ():
    texts = [f"{STORY} {question}" for question in ("Who was late?", "Who was early?")] + ["Another story."]
    first, second, third = distinct_parts(texts, 300)
    assert first == texts[0]
    assert second == "The pensioner … early?"
    assert third == "Another story."


def test_equal_empty_and_single_texts_are_shown_from_their_beginning():
    assert distinct_parts([STORY, STORY], 300) == [STORY, STORY]
    assert distinct_parts([STORY], 300) == [STORY]
    assert distinct_parts(["", STORY], 10) == ["", "The pensio…"]
    assert distinct_parts([], 10) == []


def test_one_text_that_is_the_beginning_of_another_is_not_emptied():
    assert distinct_parts([STORY, f"{STORY} More."], 300) == [STORY, "The pensioner … day. More."]


def test_texts_in_a_script_without_spaces_are_cut_where_they_differ():
    instructions = "请阅读下面的句子，然后判断谁离开了图书馆，并且用一个字母回答这个问题，最后说明你为什么这样回答。"
    assert distinct_parts([f"{instructions}张三走了。", f"{instructions}李四来了。"], 20) == [
        "… 张三走了。",
        "… 李四来了。",
    ]


def test_the_example_in_the_docstring_is_right():
    assert doctest.testmod(snippets).failed == 0
