"""Finding the noun that a verb agrees with, where the data do not name it."""

from __future__ import annotations

import pytest

from lmassay.evaluations.syntax.nouns import agreement_nouns

NOUNS = ["author", "pilot", "surgeon", "farmer", "chef"]


def both(noun):
    return ((noun, "singular"), (f"{noun}s", "plural"))


def contexts(pattern, times=6):
    rows = []
    for noun in NOUNS:
        for form, number in both(noun):
            for other in ("guard", "guards", "clerk", "clerks"):
                rows += [(tuple(pattern.format(form=form, other=other).split()), number)] * times
    return rows


def test_the_first_noun_is_found_across_a_phrase():
    rows = contexts("The {form} near the {other}")
    assert agreement_nouns(rows) == [left[1].removesuffix("s") for left, _ in rows]


def test_the_noun_inside_a_clause_is_found():
    rows = contexts("the {other} that the {form}")
    assert agreement_nouns(rows) == [left[4].removesuffix("s") for left, _ in rows]


def test_free_text_has_no_noun_that_comes_back():
    rows = [((f"The word{i}",), "singular" if i % 2 else "plural") for i in range(40)]
    assert agreement_nouns(rows) == [None] * 40


def test_contexts_of_one_number_tell_nothing():
    assert agreement_nouns([(("the", "author"), "singular")] * 20) == [None] * 20


@pytest.mark.parametrize(
    ("file", "nouns"),
    [
        ("simple_agrmt_all", 10),
        ("prep_anim_all", 10),
        ("prep_inanim_all", 9),
        ("subj_rel_all", 10),
        ("sent_comp_all", 10),
        ("obj_rel_within_anim_all", 10),
        ("obj_rel_across_inanim_all", 9),
        ("vp_coord_all", 10),
    ],
)
def test_the_nouns_of_the_template_sets_are_found(shared, file, nouns):
    from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, read_pair_file
    from lmassay.evaluations.syntax.pairs import open_pairs, split_at_difference

    pairs = read_pair_file(open_pairs(shared / "data" / "tse" / "ML" / f"{file}.jsonl"), BLIMP_FORMAT)
    rows = [(split_at_difference(p.good, p.bad).left, p.number) for p in pairs]
    found = agreement_nouns(rows)
    assert None not in found
    assert len(set(found)) == nouns
