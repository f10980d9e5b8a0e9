"""The functions that do the work of the commands. They are imported when a command is called, not for its help."""
