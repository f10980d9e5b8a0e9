"""Restricts servers to this machine: the addresses on which they listen, and the host names in requests to them."""

from __future__ import annotations

import ipaddress
import socket

from lmassay.errors import StoreError, UserError

_HTTP_PORT = 80
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address of this machine; port 0 chooses a free one."""
    require_loopback(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise StoreError(f"cannot use port {port} of {host} ({error.strerror}); choose another with --port") from error


def host_in_url(host: str) -> str:
    """Return a host in the form that it has in a URL.

    >>> host_in_url("127.0.0.1"), host_in_url("0::1")
    ('127.0.0.1', '[::1]')
    """
    # Browsers shorten IPv6 addresses.
    if ":" in host:
        return f"[{ipaddress.ip_address(host)}]"
    return host


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """Return the allowed values of the Host header in requests to this server.

    Anyone can let their own host name point to this machine. If requests with such a name were answered, a web page
    with that name could read the results (DNS rebinding).
    """
    names = (*_LOCAL_NAMES, host_in_url(host))
    hosts = {f"{name}:{port}" for name in names}
    if port == _HTTP_PORT:
        # Browsers leave out the default port of http.
        hosts |= set(names)
    return frozenset(hosts)


def require_loopback(host: str) -> None:
    """Raise UserError unless a host is a loopback address, that is this machine."""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise UserError(
            f"--host {host}: results are shown on this machine only (127.0.0.1); to view them from another machine, "
            "leave out --host and run there: ssh -L 8001:127.0.0.1:8001 HOST (with the port of --port)"
        )
