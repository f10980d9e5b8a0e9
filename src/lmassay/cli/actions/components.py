"""What the commands that list components do."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lmassay.cli.console import print_json, warn
from lmassay.cli.table_output import print_sentence, print_table
from lmassay.errors import LmassayError, UserError, did_you_mean
from lmassay.plugins.evaluations import installed_evaluations, unloaded_packages_note
from lmassay.plugins.option_help import OptionHelp, example_of, options_of
from lmassay.plugins.options import options_model
from lmassay.plugins.registry import RegistryEntry, current_registry

# Parameters of a perturbation function that lmassay passes itself.
_NOT_OPTIONS = ("text", "rng")


def list_components(kind: str, names: Sequence[str], as_json: bool) -> None:
    """Print the components of a kind with their options; only the named ones if names are given."""
    known_names = component_names(kind)
    for name in names:
        if name not in known_names:
            hint = did_you_mean(name, known_names)
            raise UserError(f"there is no {kind} '{name}'{hint}{unloaded_packages_note()}")
    for problem in installed_evaluations().problems:
        if problem.is_left_out:
            warn(f"{problem.message}; see lmassay doctor")
    entries = [entry for entry in current_registry().entries(kind) if not names or entry.name in names]
    if names:
        _explain(kind, entries, as_json)
        return
    if as_json:
        documents = []
        for entry in entries:
            documents.append(
                {"name": entry.name, "summary": entry.summary, "from": entry.origin, "problem": entry.problem}
            )
        print_json({f"{kind}s": documents})
        return
    rows = []
    for entry in entries:
        rows.append((entry.name, entry.problem or entry.summary, _options(kind, entry.name), entry.origin))
    print_table("", ("name", "description", "options", "from"), rows)


def _explain(kind: str, entries: Sequence[RegistryEntry], as_json: bool) -> None:
    """Print every option of the components with type, default and meaning, and an example."""
    documents = []
    for entry in entries:
        factory: Any = None
        options: list[OptionHelp] = []
        problem = entry.problem
        try:
            factory = current_registry().get(kind, entry.name)
            hidden = _NOT_OPTIONS if inspect.isfunction(factory) else ()
            options = [option for option in options_of(factory) if option.name not in hidden]
        except LmassayError as error:
            problem = problem or str(error)
        example = "" if factory is None else example_of(kind, entry.name, factory)
        documents.append(
            {
                "name": entry.name,
                "summary": entry.summary,
                "from": entry.origin,
                "problem": problem,
                "options": [asdict(option) for option in options],
                "example": example,
            }
        )
        if not as_json:
            _print_explanation(entry, problem or entry.summary, options, example)
    if as_json:
        print_json({f"{kind}s": documents})


def _print_explanation(entry: RegistryEntry, summary: str, options: Sequence[OptionHelp], example: str) -> None:
    print_sentence(f"{entry.name}: {summary} (from {entry.origin})")
    if options:
        rows = [(option.name, option.type, option.default, option.meaning) for option in options]
        print_table("", ("option", "type", "default", "meaning"), rows, whole=(0,))
    if example:
        print_sentence(f"Example: {example}")


def component_names(kind: str) -> list[str]:
    """Return the names of all components of a kind."""
    return [entry.name for entry in current_registry().entries(kind)]


def _options(kind: str, name: str) -> str:
    """Return the options of a component; empty if it cannot be imported."""
    try:
        factory: Any = current_registry().get(kind, name)
        fields = options_model(factory).model_fields
    except LmassayError:
        return ""
    hidden = _NOT_OPTIONS if inspect.isfunction(factory) else ()
    return ", ".join(field for field in fields if field not in hidden)
