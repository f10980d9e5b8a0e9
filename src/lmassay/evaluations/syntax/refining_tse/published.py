"""The table of Newman et al. (2021): the sets of templates, and what four models score on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

METRICS = ("mw", "ew", "tse")
"""The metrics in the order of the table."""


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """A row of the table: the constructions of the data set ``tse`` that are pooled, and the scores by model."""

    title: str
    constructions: tuple[str, ...]
    scores: Mapping[str, tuple[str, str, str]]
    """Model → MW, EW and TSE as printed."""


_MODELS = ("bert-large-cased", "bert-large-uncased", "gpt2-xl", "roberta-large")


def _row(title: str, constructions: tuple[str, ...], *cells: str) -> TemplateSet:
    """A row of the table; each cell has MW, EW and TSE of a model."""
    scores: dict[str, tuple[str, str, str]] = {}
    for model, cell in zip(_MODELS, cells, strict=True):
        mw, ew, tse = cell.split()
        scores[model] = (mw, ew, tse)
    return TemplateSet(title, constructions, scores)


# By the names of the original's folders of configurations, in the order of the table (plots/latex_table.tex).
TEMPLATE_SETS: Mapping[str, TemplateSet] = {
    "ML_simple_agrmt": _row(
        "Simple",
        ("simple_agrmt",),
        "0.99 0.94 1.00",
        "0.98 0.90 1.00",
        "0.90 0.86 1.00",
        "0.98 0.93 1.00",
    ),
    "ML_sent_comp": _row(
        "In a sentential complement",
        ("sent_comp",),
        "0.92 0.67 0.89",
        "0.92 0.60 0.86",
        "0.96 0.65 0.89",
        "0.92 0.67 0.88",
    ),
    "ML_vp_coord": _row(
        "VP coordination",
        ("vp_coord", "long_vp_coord"),
        "0.91 0.89 0.90",
        "0.93 0.90 0.90",
        "0.89 0.87 0.97",
        "0.93 0.90 0.93",
    ),
    "ML_prep": _row(
        "Across prepositional phrase",
        ("prep_anim", "prep_inanim"),
        "0.91 0.83 0.93",
        "0.83 0.75 0.85",
        "0.84 0.76 0.96",
        "0.87 0.83 0.89",
    ),
    "ML_subj": _row(
        "Across subject relative clause",
        ("subj_rel",),
        "0.87 0.84 0.84",
        "0.88 0.84 0.85",
        "0.82 0.77 0.97",
        "0.76 0.72 0.80",
    ),
    "ML_obj": _row(
        "Across object relative clause",
        ("obj_rel_across_anim", "obj_rel_across_inanim"),
        "0.91 0.88 0.91",
        "0.86 0.80 0.85",
        "0.95 0.89 0.99",
        "0.88 0.85 0.91",
    ),
    "ML_obj_rel_no_comp_across": _row(
        "Across object relative (no that)",
        ("obj_rel_no_comp_across_anim", "obj_rel_no_comp_across_inanim"),
        "0.92 0.88 0.90",
        "0.79 0.72 0.81",
        "0.95 0.89 0.99",
        "0.86 0.82 0.89",
    ),
    "ML_obj_rel_within": _row(
        "In object relative clause",
        ("obj_rel_within_anim", "obj_rel_within_inanim"),
        "0.93 0.95 0.97",
        "0.95 0.97 0.99",
        "0.91 0.88 0.98",
        "0.89 0.91 0.97",
    ),
    "ML_obj_rel_no_comp_within": _row(
        "In object relative (no that)",
        ("obj_rel_no_comp_within_anim", "obj_rel_no_comp_within_inanim"),
        "0.90 0.91 0.92",
        "0.81 0.82 0.82",
        "0.91 0.88 0.97",
        "0.82 0.83 0.90",
    ),
    "blimp": _row(
        "BLiMP",
        (
            "distractor_agreement_relational_noun",
            "distractor_agreement_relative_clause",
            "irregular_plural_subject_verb_agreement_1",
            "regular_plural_subject_verb_agreement_1",
        ),
        "0.81 0.73 0.90",
        "0.78 0.69 0.85",
        "0.82 0.75 0.91",
        "0.70 0.66 0.78",
    ),
}
