"""What the commands do. Imported when a command is called, not for its help."""
