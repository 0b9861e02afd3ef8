"""The command line: one file per command in `commands/`. What a command needs is imported when it runs."""

import atexit
import gc
import os

# This process is ours alone. While it starts, the collector would look for garbage that is not there, and pydantic for plugins
# in every installed package. NB: with a far higher threshold, cycles that hold large arrays fill the memory in a long run.
gc.set_threshold(10_000)
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# What is alive when it ends goes with the process: a last collection would walk through all of it, for a fifth of the
# CPU time of a short command.
atexit.register(gc.freeze)
