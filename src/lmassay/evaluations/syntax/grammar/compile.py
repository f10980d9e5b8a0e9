"""From a parsed template and a lexicon to a template that can be filled; what does not fit together is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lmassay.errors import did_you_mean
from lmassay.evaluations.syntax.grammar.notation import KEYWORDS, ParsedChoice, ParsedSlot, ParsedTemplate
from lmassay.evaluations.syntax.grammar.source import Misfit
from lmassay.evaluations.syntax.grammar.template import Link, Slot, Template, root_of
from lmassay.evaluations.syntax.grammar.words import VERB, Category, Cell, Feature


def compile_template(
    name: str, parsed: ParsedTemplate, categories: Mapping[str, Category], features: Mapping[str, Feature]
) -> Template:
    """Put a parsed template and the lexicon together; everything that does not fit is told."""
    written = [slot for slot in parsed.slots if isinstance(slot, ParsedSlot)]
    for slot in written:
        if slot.category not in categories:
            raise Misfit(f"there is no category '{slot.category}'{did_you_mean(slot.category, categories)}")
    _check_choices_are_words(parsed, categories, features)
    homes = {slot.name: categories[slot.category] for slot in written}
    built: dict[str, Slot] = {}
    for piece in parsed.slots:
        built[piece.name] = _choice(piece) if isinstance(piece, ParsedChoice) else _compile_slot(piece, homes, features)
    marked = [slot for slot in written if slot.contrast is not None]
    if len(marked) != 1:
        raise Misfit(
            f"{len(marked) or 'no'} slots have a contrast; exactly one must, e.g. {{Verb agrees Noun, contrast number}}"
        )
    contrast = built[marked[0].name]
    feature = features[_contrast_feature(marked[0], contrast, features)]
    heads = [slot for slot in written if slot.head]
    if len(heads) > 1:
        raise Misfit(f"the slots '{heads[0].name}' and '{heads[1].name}' are both marked head; mark one of them")
    order = _in_order(built)
    # Only now is it known that following the agreement comes to an end.
    _check_right_is_told(written, contrast, feature, built)
    for place in order:
        _check_words_fit(place, built)
    return Template(
        name=name,
        pattern="%s".join(literal.replace("%", "%%") for literal in parsed.literals),
        order=tuple(slot.name for slot in parsed.slots),
        slots=order,
        contrast=contrast,
        feature=feature,
        head=built[heads[0].name] if heads else root_of(contrast, feature.name, built),
        attractors=_attractors(written, contrast, feature, built),
    )


def _choice(choice: ParsedChoice) -> Slot:
    cells = tuple(Cell(text, text, {}) for text in choice.texts)
    return Slot(choice.name, Category(choice.name, (), (), cells), cells, recorded=choice.recorded)


def _compile_slot(slot: ParsedSlot, homes: Mapping[str, Category], features: Mapping[str, Feature]) -> Slot:
    category = homes[slot.name]
    owner = {value: feature.name for feature in features.values() for value in feature.values}
    fixed: dict[str, str] = {}
    for value in slot.values:
        _require_feature(owner[value], category, slot.name)
        if owner[value] in fixed:
            raise Misfit(f"the slot '{slot.name}' is told to be both {fixed[owner[value]]} and {value}")
        fixed[owner[value]] = value
    links: dict[str, Link] = {}
    for link in _links(slot, homes, features):
        if link.feature in fixed or link.feature in links:
            raise Misfit(f"the slot '{slot.name}' is told twice what its {link.feature} is; say it once")
        links[link.feature] = link
    for target in slot.different:
        _require_slot(target, slot.name, homes)
    cells = tuple(cell for cell in category.cells if all(cell.values[f] == v for f, v in fixed.items()))
    return Slot(slot.name, category, cells, tuple(links.values()), tuple(slot.different))


def _links(slot: ParsedSlot, homes: Mapping[str, Category], features: Mapping[str, Feature]) -> Iterator[Link]:
    here = homes[slot.name]
    for tie in slot.ties:
        _require_slot(tie.target, slot.name, homes)
        there = homes[tie.target]
        if tie.feature is not None:
            if tie.feature not in features:
                raise Misfit(f"there is no feature '{tie.feature}'{did_you_mean(tie.feature, features)}")
            _require_feature(tie.feature, here, slot.name)
            _require_feature(tie.feature, there, tie.target)
        shared = [tie.feature] if tie.feature else [name for name in here.features if name in there.features]
        if not shared:
            raise Misfit(
                f"'{slot.name}' cannot agree with '{tie.target}': the words of '{here.name}' and '{there.name}' "
                f"have no feature in common"
            )
        for name in shared:
            values = features[name].values
            if tie.same:
                yield Link(name, tie.target)
            elif len(values) == 2:
                yield Link(name, tie.target, {values[0]: values[1], values[1]: values[0]})
            else:
                raise Misfit(f"'unlike' needs a feature with two values; {name} has {len(values)}")


def _contrast_feature(parsed: ParsedSlot, slot: Slot, features: Mapping[str, Feature]) -> str:
    name = parsed.contrast or ""
    if name not in features:
        raise Misfit(f"there is no feature '{name}' to contrast{did_you_mean(name, features)}")
    if name not in slot.category.inflects:
        known = ", ".join(slot.category.inflects) or "nothing"
        raise Misfit(f"the slot '{slot.name}' cannot contrast {name}: '{slot.category.name}' inflects for {known}")
    if slot.link(name) is None and not set(parsed.values) & set(features[name].values):
        raise Misfit(
            f"nothing says which {name} is right in the slot '{slot.name}', so both sentences are; "
            f"let it agree with another slot or give it a value"
        )
    return name


def _check_choices_are_words(
    parsed: ParsedTemplate, categories: Mapping[str, Category], features: Mapping[str, Feature]
) -> None:
    """A category inside {a|b} or (a) would be written into the sentence by its name."""
    after = {*KEYWORDS, *(value for feature in features.values() for value in feature.values)}
    for choice in parsed.slots:
        for text in choice.texts if isinstance(choice, ParsedChoice) else ():
            name, *more = text.replace(",", " ").split() or [""]
            if name in categories and (not more or more[0] in after):
                raise Misfit(
                    f"'{text}' is written as it stands in a choice or in (…), but '{name}' is a category; for words of "
                    f"several categories make one, 'Either: {{includes: [{name}, …]}}', and write {{Either}}; for a "
                    f"slot that may be left out write two templates; for the word itself rename the category"
                )


def _check_right_is_told(
    written: Sequence[ParsedSlot], contrast: Slot, feature: Feature, built: Mapping[str, Slot]
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
                raise Misfit(
                    f"the slot '{end.name}' agrees with no other in {feature.name}, but '{root.name}' has a "
                    f"{feature.name} too; write 'agrees {root.name}' in '{end.name}' and leave a value to "
                    f"'{root.name}', or mark '{root.name}' attractor or bystander if it does not decide"
                )


def _check_words_fit(slot: Slot, built: Mapping[str, Slot]) -> None:
    if not slot.cells:
        raise Misfit(f"no word of the category '{slot.category.name}' fits the slot '{slot.name}'")
    for link in slot.links:
        asked = {link.value({link.target: cell}) for cell in built[link.target].cells}
        if asked.isdisjoint(cell.values[link.feature] for cell in slot.cells):
            raise Misfit(
                f"no word fits the slot '{slot.name}': after '{link.target}' its {link.feature} would have to be "
                f"{' or '.join(sorted(asked))}"
            )


def _attractors(
    written: Sequence[ParsedSlot], contrast: Slot, feature: Feature, built: Mapping[str, Slot]
) -> tuple[Slot, ...]:
    """The slots marked so; else, if the feature has labels, all that decide about it and are not marked bystander."""
    for both in (slot for slot in written if slot.attractor and slot.bystander):
        raise Misfit(f"the slot '{both.name}' is marked attractor and bystander; it can be one of them")
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


def _in_order(slots: Mapping[str, Slot]) -> tuple[Slot, ...]:
    """Slots after those they depend on, otherwise as they stand."""
    done: dict[str, Slot] = {}
    waiting = dict(slots)
    while waiting:
        ready = [
            slot
            for slot in waiting.values()
            if all(link.target in done for link in slot.links) and all(name in done for name in slot.different)
        ]
        if not ready:
            names = ", ".join(f"'{name}'" for name in waiting)
            raise Misfit(f"the slots {names} wait for each other; one of them must not refer to the others")
        done[ready[0].name] = waiting.pop(ready[0].name)
    return tuple(done.values())


def _require_slot(target: str, slot: str, homes: Mapping[str, Category]) -> None:
    if target == slot:
        raise Misfit(f"the slot '{slot}' refers to itself; name another slot")
    if target not in homes:
        raise Misfit(f"the slot '{slot}' refers to '{target}', but no slot has that name{did_you_mean(target, homes)}")


def _require_feature(feature: str, category: Category, slot: str) -> None:
    if feature not in category.features:
        known = ", ".join(category.features) or "no feature"
        raise Misfit(f"the slot '{slot}' has no {feature}: the words of '{category.name}' have {known}")
