"""KoBBQ's steps. They read and write the same files as its programs, byte for byte, in a fraction of the time."""
