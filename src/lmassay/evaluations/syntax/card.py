"""Syntax on the card (``lmassay card``): the runs that it needs, and its headline number.

The metrics TSE, EW and MW are defined in :mod:`.metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.contracts import CardRequest, CardVariant, DataNeed
from lmassay.datasets.catalogue import catalogue
from lmassay.evaluations.syntax import evaluation
from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.evaluations.syntax.metrics import MEAN_OF_CONSTRUCTIONS, VERB_PAIR
from lmassay.evaluations.syntax.refining_tse.published import TEMPLATE_SETS
from lmassay.reporting.headline import Headline, ReferenceRow, ReferenceTable, value_with_interval
from lmassay.statistics.observations import counted_labels
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.wording import counted

_CONSTRUCTIONS = {
    "Simple": "english:simple",
    "In a sentential complement": "english:sentential_complement",
    "VP coordination": ["english:vp_coordination", "english:long_vp_coordination"],
    "Across prepositional phrase": "english:across_pp",
    "Across subject relative clause": "english:across_subject_relative",
    "Across object relative clause": "english:across_object_relative",
    "In object relative clause": "english:in_object_relative",
}
_COMPARED_OVER_CONTEXTS = (
    "Agreement (MW): the difference is between means over contexts, not between means over constructions."
)
_MAX_PAIRS = {"quick": 40, "standard": 100, "full": 400}


def variants(size: str) -> list[CardVariant]:
    """Return how the card tests agreement in seven constructions, best variant first.

    A model that can rank words is tested at the verb, any other model by whole sentences.
    """
    shared: dict[str, Any] = {"data": _CONSTRUCTIONS, "max_per_file": _MAX_PAIRS[size]}
    blanks = {"name": "syntax", **shared}
    sentences = {"name": "minimal_pairs", **shared, "clusters": "noun"}
    folder = Path(__file__).parent
    return [
        CardVariant(frozenset({"slot"}), {"task": blanks}, folder),
        CardVariant(frozenset({"logprobs"}), {"task": sentences}, folder),
    ]


# --- on published data ------------------------------------------------------------------------------------------------

_SEED = 0
# Size of the card → the number of pairs of each file, drawn at random; None for all of them.
_CONSTRUCTION_PAIRS = {"quick": 15, "standard": 60, "full": 400}
_BLIMP_PAIRS = {"quick": 6, "standard": 30, "full": None}
_CLAMS_PAIRS = {"quick": 40, "standard": 200, "full": None}
_RUBLIMP_PAIRS = {"quick": 8, "standard": 40, "full": None}
_SENTENCES_BY_LANGUAGE: Mapping[str, Mapping[str, Mapping[str, int | None]]] = {
    "de": {"clams/de": _CLAMS_PAIRS},
    "fr": {"clams/fr": _CLAMS_PAIRS},
    "he": {"clams/he": _CLAMS_PAIRS},
    "ja": {"jblimp": {"quick": None, "standard": None, "full": None}},
    "ru": {"rublimp": _RUBLIMP_PAIRS, "clams/ru": _CLAMS_PAIRS},
}


def published_variants(request: CardRequest) -> list[CardVariant]:
    """Return how the card tests grammar on published data, best variant first.

    English: the constructions of refining-tse at the verb, and BLiMP by whole sentences. A model that cannot rank words
    is given whole sentences of both; a model that can only rank words is given the constructions alone. Other
    languages: whole sentences.
    """
    if request.language != "en":
        tasks = []
        for data, pairs in _SENTENCES_BY_LANGUAGE[request.language].items():
            tasks.append(_sentences(data, pairs[request.size]))
        needs = tuple(DataNeed(data) for data in _SENTENCES_BY_LANGUAGE[request.language])
        return [CardVariant(frozenset({"logprobs"}), {"task": tasks}, Path(), needs)]
    constructions = published_constructions()
    blanks = _sampled({"name": "syntax", "data": constructions}, _CONSTRUCTION_PAIRS[request.size])
    sentences = _sentences(constructions, _CONSTRUCTION_PAIRS[request.size])
    blimp = _sentences("blimp", _BLIMP_PAIRS[request.size])
    tse_data = DataNeed("tse")
    blimp_data = DataNeed("blimp")
    return [
        CardVariant(frozenset({"slot", "logprobs"}), {"task": [blanks, blimp]}, Path(), (tse_data, blimp_data)),
        CardVariant(frozenset({"slot"}), {"task": [blanks]}, Path(), (tse_data,)),
        CardVariant(frozenset({"logprobs"}), {"task": [blimp, sentences]}, Path(), (tse_data, blimp_data)),
    ]


def published_constructions() -> dict[str, str | list[str]]:
    """The sets of templates in the table of Newman et al. (2021), with their files in the data set."""
    constructions: dict[str, str | list[str]] = {}
    for name, template_set in TEMPLATE_SETS.items():
        folder = name
        ending = ""
        if name.startswith("ML"):
            # The sets from Marvin and Linzen share a folder, and their files have a common ending.
            folder = "ML"
            ending = "_all"
        files: list[str] = []
        for construction in template_set.constructions:
            files.append(f"data:tse/{folder}/{construction}{ending}.jsonl")
        constructions[template_set.title] = files
    return constructions


def _sentences(data: object, pairs: int | None) -> dict[str, Any]:
    return _sampled({"name": "minimal_pairs", "data": data}, pairs)


def _sampled(task: Mapping[str, Any], pairs: int | None) -> dict[str, Any]:
    """A task with a random sample of the pairs of each file."""
    if pairs is None:
        return dict(task)
    return {**task, "max_per_file": pairs, "sample_seed": _SEED}


def _task_options(record: RunRecord) -> Mapping[str, Any]:
    task = record.config["task"]
    return task if isinstance(task, Mapping) else {}


def _sample_note(record: RunRecord) -> list[str]:
    """How the pairs were chosen, if they were drawn at random."""
    options = _task_options(record)
    pairs = options.get("max_per_file")
    seed = options.get("sample_seed")
    if pairs is None or seed is None:
        return []
    return [f"at most {counted(pairs, 'pair')} of each file of the data, drawn at random with seed {seed}"]


_CHANCE = ReferenceRow("guessing", 0.5)
_NEWMAN = "Newman et al. 2021, mean of the printed figures of these constructions"
_MODEL_TITLES = {
    "bert-large-cased": "BERT-large cased",
    "bert-large-uncased": "BERT-large uncased",
    "gpt2-xl": "GPT2-XL",
    "roberta-large": "RoBERTa-large",
}


def _paper_references(constructions: Sequence[Result]) -> list[ReferenceTable]:
    """MW of the four models in the paper, if all constructions of the run are those of its table."""
    names = {result.group.removeprefix("construction=") for result in constructions}
    # A mean over other constructions than the paper's would not be comparable.
    template_sets = [template_set for template_set in TEMPLATE_SETS.values() if template_set.title in names]
    if not names or len(template_sets) < len(names):
        return []
    rows = []
    for model, title in _MODEL_TITLES.items():
        values = [float(template_set.scores[model][0]) for template_set in template_sets]
        rows.append(ReferenceRow(title, sum(values) / len(values), _NEWMAN))
    return [ReferenceTable(f"agreement (MW), {_constructions_in_words(len(names))}", [*rows, _CHANCE])]


# Accuracies over all paradigms, from the published results by paradigm (`lmassay reproduce` computes them again).
_BLIMP_MODELS = {"Transformer-XL": 0.696, "LSTM": 0.698, "5-gram": 0.612}
_WARSTADT = "Warstadt et al. 2020"
_BLIMP_SIZE = 67_000
# Someya and Oseki (2023), in percent.
_JBLIMP = {"people": 90.90, "GPT-2 large": 77.95, "GPT-2 small": 76.54, "LSTM": 75.73, "n-gram": 74.02}
_JBLIMP_SIZE = 331


def _sentence_references(record: RunRecord, own: Result) -> list[ReferenceTable]:
    """Published accuracies on the same data set."""
    data = _task_options(record).get("data")
    if data == "blimp":
        members = paradigms().values()
        human = sum(paradigm.human for paradigm in members) / len(members)
        gpt2 = sum(paradigm.gpt2 for paradigm in members) / len(members)
        rows = [
            ReferenceRow("people", human, f"{_WARSTADT}, about 100 answers per paradigm"),
            ReferenceRow("GPT-2", gpt2, _WARSTADT, _BLIMP_SIZE),
        ]
        for model, accuracy in _BLIMP_MODELS.items():
            rows.append(ReferenceRow(model, accuracy, _WARSTADT, _BLIMP_SIZE))
        return [ReferenceTable("accuracy on BLiMP", [*rows, _CHANCE], own)]
    if data == "jblimp":
        rows = []
        for model, percent in _JBLIMP.items():
            rows.append(ReferenceRow(model, percent / 100, "Someya and Oseki 2023", _JBLIMP_SIZE))
        return [ReferenceTable("accuracy on JBLiMP", [*rows, _CHANCE], own)]
    if isinstance(data, str) and data.partition("/")[0] in ("clams", "rublimp"):
        return [ReferenceTable(f"accuracy on {data}", [_CHANCE], own)]
    return []


# --- the number -------------------------------------------------------------------------------------------------------


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return MW of the latest run: the mean over its constructions, or that of the only one. Without MW, return TSE."""
    if not records:
        return None
    record = records[-1]
    # In the overall result a construction counts by its contexts, so one that comes from two files would count twice.
    has_several = record.result("mw", MEAN_OF_CONSTRUCTIONS) is not None
    group = MEAN_OF_CONSTRUCTIONS if has_several else OVERALL
    result = record.result("mw", group)
    if result is None:
        return None
    if result.value is None:
        # Without a verb list, as for data in other languages, there is TSE only.
        return _tse_headline(record, group)
    constructions = _constructions(record, "mw")
    tse = record.result("tse", group)
    verb_pairs = ""
    if tse is not None and VERB_PAIR in tse.clusters:
        verb_pairs = f", {counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)}"
    comparison_note = ""
    references: list[ReferenceTable] = []
    if has_several:
        comparison_note = _COMPARED_OVER_CONTEXTS
        references = _paper_references(constructions)
    return Headline(
        evaluation=evaluation,
        metric="mw",
        result=result,
        scope=f"{result.n:,} contexts, {_constructions_in_words(len(constructions))}",
        details=[
            *_range_note(constructions),
            f"all verbs weighted equally (EW): {value_with_interval(record.result('ew', group))}",
            f"on the given pairs of verbs (TSE{verb_pairs}): {value_with_interval(tse)}",
            *_sample_note(record),
        ],
        meaning="A verb sampled from the model's predictions agrees with its subject this often; chance is one half.",
        limits="This tests one rule of grammar, agreement in number, in sentences made from templates.",
        comparison_note=comparison_note,
        references=references,
        records=[record],
    )


def _tse_headline(record: RunRecord, group: str) -> Headline | None:
    """Return TSE of a run that has no MW; None if it has neither."""
    tse = record.result("tse", group)
    if tse is None or tse.value is None:
        return None
    constructions = [result for result in _constructions(record, "tse") if result.value is not None]
    verb_pairs = ""
    if VERB_PAIR in tse.clusters:
        verb_pairs = f", {counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)}"
    return Headline(
        evaluation=evaluation,
        metric="tse",
        result=tse,
        scope=f"{counted(tse.n, 'pair')}{verb_pairs}, {_constructions_in_words(len(constructions))}",
        details=_range_note(constructions),
        meaning="Of two given forms of a verb, the one that agrees is more probable this often; chance is one half.",
        limits="There is no verb list for these data, so nothing is known about verbs other than those of the pairs.",
        records=[record],
    )


def _constructions(record: RunRecord, metric: str) -> list[Result]:
    """Return the results of a metric by construction."""
    constructions = []
    for result in record.results:
        # A group with a comma is a construction split by number.
        if result.metric == metric and result.group.startswith("construction=") and "," not in result.group:
            constructions.append(result)
    return constructions


def _constructions_in_words(count: int) -> str:
    return f"mean of {count} constructions" if count > 1 else "1 construction"


def _range_note(constructions: Sequence[Result]) -> list[str]:
    """Say how much constructions differ, which the interval does not show."""
    values = [result.value for result in constructions if result.value is not None]
    if len(values) < 2:
        return []
    return [
        f"constructions range from {min(values):.2f} to {max(values):.2f}; the interval is for other nouns in these "
        "constructions, not for other constructions"
    ]


def sentences_headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return the accuracy of the latest run on whole sentences."""
    if not records:
        return None
    record = records[-1]
    result = record.result("accuracy")
    if result is None:
        return None
    return Headline(
        evaluation=evaluation,
        metric="accuracy",
        result=result,
        scope=f"{counted(result.n, 'pair')}{_named_data(record)}",
        details=_sample_note(record),
        references=_sentence_references(record, result),
        meaning="Of the two sentences of a minimal pair, the grammatical one is more probable this often; chance is "
        "one half.",
        limits="Which of two sentences is more probable says little about what the model would write.",
        records=[record],
    )


def _named_data(record: RunRecord) -> str:
    """The data set, if it is a published one."""
    data = _task_options(record).get("data")
    if isinstance(data, str) and data.partition("/")[0] in catalogue().entries:
        return f" of {data}"
    return ""
