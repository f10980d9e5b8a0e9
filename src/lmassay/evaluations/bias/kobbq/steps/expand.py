"""Step 0: KoBBQ's samples from its templates, every combination of the words that a template offers.

A template holds slots such as ``[N1: 손자와, 손녀와]``: two people (N1, N2), shared wording (W1, W2) and wording that
goes with a person (X1, X2). All slots of one name take the same place of their lists, for a list spells out the
particles that its word needs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.pandas_output import lines, retold
from lmassay.evaluations.bias.kobbq.samples import (
    BACKSPACE,
    OPTIONAL_COLUMNS,
    SAMPLE_COLUMNS,
    UNKNOWN,
    KobbqSample,
    defects,
)
from lmassay.evaluations.bias.kobbq.tsv import TsvTable, first_few, read_table

RELEASED_BLOB = "31fe1237c1ba4876d51bbcc9c1822f122299ab56"
"""Git's name for the contents of KoBBQ_all_samples.tsv as its authors released it."""

_TEXTS = (
    *("Ambiguous_context", "Disambiguating_context", "Biased_question", "Counter-biased_question"),
    *("Biased_question_answer", "Counter-biased_question_answer"),
)
_COLUMNS = ("Category", "ID", "version", "Label_annotation", *_TEXTS, "BBQ_id", "BBQ_category")
_SLOT = re.compile(r"\[(N1|N2|W1|W2|X1|X2):([^\]]*)\]")
_UNKNOWN_SLOT = re.compile(r"\[[^\]]*\]?")
# The released file is not in the order of the alphabet.
_ORDER = (
    *("age", "disability_status", "gender_identity", "physical_appearance", "race_ethnicity_nationality", "religion"),
    *("ses", "sexual_orientation", "domestic_area_of_origin", "family_structure", "political_orientation"),
    "educational_background",
)
# Templates with a slip that only a reader notices: id → what it is, and whether a sample shows it.
_SLIPS: Mapping[str, tuple[str, Callable[[KobbqSample], bool]]] = {
    "disability_status-002a": (
        "name another relative in the answer than in the context",
        lambda s: any(c != UNKNOWN and c.startswith("이웃의") and c.split()[-1] not in s.context for c in s.choices),
    ),
    "ses-001b": ("lack a blank before a person", lambda s: re.search(r"명은\S", s.context) is not None),
    "physical_appearance-016": (
        "speak of a candidate (후보자) in the context and of a woman (여자) in the answers",
        lambda s: "후보자" in s.context and any(c.endswith("여자") for c in s.choices),
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
    """How many words each slot offers: the shortest of its lists."""
    uneven: bool
    """Whether lists of one slot differ in length, so that words are left over."""

    @property
    def version(self) -> str:
        return self.id[-1]


@dataclass(frozen=True, slots=True)
class Expansion:
    """The samples of all templates in the order of the released file."""

    templates: Sequence[KobbqTemplate]
    samples: Sequence[KobbqSample]
    bbq: Sequence[tuple[str, str]]

    def text(self) -> str:
        """The samples file."""
        fields = [
            *([s.id for s in self.samples], [s.label for s in self.samples]),
            *([s.context for s in self.samples], [s.question for s in self.samples]),
            [repr(list(s.choices)) for s in self.samples],
            *([s.biased_answer for s in self.samples], [s.answer for s in self.samples]),
            *(retold([pair[0] for pair in self.bbq]), [pair[1] for pair in self.bbq]),
            [""] * len(self.samples),
        ]
        return "".join(lines((*SAMPLE_COLUMNS, *OPTIONAL_COLUMNS), fields))

    def defects(self) -> Iterator[str]:
        """What is wrong with the data, counted; the samples are as the authors released them all the same."""
        yield from defects(self.samples)
        uneven = [template.id for template in self.templates if template.uneven]
        if uneven:
            yield f"{len(uneven)} templates have a slot whose lists differ in length: {first_few(uneven, 8)}"
        for template, (what, shows) in _SLIPS.items():
            count = sum(1 for s in self.samples if s.id.startswith(template) and shows(s))
            if count:
                yield f"{count} samples of {template} {what}"


def git_blob_id(data: bytes) -> str:
    """Git's name for a file's contents."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def expand(path: Path) -> Expansion:
    """Every sample of a templates file."""
    table = read_table(path, "templates", _COLUMNS)
    found = list(_templates(table))
    position = {category: place for place, category in enumerate(_ORDER)}
    made = []
    for template in found:
        category = template.id.rsplit("-", 1)[0]
        place = (position.get(category, len(_ORDER)), category)
        made += [(place, sample.id, sample, (template.bbq_id, template.bbq_category)) for sample in _samples(template)]
    made.sort(key=lambda row: row[:2])
    return Expansion(found, [row[2] for row in made], [row[3] for row in made])


def _templates(table: TsvTable) -> Iterator[KobbqTemplate]:
    seen: set[str] = set()
    columns = [table.column(name) for name in _COLUMNS]
    for row, (category, number, version, label, *texts, bbq_id, bbq_category) in enumerate(zip(*columns, strict=True)):
        if not (category and number.isascii() and number.isdigit() and version in ("a", "b", "c", "d")):
            raise DataError(f"{table.where(row)}: Category, ID and version must be a name, a number and a, b, c or d")
        template = f"{category.lower()}-{int(number):03d}{version}"
        if template in seen:
            raise DataError(f"{table.where(row)}: template {template} stands twice; keep one")
        seen.add(template)
        for name, text in zip(_TEXTS, texts, strict=True):
            rest = _UNKNOWN_SLOT.search(_SLOT.sub("", text))
            if rest or not text:
                problem = f"has a slot that cannot be read: {rest[0][:40]}" if rest else "is empty"
                raise DataError(f"{table.where(row)}: {name} {problem}; slots are written [N1: word, word]")
        lists: dict[str, set[int]] = {}
        for name, words in _SLOT.findall("\n".join(texts)):
            lists.setdefault(name, set()).add(len(words.split(",")))
        sizes = {name: min(lengths) for name, lengths in lists.items()}
        uneven = any(len(lengths) > 1 for lengths in lists.values())
        yield KobbqTemplate(template, label, tuple(texts), bbq_id, bbq_category, sizes, uneven)


def _samples(template: KobbqTemplate) -> Iterator[KobbqSample]:
    # In b and d the people have changed places: the same number means the same people as in a and c.
    stereotyped = template.version in "bd"
    slots = ("N2", "N1", "W1", "W2", "X2", "X1") if stereotyped else ("N1", "N2", "W1", "W2", "X1", "X2")
    ranges = [range(template.sizes.get(slot, 1)) for slot in slots]
    for number, places in enumerate(product(*ranges), 1):
        chosen = dict(zip(slots, places, strict=True))
        ambiguous, added, *questions, first, second = (_filled(text, chosen) for text in template.texts)
        first, second = first.replace(BACKSPACE, ""), second.replace(BACKSPACE, "")
        contexts = {"amb": ambiguous, "dis": f"{ambiguous} {added}"}
        for kind, context in contexts.items():
            for asked, question in zip(("bsd", "cnt"), questions, strict=True):
                told = first if asked == "bsd" else second
                biased = told if stereotyped else second if asked == "bsd" else first
                yield KobbqSample(
                    id=f"{template.id}-{number:03d}-{kind}-{asked}",
                    label=template.label,
                    context=context,
                    question=question,
                    choices=(first, second, UNKNOWN),
                    biased_answer=biased,
                    answer=UNKNOWN if kind == "amb" else told,
                )


def _filled(text: str, chosen: Mapping[str, int]) -> str:
    filled = _SLOT.sub(lambda slot: slot[2].split(",")[chosen[slot[1]]].strip(), text)
    return re.sub(r"\s+", " ", filled).strip()
