"""Decide which requests are answered: those of the user's own browser, which was opened with the printed address.

Other programs and other users of the machine can reach the port, and any web page can make a browser send requests to
it. So a request must name this host; this prevents DNS rebinding, in which a foreign host name is made to point to this
machine to get around the browser's rules. It must also have a cookie that only the printed address sets. A request that
changes something must also come from a page of this server, and :mod:`lmassay.view.changes` checks the token in its
form.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmassay.view.templating import render

_SAFE_METHODS = ("GET", "HEAD")
_SLASHES = "/\\"
_FORM = "application/x-www-form-urlencoded"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The Content Security Policy of all pages of the view."""
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With "no-referrer", browsers would not say where a form comes from.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Secrets:
    """Random texts that a browser must send to be answered. They are new each time the server starts."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """Part of the address that the terminal prints."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The cookie that this address sets."""
    form: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """A hidden field of every form that changes something."""


class Guard:
    """Refuses requests before they reach the application, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], port: int, expected: Secrets, *, read_only: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._expected = expected
        self._read_only = read_only
        # Cookies do not distinguish ports, and two views may be open at the same time.
        self._cookie = f"lmassay-view-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer: ASGIApp = self._own_answer(Request(scope)) or self._app
        await answer(scope, receive, _with_headers(send))

    def _own_answer(self, request: Request) -> Response | None:
        """Return a refusal, or the answer that signs a browser in; None if the request may reach the application."""
        if not self._is_for_this_host(request):
            return _refusal(421, "This server answers only on this machine, under the address that it printed.")
        if request.method not in (*_SAFE_METHODS, "POST"):
            return _refusal(405, "This server answers GET, HEAD and POST only.")
        token = request.query_params.get("token")
        if token is not None and request.method in _SAFE_METHODS:
            if secrets.compare_digest(token.encode(), self._expected.token.encode()):
                return self._signed_in(request)
            return _not_signed_in()
        cookie = request.cookies.get(self._cookie, "")
        if not secrets.compare_digest(cookie.encode(), self._expected.session.encode()):
            return _not_signed_in()
        if request.method == "POST":
            return self._refusal_of_change(request)
        return None

    def _is_for_this_host(self, request: Request) -> bool:
        """Return whether a request names this server as its host."""
        hosts = request.headers.getlist("host")
        # Exactly one Host header: with two, another program could check one and use the other.
        if len(hosts) != 1:
            return False
        return hosts[0].lower() in self._hosts

    def _refusal_of_change(self, request: Request) -> Response | None:
        """Return why a request may not change anything; None if it may."""
        if self._read_only:
            return _refusal(403, "This view is read-only. Start it without --read-only to change something.")
        # Browsers add these headers, and no script can set them. Old browsers do not send the second one.
        is_own_origin = request.headers.get("origin") == f"http://{request.headers['host']}"
        is_own_site = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        if not is_own_origin or not is_own_site:
            return _refusal(403, "This request does not come from a page of this server.")
        content_type, _, _ = request.headers.get("content-type", "").partition(";")
        if content_type.strip().lower() != _FORM:
            return _refusal(415, "Only forms are accepted.")
        return None

    def _signed_in(self, request: Request) -> Response:
        """Return a page that sets the cookie and then opens the requested address without the token.

        A redirect would not do: browsers do not send a strict cookie along with a redirect if the address was opened by
        a link on another page.
        """
        # After one slash, browsers would read another slash or a backslash as the start of a host name.
        path = "/" + request.url.path.lstrip(_SLASHES)
        query = request.url.remove_query_params("token").query
        target = f"{path}?{query}" if query else path
        response = HTMLResponse(render("signed_in.html", target=target))
        response.set_cookie(self._cookie, self._expected.session, httponly=True, samesite="strict", path="/")
        return response


def _not_signed_in() -> Response:
    return HTMLResponse(render("not_signed_in.html"), status_code=403)


def _refusal(status: int, reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", status_code=status)


def _with_headers(send: Send) -> Send:
    """Return a ``send`` function that adds the security headers to each response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                # A report has its own policy.
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
