"""Refuses connections that leave this machine, so that the tests pass without a network.

It also works in Python processes that a test starts: ``sitecustomize.py`` next to this file, which is on their path,
switches it on. Programs that are not Python are not covered. Steps that fetch something once for all tests, such as the
embedded model, are wrapped in :func:`lifted`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ALLOWED = "TESTS_MAY_USE_THE_NETWORK"
"""An environment variable: if it is set, processes that are started may use the network."""

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_getaddrinfo = socket.getaddrinfo


class NetworkBlocked(OSError):  # noqa: N818 - reads as what it is
    """A test tried to reach another machine. Libraries see an error of the operating system, as without a network."""


def is_local(host: Any) -> bool:
    """Whether a host is this machine; ``None`` and an empty name mean all of its addresses."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str) or not host:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in ("localhost", socket.gethostname())


def _check(connection: socket.socket, address: Any) -> None:
    # Sockets of the local system have no host. Connecting a datagram socket sends nothing; it is how programs learn
    # which address of this machine they would use.
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return
    if not is_local(address[0]):
        raise NetworkBlocked(f"a test tried to connect to {address[0]}:{address[1]}; tests may not use the network")


def _guarded_connect(connection: socket.socket, address: Any) -> None:
    _check(connection, address)
    _connect(connection, address)


def _guarded_connect_ex(connection: socket.socket, address: Any) -> int:
    _check(connection, address)
    return _connect_ex(connection, address)


def _guarded_getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
    if not is_local(host) and not _is_address(host):
        # What a machine without a network says.
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _getaddrinfo(host, port, *arguments, **options)


def _is_address(host: Any) -> bool:
    """Whether a host is given as a number, for which nobody has to be asked."""
    try:
        ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return True


def block() -> None:
    """Refuse connections to other machines, in this process and in Python processes that it starts."""
    _use(_guarded_connect, _guarded_connect_ex, _guarded_getaddrinfo)
    os.environ.pop(ALLOWED, None)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(FOLDER) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, str(FOLDER)])


def is_blocking() -> bool:
    """Whether connections to other machines are refused now."""
    return socket.getaddrinfo is _guarded_getaddrinfo


@contextmanager
def lifted() -> Iterator[None]:
    """Allow all connections for a step that fetches something for all tests."""
    if not is_blocking():
        yield
        return
    _use(_connect, _connect_ex, _getaddrinfo)
    os.environ[ALLOWED] = "1"
    try:
        yield
    finally:
        block()


def _use(connect: Any, connect_ex: Any, getaddrinfo: Any) -> None:
    # setattr, because a method of a class is not meant to be assigned.
    setattr(socket.socket, "connect", connect)  # noqa: B010
    setattr(socket.socket, "connect_ex", connect_ex)  # noqa: B010
    setattr(socket, "getaddrinfo", getaddrinfo)  # noqa: B010
