"""Addresses, headers and what the environment may hold."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from lmassay.models.api.client import checked_host, is_loopback
from lmassay.models.api.openai_models import Azure, OpenAICompatible


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://[::1]:8000", True),
        ("http://localhost/v1", True),
        ("http://127.example.com/v1", False),
        ("http://10.0.0.1/v1", False),
    ],
)
def test_a_server_on_this_machine(url, expected):
    assert is_loopback(url) is expected


@pytest.mark.parametrize(
    "url", ["http://h/v1#part", "http://h/v1?key=1", "http://h/v 1", "http://h/v1\n", "http://u:p@h"]
)
def test_an_address_that_would_lead_elsewhere_is_refused(url):
    with pytest.raises(ConfigError, match=r"model\.base_url"):
        checked_host(url)


def test_an_address_with_a_space_is_quoted_once():
    with pytest.raises(ConfigError, match=r"model\.base_url: 'http://h/v 1' contains spaces"):
        checked_host("http://h/v 1")


def test_a_host_that_only_ends_like_the_providers_needs_no_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI"):
        monkeypatch.delenv(name, raising=False)
    OpenAICompatible("m", base_url="https://notopenai.com/v1").check()
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAICompatible("m", base_url="https://eu.api.openai.com/v1").check()


@pytest.mark.parametrize("name", ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
def test_a_header_that_cannot_be_sent_is_an_error_of_check(monkeypatch, name):
    monkeypatch.setenv(name, "ä")
    with pytest.raises(ConfigError, match=name):
        OpenAICompatible("m", base_url="http://127.0.0.1:9/v1").check()


@pytest.mark.parametrize("name", [".", "..", "a/b"])
def test_a_deployment_that_would_change_the_path_is_refused(name):
    with pytest.raises(ConfigError, match="not a valid name of an Azure deployment"):
        Azure(name, endpoint="http://127.0.0.1:9", api_version="v").check()
