"""Finding the noun that a verb agrees with, where the data do not name it."""

from __future__ import annotations

import pytest

from lmassay.evaluations.syntax.nouns import agreement_nouns
from tests.published_data import published_set

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


def agreement(singular, plural, *patterns):
    """Contexts of nouns given in both numbers; ``{noun}`` in a pattern is replaced."""
    rows = []
    for one, many in zip(singular.split(";"), plural.split(";"), strict=True):
        for pattern in patterns:
            rows += [(tuple(pattern.format(noun=one).split()), "singular")] * 6
            rows += [(tuple(pattern.format(noun=many).split()), "plural")] * 6
    return rows


def test_a_german_article_points_to_the_noun_behind_it():
    rows = agreement(
        "der Lehrer;der Bäcker;der Arzt;der Pilot",
        "die Lehrer;die Bäcker;die Ärzte;die Piloten",
        "{noun} , den wir sehen ,",
    )
    assert set(agreement_nouns(rows)) == {"lehrer", "bäcker", "arzt", "pilot"}


def test_two_forms_of_a_russian_noun_are_one():
    rows = agreement("автор;пилот;врач;отец", "авторы;пилоты;врачи;отцы", "{noun} перед агентами")
    assert set(agreement_nouns(rows)) == {"автор", "пилот", "врач", "отец"}


def test_two_forms_of_a_hebrew_noun_are_one():
    rows = agreement("מלצר;שומר;נהג", "מלצרים;שומרים;נהגים", "ה {noun}")
    assert set(agreement_nouns(rows)) == {"מלצר", "שומר", "נהג"}


def test_the_elided_article_of_french_does_not_hide_the_noun():
    rows = agreement("l' auteur;le pilote;le client", "les auteurs;les pilotes;les clients", "{noun} devant nous")
    assert set(agreement_nouns(rows)) == {"auteur", "pilote", "client"}


def test_unrelated_nouns_stay_apart():
    rows = agreement("человек;ребёнок;год", "люди;дети;лета", "{noun} здесь")
    assert len(set(agreement_nouns(rows))) == 6


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
def test_the_nouns_of_the_template_sets_are_found(file, nouns):
    from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, read_pair_file
    from lmassay.evaluations.syntax.pairs import open_pairs, split_at_difference

    pairs = read_pair_file(open_pairs(published_set("tse") / "ML" / f"{file}.jsonl"), BLIMP_FORMAT)
    rows = [(split_at_difference(p.good, p.bad).left, p.number) for p in pairs]
    inferred = agreement_nouns(rows)
    assert None not in inferred
    assert len(set(inferred)) == nouns
