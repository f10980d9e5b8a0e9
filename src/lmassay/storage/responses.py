"""Answers in the form in which they are stored, each with a digest."""

from __future__ import annotations

from typing import Any, NamedTuple

from lmassay.storage.digests import SHORT_SIZE, short_digest

RESPONSE_COLUMNS = "key, model, request, response, run, created"


class StoredResponse(NamedTuple):
    """A row of the table ``responses``, in the order of :data:`RESPONSE_COLUMNS`. Request and response are JSON."""

    key: str
    model: str
    request: str
    response: str
    run: str
    """The run that received the response first."""
    created: str
    """When the response was stored, in ISO format."""

    def digest(self) -> bytes:
        """Return two digests in one: that of the answer, followed by that of all other columns.

        So an answer from the cache can be verified without reading its request.
        """
        return response_digest(self.key, self.response) + self._digest_of_request()

    def with_digest(self) -> tuple[Any, ...]:
        """Return all columns and the digest."""
        return (*self, self.digest())

    def is_damaged(self, stored_digest: Any, *, needs_digest: bool) -> bool:
        """Return whether the stored digest does not match.

        ``needs_digest`` is False for a schema before 7. Then a digest may be missing, and covers only the answer.
        """
        if not needs_digest:
            return is_damaged_response(self.key, self.response, stored_digest, needs_digest=False)
        return bool(stored_digest != self.digest())

    def _digest_of_request(self) -> bytes:
        return short_digest(f"{self.key}\n{self.model}\n{self.request}\n{self.run}\n{self.created}")


def response_digest(key: str, response: str) -> bytes:
    """Return the digest of a stored response, which is JSON."""
    return short_digest(f"{key}\n{response}")


def is_damaged_response(key: str, response: str, stored_digest: Any, *, needs_digest: bool) -> bool:
    """Return whether an answer does not match its digest. ``needs_digest`` says whether a missing digest is damage."""
    if stored_digest is None:
        return needs_digest
    if not isinstance(stored_digest, bytes):
        return True
    return stored_digest[:SHORT_SIZE] != response_digest(key, response)
