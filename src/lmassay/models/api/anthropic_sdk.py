"""The anthropic SDK: who is asked and with which key. Everything else is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lmassay.errors import MissingExtra

if TYPE_CHECKING:
    import httpx2

    from lmassay.models.api.line import Sdk

PACKAGE = "anthropic"
NO_KEY = "none"


def anthropic_sdk(http: httpx2.AsyncClient, *, base_url: str, key: str) -> Sdk:
    """Anthropic itself, or a gateway that speaks its protocol."""
    client: Sdk = _module().AsyncAnthropic(
        api_key=key or NO_KEY, base_url=base_url, max_retries=0, timeout=http.timeout, http_client=http
    )
    return client


def _module() -> Any:
    try:
        import anthropic
    except ImportError:
        raise MissingExtra("the model claude", "api") from None
    return anthropic
