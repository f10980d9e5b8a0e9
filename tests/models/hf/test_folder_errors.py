"""Messages about model folders that a library cannot read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmassay.errors import DataError
from lmassay.models.hf.folder_errors import folder_problem, plain_library_errors

PACKAGES = "lib/python3.12/site-packages"


def _function_of(module: str, file: str) -> Callable[[], None]:
    """Return a function of a module that raises an error, as if the module was installed at this path."""
    namespace: dict[str, Any] = {"__name__": module}
    source = "def fail():\n    raise ValueError('bad value')\n"
    exec(compile(source, file, "exec"), namespace)
    fail: Callable[[], None] = namespace["fail"]
    return fail


def _problem(module: str, file: str, folder: Path) -> str:
    with pytest.raises(ValueError, match="bad value") as caught:
        _function_of(module, file)()
    return folder_problem(folder, caught.value)


def test_the_likely_file_follows_from_the_module_of_the_library(tmp_path):
    file = f"/home/me/venv/{PACKAGES}/transformers/configuration_utils.py"
    problem = _problem("transformers.configuration_utils", file, tmp_path)
    assert problem.endswith("bad value; probably a damaged file: config.json; copy or download it again")
    file = f"/home/me/venv/{PACKAGES}/transformers/generation/utils.py"
    assert "generation_config.json" in _problem("transformers.generation.utils", file, tmp_path)


def test_the_folder_of_the_installation_does_not_matter(tmp_path):
    file = f"/home/me/tokenizers/{PACKAGES}/transformers/configuration_utils.py"
    assert "damaged file: config.json;" in _problem("transformers.configuration_utils", file, tmp_path)


def test_modules_of_lmassay_name_no_file(tmp_path):
    file = f"/home/me/venv/{PACKAGES}/lmassay/models/hf/generation.py"
    assert _problem("lmassay.models.hf.generation", file, tmp_path).endswith("cannot be loaded: bad value")


def test_a_bug_of_lmassay_is_not_reported_as_a_problem_of_the_model(tmp_path):
    file = f"/home/me/torch/{PACKAGES}/lmassay/models/hf/causal.py"
    with pytest.raises(ValueError, match="bad value"), plain_library_errors(tmp_path):
        _function_of("lmassay.models.hf.causal", file)()
    file = f"/home/me/venv/{PACKAGES}/torch/nn/functional.py"
    with pytest.raises(DataError, match="cannot answer: bad value"), plain_library_errors(tmp_path):
        _function_of("torch.nn.functional", file)()
