"""The commands: the name of a file is that of its command, and its first line the help."""
