"""What the commands do. These modules are imported only when a command is called, not for its help."""
