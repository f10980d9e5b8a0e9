"""OpenAI, Azure OpenAI, CLOVA X, and any other server with OpenAI's protocol: vLLM, llama.cpp, Ollama …"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from lmassay.budget import Prices
from lmassay.errors import ConfigError
from lmassay.models.api.base import ApiModel, Batching
from lmassay.models.api.batch_services import OpenAIBatches
from lmassay.models.api.client import ApiKey, Endpoint, first_set, header_value
from lmassay.models.api.concurrency import RequestPolicy
from lmassay.models.api.dialects import Constrain, OpenAIDialect, Temperature, TokenParameter
from lmassay.models.api.probabilities import ScoringModel
from lmassay.models.api.scoring import Probabilities, ServerSettings

OPENAI_URL = "https://api.openai.com/v1"
CLOVA_URL = "https://clovastudio.stream.ntruss.com/v1/openai"
# Environment variables, in the order in which they are tried. The programs of KoBBQ, a benchmark, read the second ones.
_OPENAI_KEYS = ("OPENAI_API_KEY", "OPENAI")
_ORGANIZATIONS = ("OPENAI_ORG_ID", "OPENAI_ORG")
_PROJECTS = ("OPENAI_PROJECT_ID",)
_CLOVA_KEYS = ("CLOVA_API_KEY", "CLOVA")
_AZURE_KEYS = ("AZURE_OPENAI_API_KEY", "API_KEY")
_AZURE_ENDPOINTS = ("AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT")
_AZURE_VERSIONS = ("OPENAI_API_VERSION", "API_VERSION")
# How gateways name Anthropic's models.
_CLAUDE = re.compile(r"(anthropic[./])?claude", re.IGNORECASE)


class OpenAICompatible(ScoringModel):
    """A model behind a base URL. The key comes from an environment variable and is not stored anywhere.

    ``api: chat`` uses /chat/completions, ``api: completions`` the older /completions. ``constrain`` says how the server
    restricts answers to choices: grammar (llama.cpp), structured_outputs or guided_choice (vLLM), json_schema (OpenAI).
    ``probabilities`` says how the server is asked for log-probabilities: echo or prompt_logprobs (vLLM, SGLang),
    llama.cpp, or auto to try all. ``prefix`` is the token before a text that is scored: auto, none, or a token.
    """

    name = "openai"
    provider_host = "openai.com"
    address_variables = ("OPENAI_BASE_URL",)
    default_address = OPENAI_URL

    option_help: ClassVar[Mapping[str, str]] = {
        "api": "chat uses /chat/completions; completions uses the older /completions",
        "organization_env": "the environment variable with the organization",
        "probabilities": "how the server returns log-probabilities; auto tries each method; none if it returns none",
        "prefix": (
            "the token before a text whose probability is computed: none, a token of the model, or auto: what the "
            "server adds or, if it adds nothing and the text has no context, a separator such as <|endoftext|>"
        ),
    }
    config_example = "model: {name: openai, model: gpt-4o-mini, prices: {input: 0.15, output: 0.6}, concurrency: 16}"

    def __init__(
        self,
        model: str,
        base_url: str = "",
        api: Literal["chat", "completions"] = "chat",
        api_key_env: str = "",
        organization_env: str = "",
        system: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        tries: int = 6,
        wait: float = 0.5,
        label: str = "",
        parameters: dict[str, Any] | None = None,
        prices: Prices | None = None,
        constrain: Constrain = "none",
        probabilities: Probabilities = "none",
        prefix: str = "auto",
        token_parameter: TokenParameter = "max_tokens",  # noqa: S107 - no secret
        temperature: Temperature = "send",
        batch: bool = False,
        poll: float = 30.0,
        batch_size: int = 0,
    ) -> None:
        dialect = OpenAIDialect(model, api, system, parameters or {}, constrain, token_parameter, temperature)
        super().__init__(
            probabilities=probabilities,
            settings=ServerSettings(model, api, system, parameters or {}, prefix),
            model=model,
            label=label,
            base_url=base_url,
            dialect=dialect,
            policy=RequestPolicy(concurrency, timeout, tries, wait),
            key=ApiKey((api_key_env,) if api_key_env else _OPENAI_KEYS),
            prices=prices,
            batching=Batching(OpenAIBatches(dialect.path), poll, batch_size) if batch else None,
        )
        self._names_key = bool(api_key_env)
        self._organizations = (organization_env,) if organization_env else _ORGANIZATIONS

    def check(self) -> None:
        super().check()
        # The user's OpenAI key must not be sent to another provider, unless the user asks for that.
        if _CLAUDE.match(self.model) and not self._names_key and self._key.value():
            raise ConfigError(
                f"model: {self.model} would get your OpenAI key; write `name: claude` for Anthropic's protocol and "
                "key, or name the key of a server with OpenAI's protocol in api_key_env"
            )

    def endpoint(self) -> Endpoint:
        headers = _bearer(self._key)
        organization = header_value(self._organizations)
        if organization:
            headers["OpenAI-Organization"] = organization
        project = header_value(_PROJECTS)
        if project:
            headers["OpenAI-Project"] = project
        return Endpoint(self.base_url, headers)


class Clova(ApiModel):
    """CLOVA X (HyperCLOVA X) through CLOVA Studio's OpenAI-compatible address; the key is in CLOVA_API_KEY or CLOVA."""

    name = "clova"
    provider_host = "ntruss.com"
    address_variables = ("CLOVA_URL",)
    default_address = CLOVA_URL

    config_example = "model: {name: clova, model: HCX-005}"

    def __init__(
        self,
        model: str = "HCX-005",
        base_url: str = "",
        api_key_env: str = "",
        system: str = "",
        concurrency: int = 4,
        timeout: float = 120.0,
        tries: int = 6,
        wait: float = 0.5,
        label: str = "",
        parameters: dict[str, Any] | None = None,
        prices: Prices | None = None,
        token_parameter: TokenParameter = "max_tokens",  # noqa: S107 - no secret
        temperature: Temperature = "send",
    ) -> None:
        super().__init__(
            model=model,
            label=label,
            base_url=base_url,
            dialect=OpenAIDialect(
                model, "chat", system, parameters or {}, token_parameter=token_parameter, temperature=temperature
            ),
            policy=RequestPolicy(concurrency, timeout, tries, wait),
            key=ApiKey((api_key_env,) if api_key_env else _CLOVA_KEYS),
            prices=prices,
        )

    def endpoint(self) -> Endpoint:
        return Endpoint(self.base_url, _bearer(self._key))


class Azure(ApiModel):
    """A deployment of Azure OpenAI; ``model`` is the deployment's name.

    Endpoint, key and version come from AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY and OPENAI_API_VERSION, or from
    AZURE_ENDPOINT, API_KEY and API_VERSION.
    """

    name = "azure"
    provider_host = "azure.com"
    address_option = "endpoint"
    address_variables = _AZURE_ENDPOINTS

    option_help: ClassVar[Mapping[str, str]] = {
        "model": "the name of the deployment",
        "endpoint": "the address of the resource; by default the one in an environment variable",
        "api_version": "the version of Azure's API; by default the one in an environment variable",
    }
    config_example = "model: {name: azure, model: my-deployment, api_version: 2024-10-21}"

    def __init__(
        self,
        model: str,
        endpoint: str = "",
        api_version: str = "",
        api_key_env: str = "",
        system: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        tries: int = 6,
        wait: float = 0.5,
        label: str = "",
        parameters: dict[str, Any] | None = None,
        prices: Prices | None = None,
        constrain: Constrain = "none",
        token_parameter: TokenParameter = "max_tokens",  # noqa: S107 - no secret
        temperature: Temperature = "send",
    ) -> None:
        super().__init__(
            model=model,
            label=label,
            base_url=endpoint,
            dialect=OpenAIDialect(model, "chat", system, parameters or {}, constrain, token_parameter, temperature),
            policy=RequestPolicy(concurrency, timeout, tries, wait),
            key=ApiKey((api_key_env,) if api_key_env else _AZURE_KEYS),
            prices=prices,
        )
        self._version = api_version or first_set(_AZURE_VERSIONS)[1]

    def identity(self) -> Mapping[str, Any]:
        return {**super().identity(), "version": self._version}

    def check(self) -> None:
        if not self.base_url:
            raise ConfigError(f"model.endpoint: give Azure's address here, or set {' or '.join(_AZURE_ENDPOINTS)}")
        if not self._version:
            raise ConfigError(f"model.api_version: give it here, or set {' or '.join(_AZURE_VERSIONS)}")
        # The name becomes a segment of the address, so it must not contain a slash or be "..".
        if not re.fullmatch(r"[\w.\-]+", self.model) or not self.model.strip("."):
            raise ConfigError(f"model.model: '{self.model}' is not a valid name of an Azure deployment")
        super().check()

    def endpoint(self) -> Endpoint:
        headers = {}
        key = self._key.value()
        if key:
            headers["api-key"] = key
        return Endpoint(
            url=f"{self.base_url}/openai/deployments/{self.model}",
            headers=headers,
            query={"api-version": self._version},
        )


def _bearer(key: ApiKey) -> dict[str, str]:
    """The header with the key; empty without a key, which a local server may not need."""
    value = key.value()
    if not value:
        return {}
    return {"Authorization": f"Bearer {value}"}
