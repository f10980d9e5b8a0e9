"""OpenAI, Azure OpenAI, CLOVA X, and any other server that speaks OpenAI's protocol: vLLM, llama.cpp, Ollama …"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lmassay.budget import Prices
from lmassay.errors import ConfigError, MissingExtra
from lmassay.models.api.base import ApiModel, Batching
from lmassay.models.api.batch_services import OpenAIBatches
from lmassay.models.api.client import Key, MakeSdk, Sdk, first_set
from lmassay.models.api.concurrency import Policy
from lmassay.models.api.dialects import Constrain, OpenAIDialect, Temperature, TokenParameter

if TYPE_CHECKING:
    import httpx2

OPENAI_URL = "https://api.openai.com/v1"
CLOVA_URL = "https://clovastudio.stream.ntruss.com/v1/openai"
# The second names are those of KoBBQ's own programs.
_OPENAI_KEYS = ("OPENAI_API_KEY", "OPENAI")
_ORGANIZATIONS = ("OPENAI_ORG_ID", "OPENAI_ORG")
_PROJECTS = ("OPENAI_PROJECT_ID",)
_CLOVA_KEYS = ("CLOVA_API_KEY", "CLOVA")
_AZURE_KEYS = ("AZURE_OPENAI_API_KEY", "API_KEY")
_AZURE_ENDPOINTS = ("AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT")
_AZURE_VERSIONS = ("OPENAI_API_VERSION", "API_VERSION")
# A self-hosted server needs no key, but the SDK does.
_NO_KEY = "none"


class OpenAICompatible(ApiModel):
    """A model behind a base URL. The key comes from an environment variable and is kept nowhere.

    ``api: chat`` asks /chat/completions, ``api: completions`` the older /completions. ``constrain`` says how the server
    keeps to choices: grammar (llama.cpp), structured_outputs or guided_choice (vLLM), json_schema (OpenAI).
    """

    name, package, home = "openai", "openai", "openai.com"

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI_URL,
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
        token_parameter: TokenParameter = "max_tokens",  # noqa: S107 - no secret
        temperature: Temperature = "send",
        batch: bool = False,
        poll: float = 30.0,
        batch_size: int = 0,
    ) -> None:
        dialect = OpenAIDialect(model, api, system, parameters or {}, constrain, token_parameter, temperature)
        super().__init__(
            model=model,
            label=label,
            base_url=base_url,
            dialect=dialect,
            policy=Policy(concurrency, timeout, tries, wait),
            key=Key((api_key_env,) if api_key_env else _OPENAI_KEYS),
            prices=prices,
            batching=Batching(OpenAIBatches(dialect.path), poll, batch_size) if batch else None,
        )
        self._organizations = (organization_env,) if organization_env else _ORGANIZATIONS

    def make_sdk(self) -> MakeSdk:
        organization = first_set(self._organizations)[1]
        project = first_set(_PROJECTS)[1]
        key = self._key.value()
        return partial(openai_sdk, base_url=self.base_url, key=key, organization=organization, project=project)


class Clova(ApiModel):
    """CLOVA X (HyperCLOVA X) through CLOVA Studio's OpenAI-compatible address; the key is in CLOVA_API_KEY or CLOVA."""

    name, package, home = "clova", "openai", "ntruss.com"

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
            base_url=base_url or first_set(("CLOVA_URL",))[1] or CLOVA_URL,
            dialect=OpenAIDialect(
                model, "chat", system, parameters or {}, token_parameter=token_parameter, temperature=temperature
            ),
            policy=Policy(concurrency, timeout, tries, wait),
            key=Key((api_key_env,) if api_key_env else _CLOVA_KEYS),
            prices=prices,
        )

    def make_sdk(self) -> MakeSdk:
        return partial(openai_sdk, base_url=self.base_url, key=self._key.value(), organization="", project="")


class Azure(ApiModel):
    """A deployment of Azure OpenAI; ``model`` is the deployment's name.

    Endpoint, key and version come from AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY and OPENAI_API_VERSION, or from
    AZURE_ENDPOINT, API_KEY and API_VERSION.
    """

    name, package, home = "azure", "openai", "azure.com"
    address_option = "endpoint"

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
            base_url=endpoint or first_set(_AZURE_ENDPOINTS)[1],
            dialect=OpenAIDialect(model, "chat", system, parameters or {}, constrain, token_parameter, temperature),
            policy=Policy(concurrency, timeout, tries, wait),
            key=Key((api_key_env,) if api_key_env else _AZURE_KEYS),
            prices=prices,
        )
        self._version = api_version or first_set(_AZURE_VERSIONS)[1]

    def identity(self) -> Mapping[str, Any]:
        return {**super().identity(), "version": self._version}

    def check(self) -> None:
        if not self.base_url:
            raise ConfigError(f"model.endpoint: give Azure's address here or in {' or '.join(_AZURE_ENDPOINTS)}")
        if not self._version:
            raise ConfigError(f"model.api_version: give it here or in {' or '.join(_AZURE_VERSIONS)}")
        if not re.fullmatch(r"[\w.\-]+", self.model):
            raise ConfigError(f"model.model: '{self.model}' is no name of a deployment of Azure")
        super().check()

    def make_sdk(self) -> MakeSdk:
        return partial(
            azure_sdk, endpoint=self.base_url, deployment=self.model, version=self._version, key=self._key.value()
        )


# --- the openai SDK: where requests are sent and with which key; everything else is ours ------------------------------


def openai_sdk(http: httpx2.AsyncClient, *, base_url: str, key: str, organization: str, project: str) -> Sdk:
    """OpenAI itself, or a server that speaks its protocol."""
    client = _openai().AsyncOpenAI(api_key=key or _NO_KEY, base_url=base_url, max_retries=0, http_client=http)
    return _belonging_to(client, organization, project)


def azure_sdk(http: httpx2.AsyncClient, *, endpoint: str, deployment: str, version: str, key: str) -> Sdk:
    """A deployment of Azure OpenAI."""
    client = _openai().AsyncAzureOpenAI(
        api_key=key or _NO_KEY,
        azure_endpoint=endpoint,
        azure_deployment=deployment,
        api_version=version,
        max_retries=0,
        http_client=http,
    )
    return _belonging_to(client, "", "")


def _belonging_to(client: Any, organization: str, project: str) -> Sdk:
    # Left to itself, the SDK tells those of the environment to everybody.
    client.organization, client.project = organization or None, project or None
    sdk: Sdk = client
    return sdk


def _openai() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtra("a model behind OpenAI's protocol", "api") from None
    return openai
