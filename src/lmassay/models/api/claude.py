"""Claude, through Anthropic's messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lmassay.budget import Prices
from lmassay.errors import MissingExtra
from lmassay.models.api.base import ApiModel, Batching
from lmassay.models.api.batch_services import ClaudeBatches
from lmassay.models.api.client import Key, MakeSdk, Sdk
from lmassay.models.api.concurrency import Policy
from lmassay.models.api.dialects import ClaudeDialect, Temperature

if TYPE_CHECKING:
    import httpx2

ANTHROPIC_URL = "https://api.anthropic.com"
# The second name is that of KoBBQ's own programs.
_KEYS = ("ANTHROPIC_API_KEY", "CLAUDE")
# A gateway may need no key, but the SDK does.
_NO_KEY = "none"


class Claude(ApiModel):
    """Claude by the name of the model; the key is in ANTHROPIC_API_KEY or CLAUDE."""

    name, package, home = "claude", "anthropic", "anthropic.com"

    def __init__(
        self,
        model: str,
        base_url: str = ANTHROPIC_URL,
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
            policy=Policy(concurrency, timeout, tries, wait),
            key=Key((api_key_env,) if api_key_env else _KEYS),
            prices=prices,
            batching=Batching(ClaudeBatches(), poll, batch_size) if batch else None,
        )

    def make_sdk(self) -> MakeSdk:
        return partial(anthropic_sdk, base_url=self.base_url, key=self._key.value())


# --- the anthropic SDK: where requests are sent and with which key; everything else is ours ---------------------------


def anthropic_sdk(http: httpx2.AsyncClient, *, base_url: str, key: str) -> Sdk:
    """Anthropic itself, or a gateway that speaks its protocol."""
    client: Sdk = _anthropic().AsyncAnthropic(
        api_key=key or _NO_KEY, base_url=base_url, max_retries=0, timeout=http.timeout, http_client=http
    )
    return client


def _anthropic() -> Any:
    try:
        import anthropic
    except ImportError:
        raise MissingExtra("the model claude", "api") from None
    return anthropic
