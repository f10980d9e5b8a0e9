"""A template with its lexicon: slots in the order in which they can be filled, and the pairs that come out.

:func:`compile_template` makes one from what the notation says and a lexicon; what does not fit together is reported.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lmassay.errors import did_you_mean
from lmassay.evaluations.syntax.grammar.lexicon import VERB, Feature, WordCategory, WordForm
from lmassay.evaluations.syntax.grammar.notation import KEYWORDS, ParsedChoice, ParsedSlot, ParsedTemplate
from lmassay.evaluations.syntax.grammar.source import GrammarMistake

Filled = dict[str, WordForm]
"""Slot → the word in it."""


@dataclass(frozen=True, slots=True)
class AgreementLink:
    """The slot has the same value of a feature as another slot, or (``swap``) the other one."""

    feature: str
    target: str
    swap: Mapping[str, str] | None = None

    def value(self, filled: Mapping[str, WordForm]) -> str:
        value = filled[self.target].values[self.feature]
        return self.swap[value] if self.swap else value


@dataclass(frozen=True)
class TemplateSlot:
    """A place for a word, and what the word must be like."""

    name: str
    category: WordCategory
    cells: tuple[WordForm, ...]
    links: tuple[AgreementLink, ...] = ()
    different: tuple[str, ...] = ()
    recorded: bool = False

    def link(self, feature: str) -> AgreementLink | None:
        return next((link for link in self.links if link.feature == feature), None)

    def candidates(self, filled: Mapping[str, WordForm]) -> Sequence[WordForm]:
        """The words that fit what stands in the other slots."""
        found = self._groups.get(tuple(link.value(filled) for link in self.links), ())
        if self.different:
            taken = {filled[name].lemma for name in self.different}
            return [cell for cell in found if cell.lemma not in taken]
        return found

    def follow(self, cell: WordForm, filled: Mapping[str, WordForm]) -> WordForm:
        """The same word in the form that the other slots now ask for."""
        changes = {x.feature: x.value(filled) for x in self.links if x.feature in self.category.inflects}
        return self.category.form(cell, changes)

    @property
    def most(self) -> int:
        """No more words than this fit in at a time."""
        return max(map(len, self._groups.values()), default=0)

    @cached_property
    def _groups(self) -> dict[tuple[str, ...], list[WordForm]]:
        groups: dict[tuple[str, ...], list[WordForm]] = {}
        for cell in self.cells:
            groups.setdefault(tuple(cell.values[link.feature] for link in self.links), []).append(cell)
        return groups


@dataclass(frozen=True, slots=True)
class WrittenPair:
    """A minimal pair; ``side`` is the contrast's value in the good sentence."""

    good: str
    bad: str
    template: str
    side: str
    noun: str
    contrast: str
    attractor: str | None
    factors: Mapping[str, str]


@dataclass(frozen=True)
class GrammarTemplate:
    """One pattern. ``slots`` stand in an order in which each depends on earlier ones only."""

    name: str
    pattern: str
    order: tuple[str, ...]
    slots: tuple[TemplateSlot, ...]
    contrast: TemplateSlot
    feature: Feature
    head: TemplateSlot
    attractors: tuple[TemplateSlot, ...]

    @property
    def bound(self) -> int:
        """No more pairs than this come out."""
        return math.prod(slot.most for slot in self.slots) * (len(self.feature.values) - 1)

    def pairs(self, rng: random.Random | None = None) -> Iterator[WrittenPair]:
        """Every pair, in the order of the lexicon; with ``rng``, from a random one on."""
        for filled in self._fill(0, {}, rng):
            good = self._text(filled)
            wrong = self._wrong[filled[self.contrast.name]]
            for cell in rng.sample(wrong, len(wrong)) if rng else wrong:
                bad = self._text(self._with(filled, self.contrast, cell))
                if bad != good and not self._is_right_too(bad, filled):
                    yield self._pair(good, bad, filled)

    def _fill(self, index: int, filled: Filled, rng: random.Random | None) -> Iterator[Filled]:
        if index == len(self.slots):
            yield filled
            return
        slot = self.slots[index]
        cells = slot.candidates(filled)
        start = rng.randrange(len(cells)) if rng and cells else 0
        for step in range(len(cells)):
            filled[slot.name] = cells[(start + step) % len(cells)]
            yield from self._fill(index + 1, filled, rng)

    def _with(self, filled: Filled, slot: TemplateSlot, cell: WordForm) -> Filled:
        """The same words with another form in one slot, and in the slots that agree with it."""
        changed = {**filled, slot.name: cell}
        for other in self._followers[slot.name]:
            changed[other.name] = other.follow(changed[other.name], changed)
        return changed

    def _is_right_too(self, bad: str, filled: Filled) -> bool:
        """Whether the bad sentence has a good reading: 'the sheep jump' is wrong of one sheep only."""
        root = self._root
        readings = self._other_readings.get(filled[root.name], ())
        return any(self._text(self._with(filled, root, reading)) == bad for reading in readings)

    def _pair(self, good: str, bad: str, filled: Filled) -> WrittenPair:
        side = filled[self.contrast.name].values[self.feature.name]
        head = filled[self.head.name]
        factors = {name: head.values[name] for name in self.head.category.inborn}
        for slot in self._recorded:
            factors[slot.name] = filled[slot.name].text or "none"
        attractor = None
        if self.attractors:
            same = all(filled[slot.name].values[self.feature.name] == side for slot in self.attractors)
            attractor = "match" if same else "mismatch"
        elif self.feature.labels:
            attractor = "none"
        return WrittenPair(good, bad, self.name, side, head.lemma, self.contrast.category.contrast, attractor, factors)

    def _text(self, filled: Filled) -> str:
        return " ".join((self.pattern % tuple([filled[name].text for name in self.order])).split())

    @cached_property
    def _root(self) -> TemplateSlot:
        return root_of(self.contrast, self.feature.name, {slot.name: slot for slot in self.slots})

    @cached_property
    def _wrong(self) -> dict[WordForm, list[WordForm]]:
        """Right form → the wrong ones, in the slot with the contrast."""
        return {cell: self._other_forms(self.contrast, cell) for cell in self.contrast.cells}

    @cached_property
    def _other_readings(self) -> dict[WordForm, list[WordForm]]:
        """Words that do not show the value they have, such as 'sheep', where the contrast depends on them."""
        root = self._root
        if root is self.contrast or self.feature.name not in root.category.inflects:
            return {}
        same = {cell: [o for o in self._other_forms(root, cell) if o.text == cell.text] for cell in root.cells}
        return {cell: others for cell, others in same.items() if others}

    def _other_forms(self, slot: TemplateSlot, cell: WordForm) -> list[WordForm]:
        name = self.feature.name
        return [slot.category.form(cell, {name: value}) for value in self.feature.others(cell.values[name])]

    @cached_property
    def _recorded(self) -> list[TemplateSlot]:
        return [slot for slot in self.slots if slot.recorded]

    @cached_property
    def _followers(self) -> dict[str, list[TemplateSlot]]:
        """Slot → the slots that take their form from it, directly or through others."""
        followers: dict[str, list[TemplateSlot]] = {}
        for slot in self.slots:
            reached = {slot.name}
            followers[slot.name] = []
            for other in self.slots:
                if other is not slot and any(link.target in reached for link in other.links):
                    reached.add(other.name)
                    followers[slot.name].append(other)
        return followers


def root_of(slot: TemplateSlot, feature: str, slots: Mapping[str, TemplateSlot]) -> TemplateSlot:
    """The slot that decides about a feature, at the end of the chain of agreement."""
    while (link := slot.link(feature)) is not None:
        slot = slots[link.target]
    return slot


# --- from a parsed template and a lexicon to a template that can be filled --------------------------------------------


def compile_template(
    name: str, parsed: ParsedTemplate, categories: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> GrammarTemplate:
    """Put a parsed template and the lexicon together; everything that does not fit is told."""
    written = [slot for slot in parsed.slots if isinstance(slot, ParsedSlot)]
    for slot in written:
        if slot.category not in categories:
            raise GrammarMistake(f"there is no category '{slot.category}'{did_you_mean(slot.category, categories)}")
    _check_choices_are_words(parsed, categories, features)
    homes = {slot.name: categories[slot.category] for slot in written}
    built: dict[str, TemplateSlot] = {}
    for piece in parsed.slots:
        built[piece.name] = _choice(piece) if isinstance(piece, ParsedChoice) else _compile_slot(piece, homes, features)
    marked = [slot for slot in written if slot.contrast is not None]
    if len(marked) != 1:
        raise GrammarMistake(
            f"{len(marked) or 'no'} slots have a contrast; exactly one must, e.g. {{Verb agrees Noun, contrast number}}"
        )
    contrast = built[marked[0].name]
    feature = features[_contrast_feature(marked[0], contrast, features)]
    heads = [slot for slot in written if slot.head]
    if len(heads) > 1:
        raise GrammarMistake(
            f"the slots '{heads[0].name}' and '{heads[1].name}' are both marked head; mark one of them"
        )
    order = _in_order(built)
    # Only now is it known that following the agreement comes to an end.
    _check_right_is_told(written, contrast, feature, built)
    for place in order:
        _check_words_fit(place, built)
    return GrammarTemplate(
        name=name,
        pattern="%s".join(literal.replace("%", "%%") for literal in parsed.literals),
        order=tuple(slot.name for slot in parsed.slots),
        slots=order,
        contrast=contrast,
        feature=feature,
        head=built[heads[0].name] if heads else root_of(contrast, feature.name, built),
        attractors=_attractors(written, contrast, feature, built),
    )


def _choice(choice: ParsedChoice) -> TemplateSlot:
    cells = tuple(WordForm(text, text, {}) for text in choice.texts)
    return TemplateSlot(choice.name, WordCategory(choice.name, (), (), cells), cells, recorded=choice.recorded)


def _compile_slot(slot: ParsedSlot, homes: Mapping[str, WordCategory], features: Mapping[str, Feature]) -> TemplateSlot:
    category = homes[slot.name]
    owner = {value: feature.name for feature in features.values() for value in feature.values}
    fixed: dict[str, str] = {}
    for value in slot.values:
        _require_feature(owner[value], category, slot.name)
        if owner[value] in fixed:
            raise GrammarMistake(f"the slot '{slot.name}' is told to be both {fixed[owner[value]]} and {value}")
        fixed[owner[value]] = value
    links: dict[str, AgreementLink] = {}
    for link in _links(slot, homes, features):
        if link.feature in fixed or link.feature in links:
            raise GrammarMistake(f"the slot '{slot.name}' is told twice what its {link.feature} is; say it once")
        links[link.feature] = link
    for target in slot.different:
        _require_slot(target, slot.name, homes)
    cells = tuple(cell for cell in category.cells if all(cell.values[f] == v for f, v in fixed.items()))
    return TemplateSlot(slot.name, category, cells, tuple(links.values()), tuple(slot.different))


def _links(
    slot: ParsedSlot, homes: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> Iterator[AgreementLink]:
    here = homes[slot.name]
    for tie in slot.ties:
        _require_slot(tie.target, slot.name, homes)
        there = homes[tie.target]
        if tie.feature is not None:
            if tie.feature not in features:
                raise GrammarMistake(f"there is no feature '{tie.feature}'{did_you_mean(tie.feature, features)}")
            _require_feature(tie.feature, here, slot.name)
            _require_feature(tie.feature, there, tie.target)
        shared = [tie.feature] if tie.feature else [name for name in here.features if name in there.features]
        if not shared:
            raise GrammarMistake(
                f"'{slot.name}' cannot agree with '{tie.target}': the words of '{here.name}' and '{there.name}' "
                f"have no feature in common"
            )
        for name in shared:
            values = features[name].values
            if tie.same:
                yield AgreementLink(name, tie.target)
            elif len(values) == 2:
                yield AgreementLink(name, tie.target, {values[0]: values[1], values[1]: values[0]})
            else:
                raise GrammarMistake(f"'unlike' needs a feature with two values; {name} has {len(values)}")


def _contrast_feature(parsed: ParsedSlot, slot: TemplateSlot, features: Mapping[str, Feature]) -> str:
    name = parsed.contrast or ""
    if name not in features:
        raise GrammarMistake(f"there is no feature '{name}' to contrast{did_you_mean(name, features)}")
    if name not in slot.category.inflects:
        known = ", ".join(slot.category.inflects) or "nothing"
        raise GrammarMistake(
            f"the slot '{slot.name}' cannot contrast {name}: '{slot.category.name}' inflects for {known}"
        )
    if slot.link(name) is None and not set(parsed.values) & set(features[name].values):
        raise GrammarMistake(
            f"nothing says which {name} is right in the slot '{slot.name}', so both sentences are; "
            f"let it agree with another slot or give it a value"
        )
    return name


def _check_choices_are_words(
    parsed: ParsedTemplate, categories: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> None:
    """A category inside {a|b} or (a) would be written into the sentence by its name."""
    after = {*KEYWORDS, *(value for feature in features.values() for value in feature.values)}
    for choice in parsed.slots:
        for text in choice.texts if isinstance(choice, ParsedChoice) else ():
            name, *more = text.replace(",", " ").split() or [""]
            if name in categories and (not more or more[0] in after):
                raise GrammarMistake(
                    f"'{text}' is written as it stands in a choice or in (…), but '{name}' is a category; for words of "
                    f"several categories make one, 'Either: {{includes: [{name}, …]}}', and write {{Either}}; for a "
                    f"slot that may be left out write two templates; for the word itself rename the category"
                )


def _check_right_is_told(
    written: Sequence[ParsedSlot], contrast: TemplateSlot, feature: Feature, built: Mapping[str, TemplateSlot]
) -> None:
    """A value, or another verb, does not tell which word decides what is right: 'the sheep run' and 'runs' both are."""
    end = root_of(contrast, feature.name, built)
    if end is not contrast and not end.category.contrast == contrast.category.contrast == VERB:
        return
    aside = {slot.name for slot in written if slot.attractor or slot.bystander}
    for slot in written:
        if feature.name in built[slot.name].category.features:
            root = root_of(built[slot.name], feature.name, built)
            if root is not end and aside.isdisjoint((slot.name, root.name)):
                raise GrammarMistake(
                    f"the slot '{end.name}' agrees with no other in {feature.name}, but '{root.name}' has a "
                    f"{feature.name} too; write 'agrees {root.name}' in '{end.name}' and leave a value to "
                    f"'{root.name}', or mark '{root.name}' attractor or bystander if it does not decide"
                )


def _check_words_fit(slot: TemplateSlot, built: Mapping[str, TemplateSlot]) -> None:
    if not slot.cells:
        raise GrammarMistake(f"no word of the category '{slot.category.name}' fits the slot '{slot.name}'")
    for link in slot.links:
        asked = {link.value({link.target: cell}) for cell in built[link.target].cells}
        if asked.isdisjoint(cell.values[link.feature] for cell in slot.cells):
            raise GrammarMistake(
                f"no word fits the slot '{slot.name}': after '{link.target}' its {link.feature} would have to be "
                f"{' or '.join(sorted(asked))}"
            )


def _attractors(
    written: Sequence[ParsedSlot], contrast: TemplateSlot, feature: Feature, built: Mapping[str, TemplateSlot]
) -> tuple[TemplateSlot, ...]:
    """The slots marked so; else, if the feature has labels, all that decide about it and are not marked bystander."""
    for both in (slot for slot in written if slot.attractor and slot.bystander):
        raise GrammarMistake(f"the slot '{both.name}' is marked attractor and bystander; it can be one of them")
    marked = [built[slot.name] for slot in written if slot.attractor]
    for slot in marked:
        _require_feature(feature.name, slot.category, slot.name)
    if marked or not feature.labels:
        return tuple(marked)
    roots = [
        root_of(built[s.name], feature.name, built) for s in written if feature.name in built[s.name].category.features
    ]
    aside = {root_of(contrast, feature.name, built).name, *(slot.name for slot in written if slot.bystander)}
    return tuple({root.name: root for root in roots if root.name not in aside}.values())


def _in_order(slots: Mapping[str, TemplateSlot]) -> tuple[TemplateSlot, ...]:
    """Slots after those they depend on, otherwise as they stand."""
    done: dict[str, TemplateSlot] = {}
    waiting = dict(slots)
    while waiting:
        ready = [
            slot
            for slot in waiting.values()
            if all(link.target in done for link in slot.links) and all(name in done for name in slot.different)
        ]
        if not ready:
            names = ", ".join(f"'{name}'" for name in waiting)
            raise GrammarMistake(f"the slots {names} wait for each other; one of them must not refer to the others")
        done[ready[0].name] = waiting.pop(ready[0].name)
    return tuple(done.values())


def _require_slot(target: str, slot: str, homes: Mapping[str, WordCategory]) -> None:
    if target == slot:
        raise GrammarMistake(f"the slot '{slot}' refers to itself; name another slot")
    if target not in homes:
        raise GrammarMistake(
            f"the slot '{slot}' refers to '{target}', but no slot has that name{did_you_mean(target, homes)}"
        )


def _require_feature(feature: str, category: WordCategory, slot: str) -> None:
    if feature not in category.features:
        known = ", ".join(category.features) or "no feature"
        raise GrammarMistake(f"the slot '{slot}' has no {feature}: the words of '{category.name}' have {known}")
