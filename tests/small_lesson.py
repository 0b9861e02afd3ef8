"""A lesson with one item of each kind, for tests of what is made of lessons."""

from __future__ import annotations

SMALL_LESSON = """# %% [markdown]
# # 1. Small
#
# Told at the beginning.

# %%
from roofline.teach.lessons import (
    bars, draw, exercise, figure, formula, lesson, play, predict, published, say, show, table, takeaway, worked,
)
lesson(
    1, "Small", "about little", goals=["count"], prerequisites=["numbers"], plan=[(20, "First part"), (30, "Play and practise")]
)

# %% [markdown]
# ## First part
#
# Not shown at all. A **ridge** is where two lines meet. Told as well.
#
# * one entry
# * another entry

# %%
predict("Is it?", {"yes": "", "no": "Look again."}, answer="yes", why="It is so.")

# %%
lengths = table(("tokens", "bytes"), [(2**at, 131072 * 2**at) for at in range(3)], title="More tokens")
why = [say("Count it."), formula("kv_bytes_per_token", "llama-3.1-8b"), lengths]
predict("A token comes. How much?", kind="bytes", answer=131072.0, why=why)

# %%
formula("kv_bytes_per_token", "llama-3.1-8b", title="One token")

# %%
show(
    table(("step", "size"), [(f"step {at}", at) for at in range(12)], title="Twelve rows", note="A remark."),
    published("F02", 131072),
    say("A sentence with a **bold** word. One without."),
)

# %%
figure(bars("kinds", "Kinds", ("share", "%"), {"one": {"a": 0.25, "b": 0.75}}, note="Below the bars."))

# %%
draw("attention-heads", {"grouped": {"kind": "gqa"}, "multi-query": {"kind": "mqa"}}, about="Attention")

# %%
takeaway("Remember this.")

# %% tags=["open"]
print("printed")

# %% [markdown] tags=["slide"]
# Shown as a whole, without bold.

# %% [markdown] tags=["notes"]
# Told, though **bold**.

# %% tags=["notes"]
table(("a", "b"), [("x", 1)], title="For the presenter")

# %%
takeaway("Remember that too.")

# %% [markdown]
# ## Play and practise

# %%
play("Move it.", controls=("batch",), tiles=("step",), formulas=("ridge_point",), pictures=("time",), tries=("Try it.",))

# %%
worked("a problem", "What is it?", "This is it.")

# %%
exercise("kv-cache-per-token", 1)

# %% [markdown]
# The end.
"""
