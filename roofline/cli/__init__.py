"""The command line. One file a command, in `commands/`; what they need is imported when they run."""
