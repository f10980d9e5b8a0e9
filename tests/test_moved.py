"""Import paths that the documentation of earlier versions named."""

from __future__ import annotations

import importlib
import sys
import warnings

import pytest

from lmassay.moved import MOVED


@pytest.fixture
def fresh():
    """Old modules are imported again, and forgotten afterwards."""
    for name in MOVED:
        sys.modules.pop(name, None)
    yield
    for name in MOVED:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_forwards_to_the_new_one_with_a_warning(fresh, old):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        module = importlib.import_module(old)
    messages = [str(warning.message) for warning in shown if issubclass(warning.category, DeprecationWarning)]
    assert f"{old} has moved to {MOVED[old]}; the old path will be removed in 1.0" in messages
    new = importlib.import_module(MOVED[old])
    public = [name for name in vars(new) if not name.startswith("_")]
    assert public or new.__file__.endswith("__init__.py")
    for name in public:
        assert getattr(module, name) is getattr(new, name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_the_documentation_imported_is_there(fresh):
    from lmassay.fewshot import PVP, DataProcessor, InputExample, PVPOutputPattern
    from lmassay.fewshot.methods.contract import TrainingInputs
    from lmassay.fewshot.splits import split_seeds
    from lmassay.stats import Settings, mean_result, mean_results
    from lmassay.syntax.grammar import load_grammar
    from lmassay.syntax.sentences import MinimalPairs
    from lmassay.syntax.sources import DataSpec
    from lmassay.table import ScoreTable

    documented = [
        PVP,
        DataProcessor,
        InputExample,
        PVPOutputPattern,
        TrainingInputs,
        split_seeds,
        Settings,
        mean_result,
    ]
    assert all([*documented, mean_results, load_grammar, MinimalPairs, DataSpec, ScoreTable])


def test_a_path_that_never_existed_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lmassay.nothing")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("old", MOVED)
def test_a_star_import_brings_the_names(fresh, old):
    module = importlib.import_module(old)
    new = importlib.import_module(MOVED[old])
    expected = getattr(new, "__all__", None) or [name for name in vars(new) if not name.startswith("_")]
    assert set(expected) <= set(module.__all__)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_star_import_in_a_users_file(fresh, tmp_path):
    from lmassay.plugins.registry import Registry

    (tmp_path / "mine.py").write_text("from lmassay.stats import *\n\nfound = mean_results\n", encoding="utf-8")
    assert Registry().load_file(tmp_path / "mine.py").found is not None
