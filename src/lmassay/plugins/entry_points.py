"""Entry points of installed packages that belong to lmassay, all of whose groups begin with ``lmassay.``."""

from __future__ import annotations

import functools
import importlib.metadata
import sys

_GROUPS = "lmassay."


def installed_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return the entry points of a group."""
    return _points_on(tuple(sys.path)).get(group, ())


@functools.cache
def _points_on(_path: tuple[str, ...]) -> dict[str, tuple[importlib.metadata.EntryPoint, ...]]:
    # Searching all installed packages is slow, so it is done once for each value of sys.path, for all groups.
    points = importlib.metadata.entry_points()
    return {group: tuple(points.select(group=group)) for group in points.groups if group.startswith(_GROUPS)}


def package_of(point: importlib.metadata.EntryPoint) -> str:
    """Return the package of an entry point, or the entry point's value if it has none."""
    if point.dist is not None:
        return _name_of(point.dist)
    return point.value


@functools.lru_cache(maxsize=256)
def _name_of(package: importlib.metadata.Distribution) -> str:
    # Each access to the name parses all metadata of the package.
    return package.name
