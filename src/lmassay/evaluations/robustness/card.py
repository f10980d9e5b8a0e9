"""Robustness on the card (``lmassay card``): the runs that it needs, and its headline number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmassay.contracts import CardRequest, CardVariant, DataNeed
from lmassay.evaluations.robustness import evaluation
from lmassay.evaluations.robustness.coverage import GROUP, UNCHANGED
from lmassay.reporting.headline import Headline, ReferenceRow, ReferenceTable, value_with_interval
from lmassay.reporting.variants import pool
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.table import ScoreTable, score_table
from lmassay.storage.store import Store
from lmassay.types import RunRecord, Settings
from lmassay.types.wording import counted

_DATA = Path(__file__).parent / "card_data"
# The prompt shows examples, because a model without a chat template does not follow instructions.
_COMPLETE = """Complete each sentence with one word.

Sentence: A young horse is called a
Word: foal

Sentence: The opposite of fast is
Word: slow

Sentence: The capital of Norway is the city of
Word: Oslo

Sentence: {x}
Word:"""


def _attack(perturbation: str, **options: Any) -> dict[str, Any]:
    """An attack with one small change in every sentence, nearly always in a single word.

    At this rate most draws change nothing, so they are repeated until one does. A higher rate would change several
    words at once, and little would be left of a short sentence.
    """
    return {"name": perturbation, "perturb": perturbation, "rate": 0.03, "redraws": 100, **options}


# These attacks keep the meaning. Attacks on whole words do not: nobody can complete "The capital is the city of". Nor
# do deleted letters, which make other words ("day" becomes "da", "snow" becomes "now"). The attacked sentences were
# read one by one, which is why ``keyboard`` has this seed: with others, it spoils short words that the answer depends
# on ("coal" becomes "clal").
_QUICK = [_attack("charswap"), _attack("keyboard", seed=12), _attack("insert")]
_STANDARD = [*_QUICK, _attack("homoglyph")]
_FULL = [*_STANDARD, _attack("case", options={"letters": "one"}), _attack("diacritics")]
_ATTACKS: Mapping[str, Sequence[Any]] = {"quick": _QUICK, "standard": _STANDARD, "full": _FULL}
# An answer of one word is right or wrong, so d_tgt is 0 or 1. With a threshold of 1, every answer that turns wrong is
# a success, whatever is left of the input. TEAPOT's authors use 1.8 for such scores: s_src must be above 0.8.
_TARGET_SCORE = {"name": "exact_match", "quasi": True}
_THRESHOLD = 1.8
_QUICK_LIMIT = 40
_TRANSLATE = "Translate this sentence into English.\n\n{x}\n"


def variants(size: str) -> list[CardVariant]:
    """The runs of a card of this size: sentences to complete, under several attacks."""
    task = {
        "name": "robustness",
        "src": "facts.src",
        "ref": "facts.ref",
        "attack": list(_ATTACKS[size]),
        "s_src": "chrf",
        "s_tgt": _TARGET_SCORE,
        "success_threshold": _THRESHOLD,
        "prompt": _COMPLETE,
        "max_tokens": 6,
        "stop": ["\n"],
    }
    config: dict[str, Any] = {"task": task}
    if size == "quick":
        config["limit"] = _QUICK_LIMIT
    return [CardVariant(frozenset({"generate"}), config, _DATA)]


# --- on published data ------------------------------------------------------------------------------------------------

_QUESTIONS: Mapping[str, Any] = {
    # The categories that the card also asks about to measure bias.
    "en": {
        "name": "bbq",
        "category": [
            "Age",
            "Disability_status",
            "Nationality",
            "Physical_appearance",
            "Religion",
            "Sexual_orientation",
        ],
    },
    "ko": "kobbq",
    "es": "mbbq/es",
    "nl": "mbbq/nl",
    "tr": "mbbq/tr",
}
# Written for the card; those in languages other than English were not reviewed by native speakers.
_QUESTION_PROMPTS = {
    "en": "Read the text and answer the question with one of the choices.\n\n{x}\nChoices: {choices}\nAnswer:",
    "ko": "글을 읽고 보기 가운데 하나로 질문에 답하시오.\n\n{x}\n보기: {choices}\n정답:",
    "es": "Lee el texto y responde a la pregunta con una de las opciones.\n\n{x}\nOpciones: {choices}\nRespuesta:",
    "nl": "Lees de tekst en beantwoord de vraag met een van de opties.\n\n{x}\nOpties: {choices}\nAntwoord:",
    "tr": "Metni oku ve soruyu seçeneklerden biriyle yanıtla.\n\n{x}\nSeçenekler: {choices}\nYanıt:",
}
_SEED = 0
# Rows that are left out of the headline, because success on an unchanged input means nothing. Runs of early versions do
# not record the group, so all of their rows are used.
_NOT_ATTACKED = {GROUP: UNCHANGED}
# Below this share of right answers without attack, the headline says that few answers can break.
_FEW_RIGHT = 0.25
# Size of the card → the number of questions, one of each template; None for all templates.
_SAMPLE = {"quick": 36, "standard": 90, "full": None}
_MAX_ANSWER_TOKENS = 24


# Hangul has no upper case, no accents and no lookalike letters, so these attacks make up the card of every size.
_KOREAN_ATTACKS = [
    _attack("charswap"),
    _attack("keyboard", options={"layout": "dubeolsik"}),
    _attack("insert", options={"layout": "dubeolsik"}),
]


def _published_attacks(request: CardRequest) -> list[dict[str, Any]]:
    if request.language == "ko":
        return _KOREAN_ATTACKS
    return list(_ATTACKS[request.size])


def published_variants(request: CardRequest) -> list[CardVariant]:
    """The runs of a card on published questions whose answer is in the text, best variant first.

    A model that can be restricted to given choices must answer with one of them; any other model answers in words.
    """
    task: dict[str, Any] = {
        "name": "robustness",
        "questions": _QUESTIONS[request.language],
        "attack": _published_attacks(request),
        "s_src": "chrf",
        "s_tgt": _TARGET_SCORE,
        "success_threshold": _THRESHOLD,
        "prompt": _QUESTION_PROMPTS[request.language],
        "max_tokens": _MAX_ANSWER_TOKENS,
        "stop": ["\n"],
        "sample_seed": _SEED,
    }
    if _SAMPLE[request.size] is not None:
        task["sample"] = _SAMPLE[request.size]
    needs = (DataNeed(_QUESTIONS[request.language]),)
    with_choices = {**task, "answer_by": "choices"}
    return [
        CardVariant(frozenset({"generate", "choices"}), {"task": with_choices}, Path(), needs),
        CardVariant(frozenset({"generate"}), {"task": task}, Path(), needs),
    ]


def _asks_questions(record: RunRecord) -> bool:
    task = record.config["task"]
    return isinstance(task, Mapping) and task.get("questions") is not None


def _sample_note(record: RunRecord) -> list[str]:
    """How the questions were chosen, for published questions."""
    if not _asks_questions(record):
        return []
    seed = record.config["task"].get("sample_seed", _SEED)
    return [
        f"one question of each template, drawn at random with seed {seed}; the attacked texts were not checked by hand"
    ]


# --- the sample configuration and the number --------------------------------------------------------------------------


def sample_marks(model: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The prompt in the configuration of ``lmassay init``: a user's own class gets the sentence itself."""
    is_own_class = isinstance(model, str) and ".py:" in model
    return {"PROMPT": "{x}" if is_own_class else _TRANSLATE}


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The share of attacks that succeed, over all attacks together; unchanged inputs do not count."""
    if not records:
        return None
    together = pool(store, records, excluded=_NOT_ATTACKED)
    if not together.table.has("success"):
        return None
    # A sentence under several attacks is not several independent sentences.
    cluster = together.record.design.cluster if len(records) > 1 else None
    result = mean_result(together.table, "success", records[0].settings, cluster=cluster)
    has_right_and_wrong = records[0].result("turned_wrong") is not None
    # The score without attack is the same in the runs of all attacks.
    clean = mean_result(score_table(store, records[0].id), "s_out", records[0].settings)
    unchanged = 0
    for record in records:
        labels = score_table(store, record.id).groups.get(GROUP, [])
        unchanged += labels.count(UNCHANGED)
    further_values = []
    if has_right_and_wrong:
        further_values.append(_right_answers_that_turn_wrong(together.table, records[0].settings, cluster))
    if clean.value is not None:
        title = "right answers without attack" if has_right_and_wrong else "score without attack"
        further_values.append(f"{title}: {value_with_interval(clean)}")
    further_values += _sample_note(records[0])
    comparison_note = ""
    if has_right_and_wrong and clean.value is not None and clean.value < _FEW_RIGHT:
        # Only a right answer can turn wrong, so a model that knows nothing would look robust.
        comparison_note = "A model with few right answers cannot break often; compare the right answers first."
    attacked_inputs = counted(result.n, "attacked input")
    if unchanged:
        attacked_inputs += f" ({unchanged:,} unchanged left out)"
    scope = f"{attacked_inputs}, {counted(len(records), 'attack')}"
    if comparison_note:
        scope += f"; only {clean.value:.2f} of the answers without attack are right, so few can break"
    references: list[ReferenceTable] = []
    if _asks_questions(records[0]):
        guessing = ReferenceRow("guessing among three choices", 1 / 3)
        references.append(ReferenceTable("right answers without attack", [guessing], clean))
    return Headline(
        evaluation=evaluation,
        metric="success",
        result=result,
        scope=scope,
        details=further_values,
        meaning=_meaning(records[0], has_right_and_wrong),
        limits=f"{_strength(records)} Inputs the model already gets wrong cannot count as broken.".strip(),
        records=records,
        references=references,
        excluded=_NOT_ATTACKED,
        comparison_note=comparison_note,
    )


def _right_answers_that_turn_wrong(table: ScoreTable, settings: Settings, cluster: str | None) -> str:
    were_right = ~np.isnan(table.column("turned_wrong"))
    result = mean_result(table, "turned_wrong", settings, where=were_right, cluster=cluster)
    if result.value is None:
        return "right answers that turn wrong: there are no right answers"
    return f"right answers that turn wrong: {value_with_interval(result)} of {result.n:,}"


def _meaning(record: RunRecord, has_right_and_wrong: bool) -> str:
    threshold = float(record.depends_on.get("threshold", 1.0))
    if has_right_and_wrong and 1 < threshold < 2:
        # d_tgt is 1 for a right answer that turns wrong, so s_src must exceed the rest of the threshold.
        return (
            "The share of attacked inputs on which a right answer turns wrong although the input hardly changed "
            f"(similarity above {threshold - 1:.3g})."
        )
    return "The share of inputs for which the attack destroys more of the answer than of the input."


def _strength(records: Sequence[RunRecord]) -> str:
    """How strong these attacks are: drawn at random, or searched for; empty if they were read from files."""
    attacks = [str(record.depends_on.get("attack")) for record in records]
    if any(attack.startswith("file(") for attack in attacks):
        # Nobody knows how the attacked inputs in a file were made.
        return ""
    searched = sum("search(" in attack for attack in attacks)
    if searched == len(attacks):
        return "These attacks search for a weak spot among a few draws; others may find more."
    if searched:
        return "Some of these attacks are drawn at random, others search for a weak spot."
    return "These attacks are drawn at random; an attack that searches for a weak spot could do more harm."
