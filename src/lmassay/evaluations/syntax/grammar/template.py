"""Templates in a form that can be filled with words, and the minimal pairs that result.

:func:`compile_template` builds one from a parsed template and the lexicon, and reports what does not fit together.
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
"""Slot → the form in it."""


@dataclass(frozen=True, slots=True)
class AgreementLink:
    """The slot has the same value of a feature as the slot ``target`` or, with ``swap``, the value that it maps to."""

    feature: str
    target: str
    swap: Mapping[str, str] | None = None

    def value(self, filled: Mapping[str, WordForm]) -> str:
        """Return the value that the word must have, given the words in the other slots."""
        value = filled[self.target].values[self.feature]
        return self.swap[value] if self.swap else value


@dataclass(frozen=True)
class TemplateSlot:
    """A slot, and what the word in it must be like."""

    name: str
    category: WordCategory
    forms: tuple[WordForm, ...]
    links: tuple[AgreementLink, ...] = ()
    different: tuple[str, ...] = ()
    recorded: bool = False

    def link(self, feature: str) -> AgreementLink | None:
        """Return the link that decides about a feature, or None."""
        for link in self.links:
            if link.feature == feature:
                return link
        return None

    def candidates(self, filled: Mapping[str, WordForm]) -> Sequence[WordForm]:
        """Return the forms that fit what is in the other slots."""
        values = tuple(link.value(filled) for link in self.links)
        fitting = self._forms_by_values.get(values, ())
        if not self.different:
            return fitting
        used_lemmas = {filled[name].lemma for name in self.different}
        return [form for form in fitting if form.lemma not in used_lemmas]

    def follow(self, form: WordForm, filled: Mapping[str, WordForm]) -> WordForm:
        """Return the same word in the form that the other slots now require."""
        changes = {}
        for link in self.links:
            if link.feature in self.category.inflects:
                changes[link.feature] = link.value(filled)
        return self.category.form(form, changes)

    @property
    def most_candidates(self) -> int:
        """An upper bound of how many forms fit at a time."""
        return max(map(len, self._forms_by_values.values()), default=0)

    @cached_property
    def _forms_by_values(self) -> dict[tuple[str, ...], list[WordForm]]:
        """Values of the linked features → the forms that have them."""
        by_values: dict[tuple[str, ...], list[WordForm]] = {}
        for form in self.forms:
            values = tuple(form.values[link.feature] for link in self.links)
            by_values.setdefault(values, []).append(form)
        return by_values


@dataclass(frozen=True, slots=True)
class WrittenPair:
    """A minimal pair.

    ``side`` is the contrasted feature's value in the good sentence, ``noun`` is the head word, ``contrast`` is the kind
    of word that differs, and ``factors`` are further fields of the row.
    """

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
    """A template; its ``slots`` are in an order in which each depends on earlier ones only.

    ``order`` has the names of the slots in the order of the sentence, and ``pattern`` has a ``%s`` for each of them.
    """

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
        """An upper bound of the number of pairs."""
        # An upper bound, because the choice in one slot may leave fewer candidates for another.
        ways_to_fill = math.prod(slot.most_candidates for slot in self.slots)
        wrong_values = len(self.feature.values) - 1
        return ways_to_fill * wrong_values

    def pairs(self, rng: random.Random | None = None) -> Iterator[WrittenPair]:
        """Yield every pair, in the order of the lexicon; with ``rng``, beginning with a random one.

        Pairs whose bad sentence is equal to the good one, or grammatical in another reading, are left out.
        """
        for filled in self._fill(0, {}, rng):
            good = self._text(filled)
            wrong_forms = self._wrong_forms[filled[self.contrast.name]]
            if rng:
                wrong_forms = rng.sample(wrong_forms, len(wrong_forms))
            for form in wrong_forms:
                bad = self._text(self._with(filled, self.contrast, form))
                if bad != good and not self._is_right_too(bad, filled):
                    yield self._pair(good, bad, filled)

    def _fill(self, index: int, filled: Filled, rng: random.Random | None) -> Iterator[Filled]:
        """Yield every way to fill the slots from ``index`` on; the same dictionary is yielded each time."""
        if index == len(self.slots):
            yield filled
            return
        slot = self.slots[index]
        forms = slot.candidates(filled)
        # A random start in each slot gives varied pairs without listing all of them first: there may be millions.
        start = rng.randrange(len(forms)) if rng and forms else 0
        for step in range(len(forms)):
            filled[slot.name] = forms[(start + step) % len(forms)]
            yield from self._fill(index + 1, filled, rng)

    def _with(self, filled: Filled, slot: TemplateSlot, form: WordForm) -> Filled:
        """Return the same words with another form in one slot, and in the slots that agree with it."""
        changed = {**filled, slot.name: form}
        # Followers are in the order of dependence, so each finds the new forms of those it agrees with.
        for other in self._followers[slot.name]:
            changed[other.name] = other.follow(changed[other.name], changed)
        return changed

    def _is_right_too(self, bad: str, filled: Filled) -> bool:
        """Return True if the bad sentence has a good reading: 'the sheep jump' is wrong for one sheep only."""
        root = self._root
        readings = self._other_readings.get(filled[root.name], ())
        return any(self._text(self._with(filled, root, reading)) == bad for reading in readings)

    def _pair(self, good: str, bad: str, filled: Filled) -> WrittenPair:
        side = filled[self.contrast.name].values[self.feature.name]
        head = filled[self.head.name]
        factors = {name: head.values[name] for name in self.head.category.inherent}
        for slot in self._recorded:
            factors[slot.name] = filled[slot.name].text or "none"
        attractor = None
        if self.attractors:
            # One noun between subject and verb that differs from the subject is enough to mislead a model.
            attractor = "match"
            for slot in self.attractors:
                if filled[slot.name].values[self.feature.name] != side:
                    attractor = "mismatch"
        elif self.feature.labels:
            attractor = "none"
        return WrittenPair(good, bad, self.name, side, head.lemma, self.contrast.category.contrast, attractor, factors)

    def _text(self, filled: Filled) -> str:
        """Return the sentence with these words."""
        # Formatting a pattern is faster than joining; empty choices leave double spaces, which split() removes.
        words = tuple([filled[name].text for name in self.order])
        return " ".join((self.pattern % words).split())

    @cached_property
    def _root(self) -> TemplateSlot:
        return root_of(self.contrast, self.feature.name, {slot.name: slot for slot in self.slots})

    @cached_property
    def _wrong_forms(self) -> dict[WordForm, list[WordForm]]:
        """Right form → the wrong ones, in the slot with the contrast."""
        return {form: self._other_forms(self.contrast, form) for form in self.contrast.forms}

    @cached_property
    def _other_readings(self) -> dict[WordForm, list[WordForm]]:
        """Form of the root slot → forms with another value but the same text, such as singular and plural 'sheep'."""
        root = self._root
        if root is self.contrast or self.feature.name not in root.category.inflects:
            return {}
        readings = {}
        for form in root.forms:
            same_text = [other for other in self._other_forms(root, form) if other.text == form.text]
            if same_text:
                readings[form] = same_text
        return readings

    def _other_forms(self, slot: TemplateSlot, form: WordForm) -> list[WordForm]:
        """Return the word with each other value of the contrasted feature."""
        name = self.feature.name
        other_values = self.feature.others(form.values[name])
        return [slot.category.form(form, {name: value}) for value in other_values]

    @cached_property
    def _recorded(self) -> list[TemplateSlot]:
        return [slot for slot in self.slots if slot.recorded]

    @cached_property
    def _followers(self) -> dict[str, list[TemplateSlot]]:
        """Return slot → the slots that take their form from it, directly or through others."""
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
    """Return the slot that decides about a feature, at the end of the chain of agreement."""
    link = slot.link(feature)
    while link is not None:
        slot = slots[link.target]
        link = slot.link(feature)
    return slot


# --- from a parsed template and a lexicon to a template that can be filled --------------------------------------------


def compile_template(
    name: str, parsed: ParsedTemplate, categories: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> GrammarTemplate:
    """Build a template from a parsed one and the lexicon, or raise a GrammarMistake for the first mistake."""
    parsed_slots = [slot for slot in parsed.slots if isinstance(slot, ParsedSlot)]
    for slot in parsed_slots:
        if slot.category not in categories:
            raise GrammarMistake(f"there is no category '{slot.category}'{did_you_mean(slot.category, categories)}")
    _check_choices_are_words(parsed, categories, features)
    category_of = {slot.name: categories[slot.category] for slot in parsed_slots}
    slots: dict[str, TemplateSlot] = {}
    for piece in parsed.slots:
        if isinstance(piece, ParsedChoice):
            slots[piece.name] = _choice(piece)
        else:
            slots[piece.name] = _compile_slot(piece, category_of, features)
    contrasted = [slot for slot in parsed_slots if slot.contrast is not None]
    if len(contrasted) != 1:
        raise GrammarMistake(
            f"{len(contrasted) or 'no'} slots have a contrast; exactly one must, "
            "e.g. {Verb agrees Noun, contrast number}"
        )
    contrast = slots[contrasted[0].name]
    feature = features[_contrast_feature(contrasted[0], contrast, features)]
    heads = [slot for slot in parsed_slots if slot.head]
    if len(heads) > 1:
        raise GrammarMistake(
            f"the slots '{heads[0].name}' and '{heads[1].name}' are both marked head; mark one of them"
        )
    # This raises an error if slots depend on each other in a circle. The next checks follow the agreement from slot to
    # slot, so without it they might never end.
    ordered_slots = _in_order(slots)
    _check_right_is_determined(parsed_slots, contrast, feature, slots)
    for ordered in ordered_slots:
        _check_words_fit(ordered, slots)
    if heads:
        head = slots[heads[0].name]
    else:
        head = root_of(contrast, feature.name, slots)
    # Sentences are written with the % operator, so per cent signs of the template itself are doubled.
    escaped_literals = [literal.replace("%", "%%") for literal in parsed.literals]
    return GrammarTemplate(
        name=name,
        pattern="%s".join(escaped_literals),
        order=tuple(slot.name for slot in parsed.slots),
        slots=ordered_slots,
        contrast=contrast,
        feature=feature,
        head=head,
        attractors=_attractors(parsed_slots, contrast, feature, slots),
    )


def _choice(choice: ParsedChoice) -> TemplateSlot:
    """Return a choice as a slot whose category has its texts as words."""
    forms = tuple(WordForm(text, text, {}) for text in choice.texts)
    return TemplateSlot(choice.name, WordCategory(choice.name, (), (), forms), forms, recorded=choice.recorded)


def _compile_slot(
    slot: ParsedSlot, category_of: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> TemplateSlot:
    """Look up the category of a slot, and turn its conditions into forms, links and slots it must differ from."""
    category = category_of[slot.name]
    feature_of_value: dict[str, str] = {}
    for known_feature in features.values():
        feature_of_value |= dict.fromkeys(known_feature.values, known_feature.name)
    fixed: dict[str, str] = {}
    for value in slot.values:
        feature = feature_of_value[value]
        _require_feature(feature, category, slot.name)
        if feature in fixed:
            raise GrammarMistake(f"the slot '{slot.name}' cannot be both {fixed[feature]} and {value}")
        fixed[feature] = value
    links: dict[str, AgreementLink] = {}
    for link in _links(slot, category_of, features):
        if link.feature in fixed or link.feature in links:
            raise GrammarMistake(f"the {link.feature} of the slot '{slot.name}' is given twice; give it once")
        links[link.feature] = link
    for target in slot.different:
        _require_slot(target, slot.name, category_of)
    forms = []
    for form in category.forms:
        if all(form.values[feature] == value for feature, value in fixed.items()):
            forms.append(form)
    return TemplateSlot(slot.name, category, tuple(forms), tuple(links.values()), tuple(slot.different))


def _links(
    slot: ParsedSlot, category_of: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> Iterator[AgreementLink]:
    """Yield a link for every feature that one of the slot's ties is about."""
    here = category_of[slot.name]
    for tie in slot.ties:
        _require_slot(tie.target, slot.name, category_of)
        there = category_of[tie.target]
        if tie.feature is not None:
            if tie.feature not in features:
                raise GrammarMistake(f"there is no feature '{tie.feature}'{did_you_mean(tie.feature, features)}")
            _require_feature(tie.feature, here, slot.name)
            _require_feature(tie.feature, there, tie.target)
            shared = [tie.feature]
        else:
            shared = [name for name in here.features if name in there.features]
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
                first, second = values
                yield AgreementLink(name, tie.target, {first: second, second: first})
            else:
                # Of three values, two are unlike the other one, and nothing says which of them is meant.
                raise GrammarMistake(f"'unlike' needs a feature with two values; {name} has {len(values)}")


def _contrast_feature(parsed: ParsedSlot, slot: TemplateSlot, features: Mapping[str, Feature]) -> str:
    """Return the contrasted feature, after checking that it is known and determined."""
    name = parsed.contrast or ""
    if name not in features:
        raise GrammarMistake(f"there is no feature '{name}' to contrast{did_you_mean(name, features)}")
    if name not in slot.category.inflects:
        inflected = ", ".join(slot.category.inflects) or "nothing"
        raise GrammarMistake(
            f"the slot '{slot.name}' cannot contrast {name}: '{slot.category.name}' inflects for {inflected}"
        )
    if slot.link(name) is None and not set(parsed.values) & set(features[name].values):
        raise GrammarMistake(
            f"nothing says which {name} is right in the slot '{slot.name}', so both sentences are "
            f"right; let it agree with another slot or give it a value"
        )
    return name


def _check_choices_are_words(
    parsed: ParsedTemplate, categories: Mapping[str, WordCategory], features: Mapping[str, Feature]
) -> None:
    """Raise if {a|b} or (a) contains a category, whose name would be written into the sentence."""
    slot_words = set(KEYWORDS)
    for feature in features.values():
        slot_words.update(feature.values)
    for choice in parsed.slots:
        if not isinstance(choice, ParsedChoice):
            continue
        for text in choice.texts:
            name, *following = text.replace(",", " ").split() or [""]
            if name in categories and (not following or following[0] in slot_words):
                raise GrammarMistake(
                    f"'{text}' in a choice or in (…) is written as it is, but '{name}' is a category; for words of "
                    f"several categories, define 'Either: {{includes: [{name}, …]}}' and write {{Either}}; for an "
                    f"optional slot, write two templates; for the word itself, rename the category"
                )


def _check_right_is_determined(
    parsed_slots: Sequence[ParsedSlot], contrast: TemplateSlot, feature: Feature, slots: Mapping[str, TemplateSlot]
) -> None:
    """Raise if nothing determines which form is right.

    A fixed value or another verb does not say which word decides: both 'the sheep run' and 'the sheep runs' are right.
    """
    decisive = root_of(contrast, feature.name, slots)
    agrees_with_verb = decisive.category.contrast == contrast.category.contrast == VERB
    if decisive is not contrast and not agrees_with_verb:
        return
    not_decisive = {slot.name for slot in parsed_slots if slot.attractor or slot.bystander}
    for slot in parsed_slots:
        if feature.name not in slots[slot.name].category.features:
            continue
        root = root_of(slots[slot.name], feature.name, slots)
        if root is not decisive and not_decisive.isdisjoint((slot.name, root.name)):
            raise GrammarMistake(
                f"the slot '{decisive.name}' agrees with no other in {feature.name}, but '{root.name}' has a "
                f"{feature.name} too; write 'agrees {root.name}' in '{decisive.name}' and give a value, if any, in "
                f"'{root.name}', or mark '{root.name}' attractor or bystander if it does not decide"
            )


def _check_words_fit(slot: TemplateSlot, slots: Mapping[str, TemplateSlot]) -> None:
    if not slot.forms:
        raise GrammarMistake(f"no word of the category '{slot.category.name}' fits the slot '{slot.name}'")
    for link in slot.links:
        required = {link.value({link.target: form}) for form in slots[link.target].forms}
        available = {form.values[link.feature] for form in slot.forms}
        if required.isdisjoint(available):
            raise GrammarMistake(
                f"no word fits the slot '{slot.name}': after '{link.target}' its {link.feature} would have to be "
                f"{' or '.join(sorted(required))}"
            )


def _attractors(
    parsed_slots: Sequence[ParsedSlot], contrast: TemplateSlot, feature: Feature, slots: Mapping[str, TemplateSlot]
) -> tuple[TemplateSlot, ...]:
    """Return the slots that may distract from the one that the contrast agrees with.

    These are the slots marked as attractor. If none is marked and the feature has labels, they are all slots that
    decide about the feature of a word, except the one that decides about the contrast, and except bystanders.
    """
    marked = []
    bystanders = set()
    for parsed in parsed_slots:
        if parsed.attractor and parsed.bystander:
            raise GrammarMistake(
                f"the slot '{parsed.name}' is marked attractor and bystander; it can be only one of them"
            )
        if parsed.bystander:
            bystanders.add(parsed.name)
        if parsed.attractor:
            marked.append(slots[parsed.name])
    for slot in marked:
        _require_feature(feature.name, slot.category, slot.name)
    if marked or not feature.labels:
        return tuple(marked)
    excluded = {root_of(contrast, feature.name, slots).name, *bystanders}
    attractors: dict[str, TemplateSlot] = {}
    for parsed in parsed_slots:
        slot = slots[parsed.name]
        if feature.name not in slot.category.features:
            continue
        root = root_of(slot, feature.name, slots)
        if root.name not in excluded:
            attractors[root.name] = root
    return tuple(attractors.values())


def _in_order(slots: Mapping[str, TemplateSlot]) -> tuple[TemplateSlot, ...]:
    """Return the slots after those they depend on, otherwise in the order of the template."""
    ordered: dict[str, TemplateSlot] = {}
    waiting = dict(slots)
    while waiting:
        for name, slot in waiting.items():
            dependencies = [link.target for link in slot.links]
            dependencies += slot.different
            if all(dependency in ordered for dependency in dependencies):
                ordered[name] = waiting.pop(name)
                # The dictionary has changed, so the search begins again, with the first slot of the template.
                break
        else:
            # No slot could be placed: the remaining ones wait for each other.
            names = ", ".join(f"'{name}'" for name in waiting)
            raise GrammarMistake(f"the slots {names} depend on each other; one of them must not refer to the others")
    return tuple(ordered.values())


def _require_slot(target: str, slot: str, category_of: Mapping[str, WordCategory]) -> None:
    if target == slot:
        raise GrammarMistake(f"the slot '{slot}' refers to itself; name another slot")
    if target not in category_of:
        raise GrammarMistake(
            f"the slot '{slot}' refers to '{target}', but no slot has that name{did_you_mean(target, category_of)}"
        )


def _require_feature(feature: str, category: WordCategory, slot: str) -> None:
    if feature not in category.features:
        features = ", ".join(category.features) or "no feature"
        raise GrammarMistake(f"the slot '{slot}' has no {feature}: the words of '{category.name}' have {features}")
