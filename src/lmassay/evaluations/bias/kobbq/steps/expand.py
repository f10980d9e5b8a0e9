"""Step 0: make KoBBQ's samples from its templates: every combination of the words that a template offers.

A template has slots such as ``[N1: 손자와, 손녀와]``, each with a name and a list of words. The names stand for two
people (N1, N2), shared wording (W1, W2), and wording that belongs to one of the people (X1, X2). Several slots may have
the same name; their lists have the same words with the Korean particles that each sentence needs. In one sample, all
slots with the same name use the word at the same index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.pandas_output import as_pandas_rewrites, lines
from lmassay.evaluations.bias.kobbq.samples import (
    BACKSPACE,
    OPTIONAL_COLUMNS,
    SAMPLE_COLUMNS,
    UNKNOWN,
    KobbqSample,
    defects,
)
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, first_few, read_table
from lmassay.redaction import excerpt

RELEASED_BLOB = "31fe1237c1ba4876d51bbcc9c1822f122299ab56"
"""The id that git gives to the content of KoBBQ_all_samples.tsv as its authors released it."""

_TEXT_COLUMNS = (
    "Ambiguous_context",
    "Disambiguating_context",
    "Biased_question",
    "Counter-biased_question",
    "Biased_question_answer",
    "Counter-biased_question_answer",
)
_COLUMNS = ("Category", "ID", "version", "Label_annotation", *_TEXT_COLUMNS, "BBQ_id", "BBQ_category")
_SLOT = re.compile(r"\[(N1|N2|W1|W2|X1|X2):([^\]]*)\]")
_UNREADABLE_SLOT = re.compile(r"\[[^\]]*\]?")
# The categories in the order of the released file; it is not alphabetical.
_CATEGORY_ORDER = (
    "age",
    "disability_status",
    "gender_identity",
    "physical_appearance",
    "race_ethnicity_nationality",
    "religion",
    "ses",
    "sexual_orientation",
    "domestic_area_of_origin",
    "family_structure",
    "political_orientation",
    "educational_background",
)


def _names_another_relative(sample: KobbqSample) -> bool:
    for choice in sample.choices:
        # "이웃의 …": a relative of the neighbour.
        if choice == UNKNOWN or not choice.startswith("이웃의"):
            continue
        relative = choice.split()[-1]
        if relative not in sample.context:
            return True
    return False


def _lacks_space(sample: KobbqSample) -> bool:
    # "명은" ends a subject such as "one of them", so a space must follow.
    return re.search(r"명은\S", sample.context) is not None


def _turns_candidate_into_woman(sample: KobbqSample) -> bool:
    return "후보자" in sample.context and any(choice.endswith("여자") for choice in sample.choices)


# Errors in the released templates that only a human reader notices: template → what is wrong, and a function that
# returns whether a sample has the error.
_KNOWN_ERRORS: Mapping[str, tuple[str, Callable[[KobbqSample], bool]]] = {
    "disability_status-002a": ("name another relative in the answer than in the context", _names_another_relative),
    "ses-001b": ("lack a space before a person", _lacks_space),
    "physical_appearance-016": (
        "speak of a candidate (후보자) in the context and of a woman (여자) in the answers",
        _turns_candidate_into_woman,
    ),
}


@dataclass(frozen=True, slots=True)
class KobbqTemplate:
    """A row of the templates file."""

    id: str
    label: str
    texts: tuple[str, ...]
    bbq_id: str
    bbq_category: str
    sizes: Mapping[str, int]
    """Name of a slot → how many words it offers: the length of the shortest of its lists."""
    uneven: bool
    """Whether lists of slots with the same name differ in length, so that some words are never used."""

    @property
    def version(self) -> str:
        """The letter of the version, which is the last character of the id."""
        return self.id[-1]


@dataclass(frozen=True, slots=True)
class Expansion:
    """The samples of all templates, in the order of the released file.

    ``bbq`` has, for each sample, the id and the category of the BBQ template from which it was derived.
    """

    templates: Sequence[KobbqTemplate]
    samples: Sequence[KobbqSample]
    bbq: Sequence[tuple[str, str]]

    def text(self) -> str:
        """Return the text of the samples file."""
        header = (*SAMPLE_COLUMNS, *OPTIONAL_COLUMNS)
        bbq_ids = as_pandas_rewrites([bbq_id for bbq_id, _ in self.bbq])
        rows = []
        for sample, bbq_id, (_, bbq_category) in zip(self.samples, bbq_ids, self.bbq, strict=True):
            row = (
                sample.id,
                sample.label,
                sample.context,
                sample.question,
                # KoBBQ's files contain the choices as Python writes a list.
                repr(list(sample.choices)),
                sample.biased_answer,
                sample.answer,
                bbq_id,
                bbq_category,
                # The column "prediction", which later steps fill in.
                "",
            )
            rows.append(row)
        columns = list(zip(*rows, strict=True))
        return "".join(lines(header, columns))

    def defects(self) -> Iterator[str]:
        """Describe and count the defects of the published data. They are only reported; the samples are not changed."""
        yield from defects(self.samples)
        uneven = [template.id for template in self.templates if template.uneven]
        if uneven:
            yield f"{len(uneven)} templates have a slot whose lists differ in length: {first_few(uneven, 8)}"
        for template, (problem, has_problem) in _KNOWN_ERRORS.items():
            samples_of_template = [sample for sample in self.samples if sample.id.startswith(template)]
            count = sum(map(has_problem, samples_of_template))
            if count:
                yield f"{count} samples of {template} {problem}"


def expand(path: Path) -> Expansion:
    """Make every sample of a templates file."""
    table = read_table(path, "templates", _COLUMNS)
    templates = list(_read_templates(table))
    samples_with_template: list[tuple[KobbqSample, KobbqTemplate]] = []
    for template in templates:
        for sample in _samples(template):
            samples_with_template.append((sample, template))
    samples_with_template.sort(key=lambda pair: (_category_rank(pair[1]), pair[0].id))
    samples = []
    bbq = []
    for sample, template in samples_with_template:
        samples.append(sample)
        bbq.append((template.bbq_id, template.bbq_category))
    return Expansion(templates, samples, bbq)


def _category_rank(template: KobbqTemplate) -> tuple[int, str]:
    """Return a sort key: the place of the category in the released file; others follow in alphabetical order."""
    category, _, _ = template.id.rpartition("-")
    if category in _CATEGORY_ORDER:
        return _CATEGORY_ORDER.index(category), category
    return len(_CATEGORY_ORDER), category


def _read_templates(table: TsvTable) -> Iterator[KobbqTemplate]:
    """Yield the templates of a file; a DataError names the first line that cannot be read."""
    seen: set[str] = set()
    columns = [table.column(name) for name in _COLUMNS]
    for row, cells in enumerate(zip(*columns, strict=True)):
        category, number, version, label, *texts, bbq_id, bbq_category = cells
        is_number = number.isascii() and number.isdigit()
        if not category or not is_number or version not in ("a", "b", "c", "d"):
            raise DataError(f"{table.where(row)}: Category, ID and version must be a name, a number and a, b, c or d")
        template_id = f"{category.lower()}-{int(number):03d}{version}"
        if template_id in seen:
            raise DataError(f"{table.where(row)}: template {template_id} appears twice; keep one")
        seen.add(template_id)
        for name, text in zip(_TEXT_COLUMNS, texts, strict=True):
            unreadable = _UNREADABLE_SLOT.search(_SLOT.sub("", text))
            if unreadable:
                raise DataError(
                    f"{table.where(row)}: {name} has a slot that cannot be read: {excerpt(unreadable[0], 40)}; slots "
                    "are written [N1: word, word]"
                )
            if not text:
                raise DataError(f"{table.where(row)}: {name} is empty; fill it in")
        sizes: dict[str, int] = {}
        uneven = False
        for slot, words in _SLOT.findall("\n".join(texts)):
            length = len(words.split(","))
            if sizes.setdefault(slot, length) != length:
                # In five rows of the released file, a list has superfluous words; the original ignores them, too.
                uneven = True
                sizes[slot] = min(sizes[slot], length)
        yield KobbqTemplate(
            id=template_id,
            label=label,
            texts=tuple(texts),
            bbq_id=bbq_id,
            bbq_category=bbq_category,
            sizes=sizes,
            uneven=uneven,
        )


def _samples(template: KobbqTemplate) -> Iterator[KobbqSample]:
    """Yield the samples of a template: for each combination of words, two contexts times two questions."""
    # In the versions b and d, the context confirms the stereotype, and the two people have exchanged their slots. The
    # order of the slots is exchanged here, too, so that a sample number means the same people as in versions a and c.
    confirms_stereotype = template.version in "bd"
    slots = ("N1", "N2", "W1", "W2", "X1", "X2")
    if confirms_stereotype:
        slots = ("N2", "N1", "W1", "W2", "X2", "X1")
    ranges = [range(template.sizes.get(slot, 1)) for slot in slots]
    for number, indices in enumerate(product(*ranges), 1):
        index_of_slot = dict(zip(slots, indices, strict=True))
        filled_texts = [_fill_slots(text, index_of_slot) for text in template.texts]
        ambiguous, added, biased_question, counter_question, first, second = filled_texts
        # The original removes U+0008 from the answers, but not from contexts and questions.
        first = first.replace(BACKSPACE, "")
        second = second.replace(BACKSPACE, "")
        contexts = {"amb": ambiguous, "dis": f"{ambiguous} {added}"}
        # Each question comes with the answer that the disambiguated context states, and with the other answer.
        questions = (("bsd", biased_question, first, second), ("cnt", counter_question, second, first))
        for context_type, context in contexts.items():
            for question_type, question, stated, other in questions:
                yield KobbqSample(
                    id=f"{template.id}-{number:03d}-{context_type}-{question_type}",
                    label=template.label,
                    context=context,
                    question=question,
                    choices=(first, second, UNKNOWN),
                    biased_answer=stated if confirms_stereotype else other,
                    answer=UNKNOWN if context_type == "amb" else stated,
                )


def _fill_slots(text: str, index_of_slot: Mapping[str, int]) -> str:
    def chosen_word(slot: re.Match[str]) -> str:
        name, words = slot.groups()
        word: str = words.split(",")[index_of_slot[name]]
        return word.strip()

    filled = _SLOT.sub(chosen_word, text)
    return re.sub(r"\s+", " ", filled).strip()
