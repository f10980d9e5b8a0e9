"""What every perturbation is held to: seeds, rates, options, signatures, errors, and functions of the user's own."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import random
import re
import textwrap
from collections.abc import Iterator

import pytest

from lmassay.errors import ConfigError, PluginError
from lmassay.evaluations.robustness import perturbations
from lmassay.evaluations.robustness.perturbations import (
    Perturber,
    case,
    charswap,
    diacritics,
    homoglyph,
    insert,
    keyboard,
    make_perturber,
    perturb,
    perturbation,
)
from lmassay.plugins.registry import Registry, current_registry
from tests.helpers import EVALUATIONS

ENGLISH = "The quick brown fox, unlike the others, jumps over two lazy dogs."
EXAMPLE = EVALUATIONS / "robustness/starters/my_perturbation.py"


@pytest.fixture
def own_registry() -> Iterator[Registry]:
    with Registry(current_registry()).active() as registry:
        yield registry


def test_the_result_depends_on_line_seed_and_name_only():
    def once(**change: object) -> str:
        settings = {"index": 0, "seed": 0, "rate": 1.0, "name": "charswap", "options": {}} | change
        return perturb(charswap, ENGLISH, **settings)

    assert once() == once()
    assert len({once(), once(index=1), once(seed=1), once(name="other")}) == 4


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), "0.5", True, None])
def test_a_rate_outside_0_to_1_is_refused(rate):
    with pytest.raises(ConfigError, match="rate must be a number from 0 to 1"):
        make_perturber("charswap", rate=rate)
    with pytest.raises(ConfigError, match="rate"):
        perturb(charswap, "text", index=0, seed=0, rate=rate, name="charswap", options={})


@pytest.mark.parametrize("seed", [1.5, "0", True])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(ConfigError, match="seed"):
        make_perturber("charswap", seed=seed)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text, rng, rate: None, "returned None for line 3"),
        (lambda text, rng, rate: text + "\n", "put a line break into line 3"),
        (lambda text, rng, rate: text + "\u2028", "put a line break into line 3"),
        (lambda text, rng, rate: 1 / 0, "failed on line 3 of the text: ZeroDivisionError.*test_contract.py, line"),
    ],
)
def test_what_a_function_does_wrong_is_reported_with_the_line(function, message):
    with pytest.raises(PluginError, match=f"the perturbation mine {message}"):
        Perturber("mine", function)("text", 2)


def test_a_line_break_that_was_there_is_no_error():
    assert Perturber("mine", lambda text, rng, rate: text)("a\u2028b", 0) == "a\u2028b"


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(PluginError, match="did you mean 'charswap'"):
        make_perturber("charswop")


def test_an_unknown_option_gets_a_hint():
    with pytest.raises(ConfigError, match="did you mean 'layout'"):
        make_perturber("keyboard", options={"layot": "azerty"})


@pytest.mark.parametrize("value", [3, None, ["qwerty"], "dvorak"])
def test_an_ill_typed_or_unknown_value_is_refused_with_the_known_ones(value):
    with pytest.raises(ConfigError, match=r"'qwerty', 'azerty', .*'inscript' or 'kana'"):
        make_perturber("keyboard", options={"layout": value})


@pytest.mark.parametrize(
    ("function", "option"),
    [(keyboard, "layout"), (insert, "mode"), (case, "letters"), (diacritics, "mode"), (homoglyph, "kind")],
)
def test_a_wrong_option_is_refused_in_a_direct_call_too(function, option):
    with pytest.raises(ConfigError, match=r"must be one of .*, not 'x'"):
        function("text", random.Random(0), 1, **{option: "x"})


@pytest.mark.parametrize("name", current_registry().names("perturbation"))
def test_every_listed_name_is_exported_and_found(name):
    assert make_perturber(name).function is getattr(perturbations, name)


def test_the_signature_names_all_settings_with_defaults():
    assert make_perturber("charswap").signature == "charswap(rate:0.3|seed:0)"
    assert make_perturber("insert", rate=1, seed=7).signature == "insert(rate:1|seed:7|layout:qwerty|mode:both)"


# The user's own.


def test_the_example_works_from_its_file(own_registry):
    leet = make_perturber(f"{EXAMPLE}:leet", rate=1, options={"signs": "e3t7"})
    assert leet("Letters", 0) == "L3773rs"
    assert re.fullmatch(r"leet\(rate:1\|seed:0\|signs:e3t7\|src:[0-9a-f]{8}\)", leet.signature)


def test_a_relative_file_starts_from_the_base(own_registry):
    assert make_perturber("my_perturbation.py:leet", rate=1, base=EXAMPLE.parent)("sea", 0) == "534"


def test_where_a_file_lies_does_not_change_its_random_numbers(tmp_path):
    source = EXAMPLE.read_text(encoding="utf-8")
    results = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(source, encoding="utf-8")
        with Registry(current_registry()).active():
            results.append(make_perturber(f"{tmp_path / folder / 'mine.py'}:leet", rate=0.5)(ENGLISH, 0))
    assert results[0] == results[1]


def test_the_decorator_registers_a_name(own_registry):
    @perturbation("reverse")
    def backwards(text: str, rng: random.Random, rate: float) -> str:
        return text[::-1]

    assert make_perturber("reverse")("abc", 0) == "cba"


def test_a_built_in_name_cannot_be_taken(own_registry):
    with pytest.raises(PluginError, match="registered twice: first in lmassay itself"):
        perturbation("charswap")(lambda text, rng, rate: text)


def test_hints_that_exist_for_type_checkers_only_do_no_harm(own_registry, tmp_path):
    file = tmp_path / "typed.py"
    file.write_text(
        textwrap.dedent(
            """
            from __future__ import annotations
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from random import Random
            def twice(text: str, rng: Random, rate: float, *, times: int = 2) -> str:
                return text * times
            """
        ),
        encoding="utf-8",
    )
    assert make_perturber(f"{file}:twice")("ab", 0) == "abab"
    assert make_perturber(f"{file}:twice", options={"times": 3})("ab", 0) == "ababab"
    with pytest.raises(ConfigError, match="times"):
        make_perturber(f"{file}:twice", options={"times": "many"})


def test_a_function_with_other_parameters_is_refused(own_registry):
    perturbation("odd")(lambda text: text)
    with pytest.raises(PluginError, match=r"odd must take \(text, rng, rate\)"):
        make_perturber("odd")


def test_what_is_no_function_is_refused(own_registry, tmp_path):
    (tmp_path / "table.py").write_text("table = {}\n", encoding="utf-8")
    with pytest.raises(PluginError, match="is not a perturbation"):
        make_perturber(f"{tmp_path / 'table.py'}:table")


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(perturbations.__path__)])
def test_the_examples_in_docstrings_run(module):
    report = doctest.testmod(importlib.import_module(f"{perturbations.__name__}.{module}"))
    assert report.failed == 0
