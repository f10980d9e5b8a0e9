"""Formats counts, lists of names, durations, languages and titles of runs for sentences and headings."""

from __future__ import annotations

from collections.abc import Sequence

NO_MODEL = "none"
"""What is recorded as the model of a run without a model. :func:`model_name` shows it as ``no model``."""


def model_name(model: str) -> str:
    """Return the label of a model for a heading or a list; ``no model`` for a run without a model."""
    return "no model" if model in ("", NO_MODEL) else model


def run_title(label: str, model: str) -> str:
    """Return the label of a run with its model, if the run has one.

    >>> run_title("charswap", "opus-mt"), run_title("ridge", NO_MODEL)
    ('charswap on opus-mt', 'ridge')
    """
    if model in ("", NO_MODEL):
        return label
    return f"{label} on {model}"


_LANGUAGES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "he": "Hebrew",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}


def language_name(code: str) -> str:
    """Return the English name of a language in a form that can follow the word "in".

    >>> language_name("ko"), language_name("eo")
    ('Korean', "the language 'eo'")
    """
    return _LANGUAGES.get(code, f"the language '{code}'")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with a noun in the singular or plural.

    >>> counted(1, "run"), counted(2000, "run"), counted(0, "reply", "replies")
    ('1 run', '2,000 runs', '0 replies')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {plural or noun + 's'}"


def enumerated(names: Sequence[str], most: int | None = None) -> str:
    """Return names joined by commas and "and". If there are more than ``most``, count the rest instead of naming it.

    >>> enumerated(["a"]), enumerated(["a", "b", "c"]), enumerated(["a", "b", "c"], 2)
    ('a', 'a, b and c', 'a, b and 1 more')
    """
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    if len(names) > 1:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return "".join(names)


def duration_text(seconds: float) -> str:
    """Return a duration as minutes and seconds, with hours if there are any.

    >>> duration_text(65), duration_text(7384)
    ('1:05', '2:03:04')
    """
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{remaining_seconds:02}"
    return f"{minutes}:{remaining_seconds:02}"
