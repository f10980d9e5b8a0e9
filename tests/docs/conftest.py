"""What the commands of a page may need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import Reply, completion, openai_server, prompt_of


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The base URL of an OpenAI-compatible server on loopback."""
    with openai_server(_answer) as running:
        yield running.url


def _answer(body: dict[str, Any], _: int) -> Reply:
    """The first letter where letters are offered, else the prompt's last line."""
    prompt = prompt_of(body)
    return completion("A" if re.search(r"^\(?A[:).]", prompt, re.MULTILINE) else prompt.strip().splitlines()[-1])
