"""Python imports this module when it starts, in every process that a test starts."""

import os

# Not as a part of a package: only this folder is on the path.
import network_guard

if network_guard.ALLOWED not in os.environ:
    network_guard.block()
