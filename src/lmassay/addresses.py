"""Properties of network addresses."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Return whether the server at an address is on this machine.

    >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("http://localhost"), is_loopback("https://example.org")
    (True, True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
