"""The command line. One file a command, in `commands/`; what they need is imported when they run."""

import gc
import os

# This process is ours alone and short. While it starts, the collector would look for garbage that is not there, and
# pydantic for plugins in every installed package.
gc.set_threshold(200_000)
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
