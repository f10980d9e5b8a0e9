"""WSC: which word a pronoun refers to; FewGLUE's rows, and FewNLU's with a true and a false target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.processors import RowProcessor
from lmassay.evaluations.fewshot.tasks.rows import Row

_SPANS = ("span1_text", "span2_text", "span1_index", "span2_index")


class WscProcessor(RowProcessor):
    LABELS: ClassVar[tuple[str, ...]] = ("False", "True")

    def examples_of(self, row: Row, set_type: str) -> Iterator[InputExample]:
        idx = self.idx(row)
        if "true_target" in row.fields or "false_target" in row.fields:
            for name in ("true_target", "false_target"):
                target = row.inner(name)
                label = name.partition("_")[0].capitalize()
                if self.label(target, set_type) not in (label, None):
                    raise DataError(f"{row.where}: the label in '{name}' must be {label.lower()}")
                found = self._example(row, target, f"{set_type}-{label.lower()}-{idx}", label, idx)
                yield replace(found, meta={**found.meta, "pair": f"{set_type}-{idx}"})
        else:
            yield self._example(row, row.inner("target"), f"{set_type}-{idx}", self.label(row, set_type), idx)

    def _example(self, row: Row, target: Row, guid: str, label: str | None, idx: int) -> InputExample:
        text = row.text("text")
        words = text.split()
        pronoun, candidate = target.text("span2_text"), target.text("span1_text")
        place = _pronoun(words, target.number("span2_index"), pronoun, row)
        meta = {
            "span1_text": candidate,
            "span2_text": pronoun,
            "span1_index": _candidate(words, target.number("span1_index"), candidate),
            "span2_index": place,
            "group": " ".join(text.lower().split()),
        }
        return InputExample(guid=guid, text_a=" ".join(words), label=label, meta=meta, idx=idx)


def _candidate(words: list[str], place: int, candidate: str) -> int:
    """Where the candidate stands: some indices of the published files are one off."""
    wanted = candidate.lower().split()
    low = [word.lower() for word in words]
    for near in (place, place - 1, place + 1):
        if near >= 0 and low[near : near + len(wanted)] == wanted:
            return near
    return place


def _pronoun(words: list[str], place: int, pronoun: str, row: Row) -> int:
    """Where the pronoun stands, with punctuation that hangs on it made a word of its own in ``words``."""
    for near in (place, place - 1, place + 1):
        if 0 <= near < len(words) and words[near] == pronoun:
            return near
    if 0 <= place < len(words) and words[place].startswith(pronoun):
        words[place : place + 1] = [pronoun, words[place][len(pronoun) :]]
        return place
    found = words[place] if 0 <= place < len(words) else "nothing"
    raise DataError(f"{row.where}: word {place} of the text is {found!r}, not the pronoun '{pronoun}'")
