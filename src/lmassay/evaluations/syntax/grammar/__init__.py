"""Grammars that write minimal pairs: :mod:`.notation` is the template language, :mod:`.grammar` the entry point."""
