"""Prompt tokens of a chat, with and without the cache."""

from __future__ import annotations

from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def prompts(turns: int, message: int, reply: int) -> list[int]:
    """Return the prompt tokens of each turn of a chat: all that was said so far, and the new message."""
    return [turn * (message + reply) + message for turn in range(turns)]


def draw(rng: Rng) -> Problem:
    """The turns of a chat, and the tokens of its messages."""
    turns, message, reply = rng.integer(5, 24), rng.integer(50, 400, 10), rng.integer(100, 800, 20)
    total = sum(prompts(turns, message, reply))
    # with the cache a turn computes its message alone: the last reply was cached as it was made
    fresh = turns * message
    right = total / fresh
    mistakes = (
        Mistake(
            name="last turn",
            value=prompts(turns, message, reply)[-1] / fresh,
            hint="That is the prompt of the last turn. Every turn before it had a prompt of its own.",
        ),
        Mistake(
            name="linear",
            value=turns * (message + reply) / fresh,
            hint="You let every turn compute one message and one reply. Without the cache it computes all before it again.",
        ),
        Mistake(
            name="full square",
            value=turns * (turns * (message + reply)) / fresh,
            hint="You gave every turn the whole chat. It has grown to that only at the end: about half on average.",
        ),
        Mistake(
            name="replies forgotten",
            value=sum(prompts(turns, message, 0)) / fresh,
            hint="The replies are part of the following prompts too.",
        ),
        Mistake(name="the wrong way round", value=1 / right, hint="That is with the cache over without it."),
    )
    return Problem(
        title="A chat of many turns",
        text=(
            f"A chat has {turns} turns. In each the user writes {message:,} tokens and the model replies with {reply:,}. The "
            "prompt of a turn is all that was said before, and the new message. With prefix caching only the new message is "
            "computed, since all before it, replies included, is cached to the token. How many times as many prompt tokens are "
            "computed in the whole chat **without** prefix caching?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "Without the cache the prompts grow by a message and a reply each turn: their sum grows with the turns' square.",
            worked.formula(
                "All prompts without it:",
                "n * q + n * (n - 1) / 2 * (q + r)",
                {
                    "n": (turns, "turns"),
                    "q": (message, "tokens of a message"),
                    "r": (reply, "tokens of a reply"),
                },
                "tokens",
            ),
            worked.formula(
                "Over the new messages alone:",
                "(n * q + n * (n - 1) / 2 * (q + r)) / (n * q)",
                {
                    "n": (turns, "turns"),
                    "q": (message, "tokens of a message"),
                    "r": (reply, "tokens of a reply"),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="prefix-caching-chat", topic="prefix-caching", minutes=5, draw=draw)
