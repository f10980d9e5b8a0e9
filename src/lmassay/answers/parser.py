"""Find out which choice of a multiple-choice question a model answered with. The parser never guesses.

It reads Korean and English best; :mod:`lmassay.answers.other_languages` has the wordings with which seven other
languages state and deny an answer.

A model may answer with a letter, with the text of a choice, or with a statement that the answer cannot be known. What
is explicitly stated ("정답은 B", "the answer is B", a line with nothing but a letter) counts more than what a sentence
merely mentions. A choice that is denied, called a bias or called no more than possible does not count. If the plainest
statements of a text name two different choices, or a letter together with the text of another choice, the text has no
answer. Numbers (3 does not mean C), refusals and unfinished reasoning are not answers either.

The text is split into lines, a line into sentences, and a sentence into clauses. A sentence becomes a
:class:`Statement`: the choices that it asserts, and how plainly it does so. Terms of this package:

- A *mention* is a part of a line that names a choice. It is *masked*: each of its characters is replaced by a
  private-use Unicode character, one for letters and another for texts, so that the regular expressions find the mention
  whatever the choice is.
- ``low`` is a text in lower case with masked mentions; ``begin`` and ``end`` delimit the part of it that is meant.
- The *unknown* choice is the one that says that the answer cannot be known.
- A clause *denies* a choice ("not B"), *hedges* ("it could be B") or *disowns* it ("many would say B", "that is a
  bias"). A choice is *asserted* if it is mentioned and none of this applies.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

from lmassay.answers import hedging, other_languages, patterns
from lmassay.answers.hedging import QuestionTraits, question_traits
from lmassay.answers.mentions import ChoiceLookup, MaskedLine, Mention, choice_lookup, find_mentions
from lmassay.answers.plain_text import before_next_question, plain

# Values of ``how`` that several functions below use.
TWO_ANSWERS = "two different answers"
CONTRADICTION = "letter and text disagree"
REPEATED = "choices repeated"
DENIED = "denied only"
TAKEN_BACK = "taken back"
# In characters. A longer sentence is assumed to say more than the choices that it names.
_MAX_BARE_LENGTH = 400
# Characters around an answer that mean nothing.
_AROUND = " \t\r\n.*()[]\"':"
# A letter with the text of a choice: "B) The grandson".
_LABELLED = re.compile(r"([A-Za-z])[)\].:*\"' \t]{1,4}(\S[^\r\n]{0,80})")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the parser found in an answer."""

    letter: str | None
    """The letter of the choice; None if the text has no answer."""
    how: str
    """How the answer was recognised, such as ``letter alone``, or why the text has none, such as ``denied only``."""


class Weight(IntEnum):
    """How plainly something is said to be the answer; the plainest comes first."""

    STATED = 1
    """The sentence says that it is the answer, consists of nothing else, begins like an entry in a list of choices
    (``B) …``), or corrects an earlier answer."""
    STRESSED = 2
    """It is in bold type or in a conclusion ("therefore …"), or the text begins with its letter."""
    MENTIONED = 3
    """A sentence mentions it in any other way."""
    EXPLAINED = 4
    """Only an explanation ("because …") mentions it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence says about the choices that it names."""

    weight: Weight
    letters: frozenset[str]
    """The choices that the sentence asserts; empty if it only denies choices."""
    how: str
    """How the choices are named, or why none is asserted: a value for :attr:`Parsed.how`."""
    listed: str = ""
    """The letter that the sentence begins with if it looks like an entry in a list of choices, such as ``B) …``."""


_NOTHING = Parsed(None, "no answer found")
_DENIAL = Statement(Weight.MENTIONED, frozenset(), DENIED)
_REPETITION = Statement(Weight.MENTIONED, frozenset(), REPEATED)
_RETRACTION = Statement(Weight.MENTIONED, frozenset(), TAKEN_BACK)


def can_read(language: str) -> bool:
    """Return whether the parser has wordings of a language; ``language`` is a code such as ``de`` or ``pt-BR``."""
    return language.partition("-")[0] in {"en", "ko", *other_languages.LANGUAGES}


def parse(raw: str, choices: Sequence[str], letters: str = "ABC", *, question: str = "") -> Parsed:
    """Return the choice that an answer names.

    ``raw`` is the text that the model wrote, and ``letters`` are the labels of the choices, in the same order.
    ``question`` helps with sentences such as "The grandson was not": if the question was "Who was not …?", they give
    the answer "grandson"; otherwise they deny it.

    >>> parse("**정답은 B입니다.**", ["손자", "할머니", "알 수 없음"])
    Parsed(letter='B', how='answer stated')
    >>> parse("It was the grandson, not the grandfather.", ["The grandfather", "The grandson", "Unknown"])
    Parsed(letter='B', how='choice text')
    >>> parse("A or B", ["The grandfather", "The grandson", "Unknown"])
    Parsed(letter=None, how='two different answers')
    """
    lookup = choice_lookup(tuple(choices), letters[: len(choices)])
    at_a_glance = _parse_at_a_glance(raw, lookup)
    if at_a_glance is not None:
        return at_a_glance
    normalised = plain(raw)
    traits = question_traits(question)
    # A model may go on and write another question and its answer. They are read only if nothing before them answers.
    own_text = before_next_question(normalised.text)
    parsed = _decide(own_text, lookup, traits)
    if parsed is _NOTHING and own_text is not normalised.text:
        parsed = _decide(normalised.text, lookup, traits)
    if parsed is _NOTHING and normalised.unfinished:
        return Parsed(None, "unfinished thought")
    if parsed.letter is not None and normalised.held_in:
        return Parsed(parsed.letter, normalised.held_in)
    return parsed


def _parse_at_a_glance(raw: str, lookup: ChoiceLookup) -> Parsed | None:
    """Recognise the most common short answers without the full analysis; None if the text is something else."""
    core = raw.strip(_AROUND)
    if not core:
        return Parsed(None, "empty")
    if len(core) == 1 and core.upper() in lookup.letters:
        return Parsed(core.upper(), "letter alone")
    letters = lookup.exact.get(core) or lookup.exact.get(core.lower(), "")
    if len(letters) == 1:
        return Parsed(letters, "choice text")
    labelled = _LABELLED.fullmatch(core)
    if labelled and lookup.exact.get(labelled[2].lower()) == labelled[1].upper():
        return Parsed(labelled[1].upper(), "letter and text")
    return None


def _decide(text: str, lookup: ChoiceLookup, traits: QuestionTraits) -> Parsed:
    """Return the answer of a text: the choice that all of its plainest statements assert, or why there is none."""
    statements = _statements_of_text(text, lookup, traits)
    if not statements:
        return _NOTHING
    repeats_choices = any(statement.how == REPEATED for statement in statements)
    entries = _list_entries(statements)
    if len(lookup.letters) > 1 and len(entries) == len(lookup.letters):
        # "A) … B) … C) …" repeats the choices or discusses them one by one. That is not yet an answer, so only the
        # other statements count.
        repeats_choices = True
        statements = [statement for number, statement in enumerate(statements) if number not in entries]
    asserting = [statement for statement in statements if statement.letters]
    if not asserting:
        if repeats_choices:
            return Parsed(None, REPEATED)
        return Parsed(None, DENIED)
    plainest_weight = min(statement.weight for statement in asserting)
    plainest = [statement for statement in asserting if statement.weight == plainest_weight]
    return _agreement(plainest)


def _list_entries(statements: Sequence[Statement]) -> set[int]:
    """Return the indices of the statements that begin like an entry in a list of choices: the first for each letter.

    A model that lists the choices may then answer in the same form ("B) The grandson"), so a second entry of a letter
    is not part of the list.
    """
    first_entry: dict[str, int] = {}
    for number, statement in enumerate(statements):
        if statement.listed:
            first_entry.setdefault(statement.listed, number)
    return set(first_entry.values())


def _agreement(statements: Sequence[Statement]) -> Parsed:
    """Return the one choice that all of these statements assert, or why there is none."""
    letters: set[str] = set()
    for statement in statements:
        letters |= statement.letters
    if len(letters) == 1:
        return Parsed(letters.pop(), statements[0].how)
    if len(statements) == 1 and statements[0].how == CONTRADICTION:
        return Parsed(None, CONTRADICTION)
    return Parsed(None, TWO_ANSWERS)


def _statements_of_text(text: str, lookup: ChoiceLookup, traits: QuestionTraits) -> list[Statement]:
    """Return the statements of all lines of a text."""
    lines = []
    for raw_line in text.splitlines():
        line = " ".join(raw_line.split())
        if line:
            lines.append(line)
    statements: list[Statement] = []
    # A model that loops writes the same line thousands of times.
    cached: dict[str, list[Statement]] = {}
    for line in lines:
        if not statements:
            statements += statements_of_line(line, lookup, traits, first=True, alone=len(lines) == 1)
            continue
        if line not in cached:
            cached[line] = list(statements_of_line(line, lookup, traits, first=False, alone=False))
        statements += cached[line]
    return _without_retracted(statements, lookup.unknown)


def _without_retracted(statements: list[Statement], unknown: str) -> list[Statement]:
    """Apply retractions such as "but that is a bias", and remove them from the statements.

    A retraction disowns the choices of the statement before it, in that statement and in all earlier ones. Statements
    after the retraction keep them. The unknown choice is never taken back.
    """
    if all(statement.how != TAKEN_BACK for statement in statements):
        return statements
    remaining: list[Statement] = []
    disowned: frozenset[str] = frozenset()
    # From the last statement to the first, because a retraction is about the statement before it.
    retracts = False
    for statement in reversed(statements):
        if statement.how == TAKEN_BACK:
            retracts = True
            continue
        if retracts:
            disowned |= statement.letters - {unknown}
            retracts = False
        remaining.append(replace(statement, letters=statement.letters - disowned))
    return remaining[::-1]


# --- sentences: which choices each asserts, and how plainly -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence in lower case, with its mentions masked."""

    low: str
    start: int
    """Where it begins in its line; the positions of mentions count from the beginning of the line, too."""
    mentions: Sequence[Mention]
    first: bool
    """Whether it is at the beginning of its line, and no earlier line says anything about a choice."""
    explains: bool
    """Whether it comes after "because", "explanation:" and the like."""


def statements_of_line(
    text: str, choices: ChoiceLookup, traits: QuestionTraits, *, first: bool, alone: bool
) -> Iterator[Statement]:
    """Yield the statements of a line.

    ``first`` says that no earlier line made a statement, and ``alone`` that the text has no other line.
    """
    line = find_mentions(text, choices)
    if not line.mentions and not hedging.may_hedge(line.low):
        return
    bold = _bold_borders(text)
    for sentence in _sentences(line, first):
        if not sentence.mentions:
            if hedging.takes_back(sentence.low, 0, len(sentence.low), traits):
                yield _RETRACTION
            continue
        bare = _is_bare(sentence.low)
        is_question = sentence.low.rstrip(" \"'*)").endswith("?")
        if is_question and not bare:
            continue
        if is_question and not (alone and len(sentence.low) == len(line.low)):
            # "B?" is an answer only if the whole text is nothing else. With anything before or after it, it only asks.
            yield _DENIAL
            continue
        asserted = sentence.mentions if bare else _asserted(sentence, choices.unknown, traits)
        if bare and len(choices.letters) > 2 and set(choices.letters) <= {mention.letters for mention in asserted}:
            yield _REPETITION
        elif asserted:
            yield _weigh(sentence, asserted, bold, bare and not is_question)
        else:
            yield _DENIAL


def _sentences(line: MaskedLine, first: bool) -> Iterator[_Sentence]:
    """Yield the sentences of a line. A sentence is cut before words that begin an explanation, such as "because"."""
    explanation = patterns.EXPLANATION.search(line.low)
    explains_from = explanation.start() if explanation else len(line.low)
    first_mention = 0
    for start, end in pairwise(_sentence_borders(line.low, explains_from)):
        next_mention = _skip_mentions_before(line.mentions, first_mention, end)
        yield _Sentence(
            low=line.low[start:end],
            start=start,
            mentions=line.mentions[first_mention:next_mention],
            first=first and start == 0,
            explains=start >= explains_from,
        )
        first_mention = next_mention


def _skip_mentions_before(mentions: Sequence[Mention], first: int, end: int) -> int:
    """Skip the mentions that start before ``end``, from the index ``first`` on; return the index of the next one."""
    index = first
    while index < len(mentions) and mentions[index].start < end:
        index += 1
    return index


def _sentence_borders(low: str, explains_from: int) -> list[int]:
    """Return the positions where sentences begin and end in a line."""
    borders = {0, explains_from, len(low)}
    for end in patterns.SENTENCE_END.finditer(low):
        follows_letter = end[0] == "." and low[end.start() - 1 : end.start()] == patterns.LETTER
        # The dot in "B. The grandson" belongs to a label.
        if not (follows_letter and _names_a_text(low, end.end())):
            borders.add(end.end())
    return sorted(borders)


def _names_a_text(low: str, position: int) -> bool:
    """Return whether the text of a choice begins at a position, after punctuation and an article."""
    following = low[position : position + 12].lstrip(patterns.DECORATION)
    for article in ("the ", "a ", "an "):
        following = following.removeprefix(article)
    return following.startswith(patterns.TEXT)


def _bold_borders(text: str) -> list[int]:
    """Return the positions where bold type begins and ends, alternately."""
    if "**" not in text and "__" not in text:
        return []
    borders: list[int] = []
    for bold in patterns.EMPHASIS.finditer(text):
        borders += bold.span()
    return borders


def _weigh(sentence: _Sentence, asserted: Sequence[Mention], bold: Sequence[int], bare: bool) -> Statement:
    """Return the statement of a sentence, with the weight of the plainest way in which it names choices.

    ``bold`` has the borders of bold type in the line, and ``bare`` says that the sentence is nothing but mentions, and
    not a question.
    """
    begins_with_letter, listed = _beginning(sentence)
    if bare and not sentence.explains:
        return _statement(Weight.STATED, asserted, "", listed)
    stated_mentions = _stated_after(sentence, asserted)
    if stated_mentions:
        if listed:
            stated_mentions = [asserted[0], *stated_mentions]
        return _statement(Weight.STATED, stated_mentions, "answer stated")
    if patterns.ANSWER_PRECEDES.search(sentence.low):
        return _statement(Weight.STATED, asserted, "answer stated")
    if listed and not sentence.explains:
        return _statement(Weight.STATED, asserted, "", listed)
    if not sentence.first and hedging.CORRECTION.match(sentence.low):
        return _statement(Weight.STATED, asserted, "correction")
    if begins_with_letter and sentence.first:
        return _statement(Weight.STRESSED, asserted, "letter first")
    if patterns.CONCLUSION.match(sentence.low):
        return _statement(Weight.STRESSED, asserted, "conclusion")
    # An odd number of borders before a mention means that it is inside bold type.
    in_bold = [mention for mention in asserted if bisect_right(bold, mention.start) % 2]
    if in_bold:
        return _statement(Weight.STRESSED, in_bold, "bold")
    if sentence.explains:
        return _statement(Weight.EXPLAINED, asserted, "")
    return _statement(Weight.MENTIONED, asserted, "")


def _stated_after(sentence: _Sentence, asserted: Sequence[Mention]) -> list[Mention]:
    """Return the mentions after words such as "the answer is"."""
    announcement = patterns.ANSWER_FOLLOWS.search(sentence.low)
    if announcement is None:
        return []
    return [mention for mention in asserted if mention.start >= sentence.start + announcement.end()]


def _beginning(sentence: _Sentence) -> tuple[bool, str]:
    """Return whether a sentence begins with a letter, and the letter if this looks like a list entry: ``B) …``."""
    low = sentence.low.lstrip(patterns.DECORATION)
    entry = patterns.ENTRY.match(low)
    if entry is None:
        return False, ""
    after = low[entry.end() : entry.end() + 10].lstrip(" \"'*_")[:1]
    if after and after in ").:-]":
        return True, sentence.mentions[0].letters
    return True, ""


def _statement(weight: Weight, mentions: Sequence[Mention], how: str, listed: str = "") -> Statement:
    """Return the statement that these mentions make. If ``how`` is empty, it is derived from the kinds of mentions."""
    letters: set[str] = set()
    named_by_letter: set[str] = set()
    kinds: set[str] = set()
    for mention in mentions:
        letters.update(mention.letters)
        kinds.add(str(mention.by))
        if mention.by == "letter":
            named_by_letter.add(mention.letters)
    if len(letters) == 2 and len(named_by_letter) == 1:
        # The letter of one choice with the text of another contradicts itself.
        how = CONTRADICTION
    elif len(letters) > 1:
        how = TWO_ANSWERS
    elif not how:
        how = _how(weight, kinds)
    return Statement(weight, frozenset(letters), how, listed)


def _how(weight: Weight, kinds: set[str]) -> str:
    """Return how choices were named, given the kinds of their mentions."""
    if kinds == {"letter"}:
        # STATED is here a sentence that is nothing but mentions, or that begins like "B) …".
        return "letter alone" if weight == Weight.STATED else "letter in a sentence"
    if kinds == {"unknown"}:
        return "unknown in other words"
    if "letter" in kinds:
        return "letter and text"
    return "choice text"


def _is_bare(low: str) -> bool:
    """Return whether a sentence is nothing but mentions and filler words: ``(B)``, ``B: 손자입니다.``, ``A or B``."""
    if len(low) > _MAX_BARE_LENGTH:
        return False
    without_mentions = low.replace(patterns.TEXT, " ").replace(patterns.LETTER, " ")
    return all(word in patterns.FILLERS for word in patterns.WORD.findall(without_mentions))


# --- clauses: which mentions a sentence asserts -----------------------------------------------------------------------


@dataclass(slots=True)
class _Clause:
    """A part of a sentence; ``begin`` and ``end`` count from the beginning of the sentence."""

    begin: int
    end: int
    mentions: Sequence[Mention]
    not_asserted: bool
    """Whether the clause denies, hedges or disowns its choices, or another clause disowns them."""
    hedged: bool = False
    """Whether the clause calls its choices no more than possible."""


def _asserted(sentence: _Sentence, unknown: str, traits: QuestionTraits) -> Sequence[Mention]:
    """Return the mentions that the sentence asserts.

    A hedged mention counts after an asserted one ("A, but it could be B"), so that the sentence has two answers.
    """
    low = sentence.low
    may_hedge = hedging.may_hedge(low)
    if not _does_not_assert(low, 0, len(low), traits, may_hedge):
        return sentence.mentions
    clauses, has_label = _clauses(sentence, unknown, traits, may_hedge)
    if may_hedge:
        _disown(low, clauses, unknown, traits)
    if has_label and _label_is_rejected(low, clauses, unknown):
        clauses[0].not_asserted = True
    asserted: list[Mention] = []
    for clause in clauses:
        # After an asserted choice, a hedged one leaves open which of the two is the answer. After the unknown choice it
        # does not: "알 수 없으며, A일 수도 있다" (it cannot be known, and it could be A).
        leaves_open = clause.hedged and any(mention.letters != unknown for mention in asserted)
        if not clause.not_asserted or leaves_open:
            asserted += clause.mentions
    return asserted


def _clauses(sentence: _Sentence, unknown: str, traits: QuestionTraits, may_hedge: bool) -> tuple[list[_Clause], bool]:
    """Return the clauses, and whether the first one is a label of the unknown choice, as in ``C - …``.

    The reason why the answer cannot be known follows such a label.
    """
    low = sentence.low
    borders = {0, len(low)}
    for border in patterns.CLAUSE.finditer(low):
        borders.add(border.end())
    label = None
    if unknown and sentence.mentions[0].letters == unknown:
        label = patterns.LABEL.match(low)
    if label is not None:
        # The label is one clause, whatever punctuation it contains.
        borders = {0, label.end()} | {border for border in borders if border > label.end()}
    clauses: list[_Clause] = []
    first_mention = 0
    for begin, end in pairwise(sorted(borders)):
        next_mention = _skip_mentions_before(sentence.mentions, first_mention, sentence.start + end)
        clause = _Clause(begin, end, sentence.mentions[first_mention:next_mention], not_asserted=False)
        if clause.mentions:
            clause.not_asserted = _does_not_assert(low, begin, end, traits, may_hedge)
            clause.hedged = clause.not_asserted and may_hedge and hedging.hedges(low, begin, end, traits)
        clauses.append(clause)
        first_mention = next_mention
    return clauses, label is not None


def _disown(low: str, clauses: Sequence[_Clause], unknown: str, traits: QuestionTraits) -> None:
    """Mark clauses as not asserted if another clause disowns them, for example by calling them a bias.

    Only a clause without mentions disowns another one: the next clause, or the last one before it that has mentions.
    The unknown choice is never disowned.
    """
    last_with_mentions: _Clause | None = None
    for number, clause in enumerate(clauses):
        if clause.mentions:
            last_with_mentions = clause
            continue
        target: _Clause | None = None
        has_next = number + 1 < len(clauses)
        if has_next and hedging.disowns_what_follows(low, clause.begin, clause.end, traits):
            target = clauses[number + 1]
        elif last_with_mentions and hedging.disowns_what_precedes(low, clause.begin, clause.end, traits):
            target = last_with_mentions
        if target is not None and any(mention.letters != unknown for mention in target.mentions):
            target.not_asserted = True


def _label_is_rejected(low: str, clauses: Sequence[_Clause], unknown: str) -> bool:
    """Return whether the clauses after the label of the unknown choice reject that choice."""
    for clause in clauses[1:]:
        if clause.mentions:
            if clause.not_asserted and any(mention.letters == unknown for mention in clause.mentions):
                return True
        elif hedging.REJECTED.search(low, clause.begin, clause.end):
            return True
    return False


def _does_not_assert(low: str, begin: int, end: int, traits: QuestionTraits, may_hedge: bool) -> bool:
    """Return whether a part of a sentence denies, hedges or disowns the choices that it names."""
    if patterns.DENIED.search(low, begin, end):
        return True
    # "The grandson was not" answers the question "Who was not …?". After any other question, it is a denial.
    if not traits.negative and hedging.matches_outright(patterns.NEGATIVE, low, begin, end):
        return True
    if not may_hedge:
        return False
    return hedging.hedges(low, begin, end, traits) or hedging.disowns(low, begin, end, traits)
