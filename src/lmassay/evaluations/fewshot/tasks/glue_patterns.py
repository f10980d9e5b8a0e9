"""Patterns and verbalizers for GLUE, in the manner of FewNLU's example MRPC; none of them is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.patterns import TablePVP, Words, slotted
from lmassay.evaluations.fewshot.tasks.pvp import Mode

_SLOTS = {1: (1,), 2: (2,), 4: (4,)}


class GluePVP(TablePVP):
    """``{a}`` and ``{b}`` are the two texts, ``{a.}`` and ``{b.}`` the same without punctuation at the end."""

    def fields(self, example: InputExample) -> dict[str, str]:
        a, b = example.text_a, example.text_b or ""
        return {"a": a, "b": b, "a.": self.remove_final_punc(a), "b.": self.remove_final_punc(b)}


def _pvp(name: str, words: Words, cloze: Sequence[str], slots: str, *, pair: bool = True) -> type[GluePVP]:
    """A class for a task: cloze patterns numbered from 0, and one with ``<a>`` where prompt tokens go."""
    patterns: dict[Mode, Mapping[int, str]] = {
        "cls": {0: "{a}||{b}" if pair else "{a}"},
        "cloze": dict(enumerate(cloze)),
        "ptuning": slotted(slots, _SLOTS),
    }
    table: dict[Mode, Mapping[int, Words]] = {
        "cloze": dict.fromkeys(range(len(cloze)), words),
        "ptuning": dict.fromkeys(_SLOTS, words),
    }
    return type(name, (GluePVP,), {"PATTERNS": patterns, "WORDS": table, "VERBALIZER": words, "__doc__": None})


_YES_FOR_1: Words = {"0": ["No"], "1": ["Yes"]}
_YES_FOR_ENTAILMENT: Words = {"entailment": ["Yes"], "not_entailment": ["No"]}
_ENTAILED = (
    '"|{b.}|" ?||[M]|, "|{a}|"',
    "{b.}|?||[M]|,|{a}",
    "{a}|Question:|{b.}|?|Answer:|[M]|.",
)
_ENTAILED_SLOTS = "{a}|Question:|{b.}|?|<a>|Answer:|[M]|."


GLUE_PVPS: dict[str, type[TablePVP]] = {
    "cola": _pvp(
        "ColaPVP",
        {"0": ["wrong"], "1": ["right"]},
        ("{a}|This sentence is|[M]|.", '"|{a}|" Is this good English?|[M]|.'),
        "{a}|<a>|This sentence is|[M]|.",
        pair=False,
    ),
    "mnli": _pvp(
        "MnliPVP",
        {"entailment": ["Yes"], "neutral": ["Maybe"], "contradiction": ["No"]},
        ("{a.}|?||[M]|,|{b}", '"|{a.}|" ?||[M]|, "|{b}|"'),
        "{a.}|?|<a>|[M]|,|{b}",
    ),
    "mrpc": _pvp(
        "MrpcPVP",
        _YES_FOR_1,
        (
            'Does "|{a}|" has the same meaning with "|{b}|"?|[M]|.',
            "{a}|{b}|Do both sentences mean the same?|[M]|.",
            "{a.}|?||[M]|,|{b}",
        ),
        'Does "|{a}|" has the same meaning with "|{b}|"?|<a>|[M]|.',
    ),
    "qnli": _pvp(
        "QnliPVP",
        _YES_FOR_ENTAILMENT,
        ("{a.}|?||[M]|,|{b}", "{b}|Does this answer the question|{a.}|?|[M]|."),
        "{a.}|?|<a>|[M]|,|{b}",
    ),
    "qqp": _pvp(
        "QqpPVP",
        _YES_FOR_1,
        ("{a}|{b}|Do both questions ask the same?|[M]|.", "{a}||[M]|,|{b}"),
        "{a}|{b}|Do both questions ask the same?|<a>|[M]|.",
    ),
    "rte": _pvp("GlueRtePVP", _YES_FOR_ENTAILMENT, _ENTAILED, _ENTAILED_SLOTS),
    "sst2": _pvp(
        "Sst2PVP",
        {"0": ["bad"], "1": ["good"]},
        ("{a}|It was|[M]|.", "{a}|All in all, it was|[M]|.", "Just|[M]|!||{a}"),
        "{a}|<a>|It was|[M]|.",
        pair=False,
    ),
    "wnli": _pvp("WnliPVP", _YES_FOR_1, _ENTAILED, _ENTAILED_SLOTS),
}
