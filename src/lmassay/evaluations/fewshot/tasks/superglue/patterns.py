"""The published patterns and verbalizers of the eight SuperGLUE tasks.

A pattern turns an example into a text with a mask for the answer, and a verbalizer maps each label to its words. The
notation of the patterns is explained in ``lmassay.evaluations.fewshot.tasks.patterns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.patterns import TablePVP, Words, slotted
from lmassay.evaluations.fewshot.tasks.pvp import PVP, EncodedText, Kind, Mode

PLACEHOLDER = "@placeholder"
# P-tuning: pattern id → how many continuous prompt tokens there are at ``<a>`` and at ``<b>`` of the pattern's text.
_PROMPT_TOKENS = {1: (0, 1), 2: (1, 1), 3: (1, 2), 4: (2, 2), 5: (2, 3), 6: (3, 3), 8: (4, 4), 10: (5, 5)}

Patterns = Mapping[Mode, Mapping[int, str]]
"""Mode → pattern id → the text of the pattern."""
WordTable = Mapping[Mode, Mapping[int, Words]]
"""Mode → pattern id → label → the words of the label."""


def _twice(patterns: Mapping[int, str]) -> dict[int, str]:
    """The patterns, and the same patterns again with ids from 10 on.

    FewNLU has each pattern twice: with a verbalizer of one word per label, and with one of two words.
    """
    twice = dict(patterns)
    for number, text in patterns.items():
        twice[number + 10] = text
    return twice


def _without(prompt_tokens: Mapping[int, tuple[int, ...]], *ids: int) -> dict[int, tuple[int, ...]]:
    """The entries of all patterns but those with these ids."""
    return {number: counts for number, counts in prompt_tokens.items() if number not in ids}


def _words(*, default: Words, count: int, others: Mapping[int, Words] | None = None) -> dict[int, Words]:
    """Pattern id → words: ``default`` for the patterns 0 to ``count`` - 1. ``others`` adds or replaces entries."""
    return {**dict.fromkeys(range(count), default), **(others or {})}


_ENTAILMENT = {
    0: '"|{hypothesis}|" ?||[M]|, "|{premise}|"',
    1: "{hypothesis}|?||[M]|,|{premise}",
    2: '"|{hypothesis}|" ?||[M]|. "|{premise}|"',
    3: "{hypothesis}|?||[M]|.|{premise}",
    4: "{premise}| question: |{whole_hypothesis}| True or False? answer:|[M]",
    5: "{premise}|Question:|{hypothesis}|?|Answer:|[M]|.",
}
_ENTAILMENT_SLOTS = slotted("{premise}|<a>|Question:|{hypothesis}|?|<b>|Answer:|[M]|.", _PROMPT_TOKENS)


class _Entailment(TablePVP):
    """A premise and a hypothesis: the patterns that RTE and CB have in common."""

    def fields(self, example: InputExample) -> dict[str, str]:
        whole = example.text_b or ""
        return {
            "premise": example.text_a,
            "hypothesis": self.remove_final_punc(whole),
            "whole_hypothesis": whole,
        }


class RtePVP(_Entailment):
    """RTE: does the hypothesis follow from the premise?"""

    VERBALIZER: ClassVar[Words] = {"entailment": ["Yes"], "not_entailment": ["No"]}
    _TRUE: ClassVar[Words] = {"entailment": ["true"], "not_entailment": ["false"]}
    _BOTH: ClassVar[Words] = {"entailment": ["Yes", "true"], "not_entailment": ["No", "false"]}
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{premise}||{hypothesis}"},
        "cloze": _twice(_ENTAILMENT),
        "ptuning": _ENTAILMENT_SLOTS,
    }
    WORDS: ClassVar[WordTable] = {
        "cloze": _words(default=VERBALIZER, count=6, others={4: _TRUE, **dict.fromkeys(range(10, 16), _BOTH)}),
        "ptuning": dict.fromkeys(_PROMPT_TOKENS, VERBALIZER),
    }


class CbPVP(_Entailment):
    """CB: does the hypothesis follow from the premise, contradict it, or neither?"""

    VERBALIZER: ClassVar[Words] = {"entailment": ["Yes"], "contradiction": ["No"], "neutral": ["Maybe"]}
    _TRUE: ClassVar[Words] = {"entailment": ["true"], "contradiction": ["false"], "neutral": ["neither"]}
    _BOTH: ClassVar[Words] = {
        "entailment": ["Yes", "true"],
        "contradiction": ["No", "false"],
        "neutral": ["Maybe", "neither"],
    }
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{premise}||{hypothesis}"},
        "cloze": _twice(
            _ENTAILMENT | {4: "{premise}| question: |{whole_hypothesis}| true, false or neither? answer:|[M]"}
        ),
        "ptuning": _ENTAILMENT_SLOTS,
    }
    # A quirk of FewNLU: of the patterns from 10 on, only pattern 10 has two words per label.
    WORDS: ClassVar[WordTable] = {
        "cloze": _words(default=VERBALIZER, count=16, others={4: _TRUE, 10: _BOTH}),
        "ptuning": dict.fromkeys(_PROMPT_TOKENS, VERBALIZER),
    }


class BoolQPVP(TablePVP):
    """BoolQ: a yes/no question about a passage.

    Each of the three cloze texts has two pattern ids: with an even id its answer is Yes or No, with an odd id it is
    true or false.
    """

    _YES: ClassVar[Words] = {"False": ["No"], "True": ["Yes"]}
    _TRUE: ClassVar[Words] = {"False": ["false"], "True": ["true"]}
    _BOTH: ClassVar[Words] = {"False": ["No", "false"], "True": ["Yes", "true"]}
    _QUESTION = "{passage}|. Question: |{question}|? Answer: |[M]|."
    _PREVIOUS = "{passage}|. Based on the previous passage, |{question}|?|[M]|."
    _FOLLOWING = "Based on the following passage, |{question}|?|[M]|.|{passage}"
    # Pattern 1 has its own text below. FewNLU declares a pattern 5, but does not define it.
    _SLOTS: ClassVar[dict[int, tuple[int, ...]]] = _without(_PROMPT_TOKENS, 1, 5)
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{passage}||{question}"},
        "cloze": _twice({0: _QUESTION, 1: _QUESTION, 2: _PREVIOUS, 3: _PREVIOUS, 4: _FOLLOWING, 5: _FOLLOWING}),
        "ptuning": {
            1: "{passage}|. Question: |{question}|?|<1>|Answer: |[M]|.",
            **slotted("{passage}|.|<a>|Question: |{question}|?|<b>|Answer: |[M]|.", _SLOTS),
        },
    }
    WORDS: ClassVar[WordTable] = {
        "cloze": {0: _YES, 1: _TRUE, 2: _YES, 3: _TRUE, 4: _YES, 5: _TRUE, **dict.fromkeys(range(10, 16), _BOTH)},
        "ptuning": dict.fromkeys(PATTERNS["ptuning"], _TRUE),
    }

    def fields(self, example: InputExample) -> dict[str, str]:
        return {"passage": example.text_a, "question": self.remove_final_punc(example.text_b or "")}


class MultiRcPVP(TablePVP):
    """MultiRC: is this a correct answer to a question about a passage?"""

    VERBALIZER: ClassVar[Words] = {"0": ["No"], "1": ["Yes"]}
    _TRUE: ClassVar[Words] = {"0": ["False"], "1": ["True"]}
    _BOTH: ClassVar[Words] = {"0": ["No", "False"], "1": ["Yes", "True"]}
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{passage}||{question_and_answer!}"},
        "cloze": _twice(
            {
                0: "{passage}|. Question: |{question!}|? Is it |{answer!}|?|[M]|.",
                1: '{passage}|. Question: |{question!}|? Is the correct answer "|{answer!}|"?|[M]|.',
                2: '{passage}|. Based on the previous passage, |{question!}|? Is "|{answer!}|" a correct answer?|[M]|.',
                3: "{passage}|{question!}|- [|[M]|]|{answer!}",
            }
        ),
        "ptuning": {
            1: "{passage}|. Question: |{question!}|? Is it |{answer!}|?|<1>|[M]|.",
            2: "{passage}|. Question: |{question!}|?|<1>|Is it |{answer!}|?|<1>|[M]|.",
            **slotted(
                "{passage}|.|<a>|Question: |{question!}|?|<b>|Is it |{answer!}|?|<c>|[M]|.",
                {3: (1, 1, 1), 4: (1, 1, 2), 6: (2, 2, 2), 9: (3, 3, 3)},
            ),
        },
    }
    WORDS: ClassVar[WordTable] = {
        "cloze": _words(default=VERBALIZER, count=4, others={3: _TRUE, **dict.fromkeys(range(10, 14), _BOTH)}),
        "ptuning": dict.fromkeys(PATTERNS["ptuning"], VERBALIZER),
    }

    def fields(self, example: InputExample) -> dict[str, str]:
        question = example.text_b or ""
        answer = example.meta["answer"]
        return {
            "passage": example.text_a,
            "question": self.remove_final_punc(question),
            "answer": answer,
            "question_and_answer": f"{question} {self.tokenizer.sep_token or ''} {answer}",
        }


class WicPVP(TablePVP):
    """WiC: does a word have the same meaning in two sentences?"""

    _YES: ClassVar[Words] = {"F": ["No"], "T": ["Yes"]}
    # In a dictionary entry that begins with "(1) (a)", "(b)" is another example of the same sense, "(2)" another sense.
    _SENSE: ClassVar[Words] = {"F": ["2"], "T": ["b"]}
    _BOTH: ClassVar[Words] = {"F": ["No", "False"], "T": ["Yes", "True"]}
    _SIMILAR = '"|{sentence1}|" / "|{sentence2}|" Similar sense of "{word!}"?|[M]|.'
    # FewNLU declares the patterns 3 and 5, but does not define them.
    _SLOTS: ClassVar[dict[int, tuple[int, ...]]] = _without(_PROMPT_TOKENS, 3, 5)
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{word_and_sentence1}||{sentence2}"},
        "cloze": {
            0: _SIMILAR,
            1: "{sentence1}|{sentence2}|Does {word!} have the same meaning in both sentences?|[M]",
            2: '{word!}| . Sense (1) (a) "|{sentence1}|" (|[M]|) "|{sentence2}|"',
            10: _SIMILAR,
        },
        "ptuning": slotted('{word!}| . Sense (1) (a) "|{sentence1}|" (|<a>|[M]|<b>|) "|{sentence2}|"', _SLOTS),
    }
    WORDS: ClassVar[WordTable] = {
        "cloze": {0: _YES, 1: _YES, 2: _SENSE, 10: _BOTH},
        "ptuning": dict.fromkeys(_SLOTS, _SENSE),
    }

    def fields(self, example: InputExample) -> dict[str, str]:
        word = example.meta["word"]
        return {
            "word": word,
            "sentence1": example.text_a,
            "sentence2": example.text_b or "",
            "word_and_sentence1": f"{word}: {example.text_a}",
        }


class CopaPVP(TablePVP):
    """COPA: one of two choices fills the masks. There are as many masks as the longer choice has tokens."""

    kind: ClassVar[Kind] = "choices"
    _QUOTED = '"|{choice1!}|" or "|{choice2!}|"?|'
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{because1!}||{because2!}"},
        "cloze": {
            0: _QUOTED + "{premise}|{joiner!}|[M]|.",
            1: "{choice1!}|or|{choice2!}|?|{premise}|{joiner!}|[M]|.",
        },
        "ptuning": slotted(
            _QUOTED + "<a>|{premise}|{joiner!}|<b>|[M]|.",
            {1: (0, 1), 2: (2, 0), 3: (3, 0), 4: (0, 4), 5: (3, 2), 6: (3, 3)},
        ),
    }

    def fields(self, example: InputExample) -> dict[str, str]:
        premise = self.remove_final_punc(example.text_a)
        first, second = self.choice_texts(example)
        joiner = {"cause": "because", "effect": ", so"}[example.meta["question"]]
        return {
            "premise": premise,
            "choice1": first,
            "choice2": second,
            "joiner": joiner,
            "because1": f"{premise} {joiner} {first}",
            "because2": f"{premise} {joiner} {second}",
        }

    def choice_texts(self, example: InputExample) -> list[str]:
        choices = (example.meta["choice1"], example.meta["choice2"])
        return [PVP.remove_final_punc(PVP.lowercase_first(choice)) for choice in choices]

    def mask_count(self, example: InputExample) -> int:
        return max(map(len, self.choices(example)))


class WscPVP(TablePVP):
    """WSC: the referent of a pronoun fills the masks.

    In training there are up to three more masks than the referent has tokens; the target of these surplus masks is
    padding. In evaluation there is always one surplus mask.
    """

    kind: ClassVar[Kind] = "referent"
    _ASKED = "Question: In the passage above, what does the pronoun '*{pronoun!}*' refer to?"
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{text}||{candidate!}"},
        "cloze": {
            0: "{text}|The pronoun '*{pronoun!}*' refers to|[M]|.",
            1: "{text}|In the previous sentence, the pronoun '*{pronoun!}*' refers to|[M]|.",
            2: f"{{text}}|{_ASKED} Answer: |[M]|.",
        },
        "ptuning": {
            **slotted(f"{{text}}|<a>|{_ASKED} Answer: |[M]|.", {1: (1,), 2: (2,), 3: (3,), 4: (4,)}),
            **slotted(f"{{text}}|<a>|{_ASKED}|<b>|Answer: |[M]|.", {5: (3, 2), 6: (3, 3), 8: (4, 4)}),
        },
    }

    def fields(self, example: InputExample) -> dict[str, str]:
        words = example.text_a.split()
        pronoun_index = example.meta["span2_index"]
        words[pronoun_index] = f"*{words[pronoun_index]}*"
        return {
            "text": " ".join(words),
            "pronoun": example.meta["span2_text"],
            "candidate": example.meta["span1_text"],
        }

    def choice_texts(self, example: InputExample) -> list[str]:
        return [example.meta["span1_text"]]

    def mask_count(self, example: InputExample) -> int:
        (referent,) = self.choices(example)
        n_surplus = 1
        if self.training:
            # As in FewNLU, a number is drawn whenever an example is encoded. The masks therefore depend on the order
            # in which examples are encoded.
            n_surplus = self.rng.randint(0, 3)
        return len(referent) + n_surplus


class RecordPVP(TablePVP):
    """ReCoRD: an entity of the passage fills the masks. There are as many masks as the longest entity has tokens."""

    kind: ClassVar[Kind] = "entities"
    PATTERNS: ClassVar[Patterns] = {
        "cls": {0: "{passage}||{query!}"},
        "cloze": {0: "{passage}|{before!}|[M]|{after!}"},
        "ptuning": slotted("{passage}|<a>|{before!}|[M]|{after!}", {1: (1,), 2: (2,), 3: (3,)}),
    }

    def fields(self, example: InputExample) -> dict[str, str]:
        query = example.text_b or ""
        before, placeholder, after = query.partition(PLACEHOLDER)
        if not placeholder or PLACEHOLDER in after:
            raise DataError(f"{example.guid}: the query must have one {PLACEHOLDER}, but it is '{query}'")
        return {
            "passage": example.text_a,
            "before": f" {before.rstrip()}",
            "after": after,
            "query": query.replace(PLACEHOLDER, example.meta.get("candidate", PLACEHOLDER)),
        }

    def choice_texts(self, example: InputExample) -> list[str]:
        return list(example.meta["candidates"])

    def mask_count(self, example: InputExample) -> int:
        return max(map(len, self.choices(example)))

    def filled(self, example: InputExample, candidate: str) -> EncodedText:
        """The passage and the query with a candidate filled in, for a classifier that decides whether it fits."""
        meta = {**example.meta, "candidate": candidate}
        with_candidate = InputExample(example.guid, example.text_a, example.text_b, example.label, meta=meta)
        return self.encode(with_candidate)


SUPERGLUE_PVPS: dict[str, type[TablePVP]] = {
    "boolq": BoolQPVP,
    "cb": CbPVP,
    "copa": CopaPVP,
    "multirc": MultiRcPVP,
    "record": RecordPVP,
    "rte": RtePVP,
    "wic": WicPVP,
    "wsc": WscPVP,
}
