"""Fixtures of the syntax tests."""

from __future__ import annotations

import pytest
import yaml

from lmassay.evaluations.syntax.grammar.grammar import load_grammar
from tests.evaluations.syntax.grammars import SMALL


@pytest.fixture
def written(tmp_path):
    """Loads SMALL with other constructions, or with other entries in its lexicon."""

    def load(constructions=None, **lexicon):
        data = yaml.safe_load(SMALL)
        data["lexicon"] |= lexicon
        data["constructions"] = constructions or data["constructions"]
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=1000), encoding="utf-8")
        return load_grammar(path)

    return load
