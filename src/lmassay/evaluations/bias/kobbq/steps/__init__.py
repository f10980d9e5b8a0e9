"""KoBBQ's steps on files: what its programs read and write, byte for byte, in a fraction of their time."""
