"""What the commands that list components do, such as ``lmassay tasks`` and ``lmassay scorers``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from lmassay.cli.console import print_json, warn
from lmassay.cli.table_output import print_sentence, print_table
from lmassay.contracts import Hook, resolve
from lmassay.errors import LmassayError, UserError, did_you_mean
from lmassay.plugins.evaluations import installed_evaluations, unloaded_packages_note
from lmassay.plugins.option_help import ComponentHelp, component_help
from lmassay.plugins.registry import RegistryEntry, current_registry


def list_components(kind: str, names: Sequence[str], as_json: bool, explain: Hook | None = None) -> None:
    """Print a table of all components of a kind; if names are given, explain the options of these components instead.

    ``explain`` is a function (name, component) → ComponentHelp, for components that have parameters which are not
    options. Without it, every parameter of a component's ``__init__`` is taken for an option.
    """
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
        _explain_all(kind, entries, as_json, explain)
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
        rows.append(
            (entry.name, entry.problem or entry.summary, _option_names(kind, entry.name, explain), entry.origin)
        )
    print_table("", ("name", "description", "options", "from"), rows)


def _explain_all(kind: str, entries: Sequence[RegistryEntry], as_json: bool, explain: Hook | None) -> None:
    """Print every option of the components with type, default and meaning, and an example."""
    documents = []
    for entry in entries:
        explanation = ComponentHelp(options=(), example="")
        problem = entry.problem
        try:
            explanation = _help_of(kind, entry.name, explain)
        except LmassayError as error:
            problem = problem or str(error)
        documents.append(
            {
                "name": entry.name,
                "summary": entry.summary,
                "from": entry.origin,
                "problem": problem,
                "options": [asdict(option) for option in explanation.options],
                "example": explanation.example,
            }
        )
        if not as_json:
            _print_explanation(entry, problem or entry.summary, explanation)
    if as_json:
        print_json({f"{kind}s": documents})


def _print_explanation(entry: RegistryEntry, summary: str, explanation: ComponentHelp) -> None:
    print_sentence(f"{entry.name}: {summary} (from {entry.origin})")
    if explanation.options:
        rows = [(option.name, option.type, option.default, option.meaning) for option in explanation.options]
        print_table("", ("option", "type", "default", "meaning"), rows, whole=(0,))
    if explanation.example:
        print_sentence(f"Example: {explanation.example}")


def component_names(kind: str) -> list[str]:
    """Return the names of all components of a kind."""
    return [entry.name for entry in current_registry().entries(kind)]


def _help_of(kind: str, name: str, explain: Hook | None) -> ComponentHelp:
    """Import a component and return its options and an example."""
    component = current_registry().get(kind, name)
    if explain is None:
        return component_help(kind, name, component)
    explanation: ComponentHelp = resolve(explain)(name, component)
    return explanation


def _option_names(kind: str, name: str, explain: Hook | None) -> str:
    """Return the names of a component's options; empty if it cannot be imported."""
    try:
        options = _help_of(kind, name, explain).options
    except LmassayError:
        return ""
    # The options of a group, such as splits.k, are left out: the table has the name of the group.
    return ", ".join(option.name for option in options if "." not in option.name)
