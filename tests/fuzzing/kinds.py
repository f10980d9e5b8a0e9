"""All kinds of input that are damaged, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tests.fuzzing import command_lines, configurations, data_files, logs
from tests.fuzzing.harness import Kind

KINDS: Mapping[str, Kind] = {
    "command_lines": cast(Kind, command_lines),
    "configurations": cast(Kind, configurations),
    "data_files": cast(Kind, data_files),
    "logs": cast(Kind, logs),
}
