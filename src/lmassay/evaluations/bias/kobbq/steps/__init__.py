"""KoBBQ's steps on files: they read and write what its programs do, byte for byte, in a fraction of the time."""
