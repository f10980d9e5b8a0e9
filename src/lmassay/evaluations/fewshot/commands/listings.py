"""The command ``lmassay methods``: it lists the few-shot methods."""

from __future__ import annotations

from lmassay.cli.components import listing

methods = listing("method", "lmassay.evaluations.fewshot.commands.actions.method_help:method_help", example="pet")
