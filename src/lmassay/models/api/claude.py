"""Claude, through Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from lmassay.budget import Prices
from lmassay.models.api.base import ApiModel, Batching
from lmassay.models.api.batch_services import ClaudeBatches
from lmassay.models.api.client import ApiKey, Endpoint
from lmassay.models.api.concurrency import RequestPolicy
from lmassay.models.api.dialects import ClaudeDialect, Temperature

ANTHROPIC_URL = "https://api.anthropic.com"
# Environment variables, in the order in which they are tried. The programs of KoBBQ, a benchmark, read the second one.
_KEYS = ("ANTHROPIC_API_KEY", "CLAUDE")
# The version of the Messages API, which Anthropic requires with every request.
_VERSION = "2023-06-01"


class Claude(ApiModel):
    """A Claude model, by its name. The key is in ANTHROPIC_API_KEY or CLAUDE."""

    name = "claude"
    provider_host = "anthropic.com"
    address_variables = ("ANTHROPIC_BASE_URL",)
    default_address = ANTHROPIC_URL

    config_example = "model: {name: claude, model: claude-sonnet-4-5, batch: true}"

    def __init__(
        self,
        model: str,
        base_url: str = "",
        api_key_env: str = "",
        system: str = "",
        concurrency: int = 8,
        timeout: float = 120.0,
        tries: int = 6,
        wait: float = 0.5,
        label: str = "",
        parameters: dict[str, Any] | None = None,
        prices: Prices | None = None,
        temperature: Temperature = "send",
        batch: bool = False,
        poll: float = 30.0,
        batch_size: int = 0,
    ) -> None:
        super().__init__(
            model=model,
            label=label,
            base_url=base_url,
            dialect=ClaudeDialect(model, system, parameters or {}, temperature),
            policy=RequestPolicy(concurrency, timeout, tries, wait),
            key=ApiKey((api_key_env,) if api_key_env else _KEYS),
            prices=prices,
            batching=Batching(ClaudeBatches(), poll, batch_size) if batch else None,
        )

    def endpoint(self) -> Endpoint:
        headers = {"anthropic-version": _VERSION}
        # A gateway may need no key.
        key = self._key.value()
        if key:
            headers["x-api-key"] = key
        # Our paths begin with /v1, as in Anthropic's own library, but people also write it into the address.
        return Endpoint(self.base_url.removesuffix("/v1"), headers)
