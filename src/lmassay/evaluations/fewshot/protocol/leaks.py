"""What to know of splits before trusting them: groups in both parts, classes that are missing, splits that repeat."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.fewshot.protocol.splits import Split, Unit

_PURPOSE = {"train": "train on", "dev": "validate on"}


def leaks(splits: Sequence[Split], units: Sequence[Unit]) -> list[int]:
    """For each split, how many groups have examples in both parts."""
    return [len({units[i].group for i in split.train} & {units[i].group for i in split.dev}) for split in splits]


def gaps(
    splits: Sequence[Split],
    units: Sequence[Unit],
    *,
    labels: Sequence[str] | None = None,
    parts: Sequence[str] = ("train", "dev"),
) -> list[str]:
    """Classes (``labels``, else those that occur) without an example in a part, one line each."""
    known = list(dict.fromkeys(unit.label for unit in units)) if labels is None else list(labels)
    notes = []
    for split in splits:
        for part in parts:
            places = split.train if part == "train" else split.dev
            present = {units[i].label for i in places}
            if not places:
                continue
            notes += [
                f"split {split.index}: no example of '{label}' to {_PURPOSE[part]}"
                for label in known
                if label not in present
            ]
    return notes


def repeats(splits: Sequence[Split]) -> list[str]:
    """Splits that part the examples as an earlier one does: they add a training, but no evidence."""
    first: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    notes = []
    for split in splits:
        key = (tuple(sorted(split.train)), tuple(sorted(split.dev)))
        if key in first:
            notes.append(f"split {split.index} parts the examples as split {first[key]} does")
        first.setdefault(key, split.index)
    return notes
