"""The openai SDK: who is asked and with which key. Everything else is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lmassay.errors import MissingExtra

if TYPE_CHECKING:
    import httpx2

    from lmassay.models.api.line import Sdk

PACKAGE = "openai"
# A server of one's own needs no key, but the SDK does.
NO_KEY = "none"


def openai_sdk(http: httpx2.AsyncClient, *, base_url: str, key: str, organization: str, project: str) -> Sdk:
    """OpenAI itself, or a server that speaks its protocol."""
    client = _module().AsyncOpenAI(api_key=key or NO_KEY, base_url=base_url, max_retries=0, http_client=http)
    return _belonging_to(client, organization, project)


def azure_sdk(http: httpx2.AsyncClient, *, endpoint: str, deployment: str, version: str, key: str) -> Sdk:
    """A deployment of Azure OpenAI."""
    client = _module().AsyncAzureOpenAI(
        api_key=key or NO_KEY,
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


def _module() -> Any:
    try:
        import openai
    except ImportError:
        raise MissingExtra("a model behind OpenAI's protocol", "api") from None
    return openai
