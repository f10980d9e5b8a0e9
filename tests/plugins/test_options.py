"""Options of plug-ins: secrets are not stored, and an unknown key is reported before its value is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from lmassay.errors import ConfigError, MissingExtra
from lmassay.plugins.options import checked_options, options_model
from lmassay.plugins.registry import current_registry, kinds
from lmassay.redaction import is_secret_option, redact
from tests.helpers import lmassay

_SECRET = "inline-secret-4455"


class Own:
    def __init__(self, api_key: str = "", client: dict | None = None, credentials: Path = Path(), **more: object):
        self.api_key = api_key


def checked(**options):
    return checked_options(Own, options, Path(), "model")


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "OPENAI_API_KEY",
        "x-api-key",
        "token",
        "hf_token",
        "auth_token",
        "client_secret",
        "openai_key",
        "huggingface_token",
        "api_keys",
        "Ocp-Apim-Subscription-Key",
        "password",
    ],
)
def test_a_secret_that_is_written_out_is_refused_with_the_remedy(name):
    with pytest.raises(ConfigError, match=r"model\.\S+: a secret .* write '\$\{\w+\}' and export") as caught:
        checked(**{name: _SECRET})
    assert _SECRET not in str(caught.value)


def test_a_variable_that_was_filled_in_further_out_is_no_secret_written_out(monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "from-the-environment-77")
    options = {"client": {"api_key": "${JUDGE_API_KEY}"}}
    outer = checked(**options)
    assert checked(api_key=outer["client"]["api_key"])["api_key"] == "from-the-environment-77"
    assert "from-the-environment-77" not in redact("it is from-the-environment-77")


def test_names_in_a_mapping_of_ones_own_may_mean_anything():
    labels = {"secret": "geheim", "password": "Losung"}
    assert checked(labels=labels)["labels"] == labels
    assert checked(token="[MASK]")["token"] == "[MASK]"


@pytest.mark.parametrize("value", [{"api_key": _SECRET}, {"headers": {"Authorization": f"Bearer {_SECRET}"}}])
def test_a_secret_further_inside_is_found(value):
    with pytest.raises(ConfigError, match="a secret would be stored"):
        checked(client=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", "30"),
        ("pad_token", "<pad>"),
        ("tokenizer", "mine/tokenizer"),
        ("key_column", "id"),
        ("api_key_env", "MY_KEY"),
        ("password_file", "here.txt"),
        ("token", 7),
        ("use_auth_token", True),
        ("api_key", ""),
        ("credentials", "account.json"),
    ],
)
def test_what_is_only_called_like_one_is_taken(name, value):
    assert name in checked(**{name: value})


def test_a_variable_is_filled_in_and_blanked_out_wherever_it_turns_up(monkeypatch):
    monkeypatch.setenv("PLAIN", "value-of-a-variable")
    assert checked(api_key="${PLAIN}")["api_key"] == "value-of-a-variable"
    assert redact("it is value-of-a-variable") == "it is [redacted]"


def test_no_option_of_our_own_is_called_like_a_secret():
    for kind, names in ((kind, current_registry().names(kind)) for kind in kinds()):
        for name in names:
            try:
                options = options_model(current_registry().get(kind, name)).model_fields
            except (MissingExtra, ConfigError):
                continue
            assert not [option for option in options if is_secret_option(option)], (kind, name)


def test_an_unknown_key_is_reported_rather_than_its_variable(monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)

    class Strict:
        def __init__(self, model: str):
            self.model = model

    with pytest.raises(ConfigError, match=r"^model\.api_key: unknown key") as caught:
        checked_options(Strict, {"model": "${NOT_SET}", "api_key": "${NOT_SET}"}, Path(), "model")
    assert "NOT_SET" not in str(caught.value)


def test_the_card_keeps_no_secret(tmp_path):
    (tmp_path / "my.py").write_text(
        "class M:\n    name, can = 'm', frozenset({'generate'})\n    identity = dict\n"
        "    def __init__(self, api_key: str):\n        self.key = api_key\n"
        "    def generate(self, requests):\n        return [r.prompt + self.key for r in requests]\n",
        encoding="utf-8",
    )
    for extra in ([], ["--write", "parts"]):
        done = lmassay("card", f'{{name: "my.py:M", api_key: "{_SECRET}"}}', *extra, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error: model.api_key: a secret would be stored with the results; write '${API_KEY}' and export API_KEY\n"
        )
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["my.py"]


class Choices:
    def __init__(
        self,
        data: str | dict[str, str | list[str]] = "",
        alpha: float | Literal["sum"] = 1.0,
        files: tuple[Path, ...] = (),
    ) -> None:
        pass


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"data": 3}, "task.data"),
        ({"data": {"test": 3}}, "task.data.test"),
        ({"data": {"[MASK]": 3}}, "task.data.[MASK]"),
        ({"alpha": "total"}, "task.alpha"),
    ],
)
def test_the_path_of_a_wrong_value_does_not_name_the_types_of_a_union(options, path):
    with pytest.raises(ConfigError) as caught:
        checked_options(Choices, options, Path(), "task")
    paths = [line.partition(": ")[0] for line in str(caught.value).splitlines()]
    assert path in paths
    assert set(paths) <= {path, path.rpartition(".")[0]}


def test_paths_in_a_tuple_start_at_the_folder_of_the_configuration(tmp_path):
    arguments = checked_options(Choices, {"files": ["a.txt", "b.txt"]}, tmp_path, "task")
    assert arguments["files"] == (tmp_path.resolve() / "a.txt", tmp_path.resolve() / "b.txt")


def test_a_configuration_cannot_read_standard_input():
    with pytest.raises(ConfigError, match=r"model\.credentials: a configuration cannot read standard input \(-\)"):
        checked(credentials="-")
