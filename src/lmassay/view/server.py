"""The server of the live view: it listens on an address of this machine until it is stopped."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from lmassay.interchange.loopback import allowed_hosts, host_in_url, listen
from lmassay.redaction import remember_environment
from lmassay.view.app import application
from lmassay.view.context import Context
from lmassay.view.folder import ResultsFolder
from lmassay.view.guard import Guard, Secrets

# When the server is stopped, requests in progress have this many seconds to finish.
_GRACE_SECONDS = 1
_MAX_ADDRESS_SIZE = 1_000_000


class ViewServer:
    """A server that listens on its port as soon as it is created, and answers requests once ``run`` is called."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0, *, read_only: bool = False) -> None:
        self.folder = folder
        self._socket = listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.secrets = Secrets()
        self.address = f"http://{host_in_url(host)}:{self.port}/"
        """Where the server listens."""
        self.url = f"{self.address}?token={self.secrets.token}"
        """The address to open in the browser, with the token that proves that the user has seen the terminal."""
        # Keys in the environment of this process are blanked out of every page.
        remember_environment()
        self.context = Context(ResultsFolder(folder), self.secrets.form, read_only)
        hosts = allowed_hosts(host, self.port)
        self.app = Guard(application(self.context), hosts, self.port, self.secrets, read_only=read_only)
        config = uvicorn.Config(
            self.app,
            lifespan="off",
            access_log=False,
            # Errors go to lmassay's own log, which blanks out secrets.
            log_config=None,
            server_header=False,
            # The address of a report has the id of every selected run, so it can be long.
            http="h11",
            h11_max_incomplete_event_size=_MAX_ADDRESS_SIZE,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)

    def run(self) -> None:
        """Serve until stopped."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.close()

    def stop(self) -> None:
        """Let :meth:`run` return; for tests, which run it in a thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
