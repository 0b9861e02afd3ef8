"""Columns of a trace, and what others call them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column: our name of it, the names that public traces have for it (in small letters), and what it holds."""

    name: str
    aliases: tuple[str, ...]
    meaning: str


# Azure's LLM inference traces of 2023 and 2024 (https://github.com/Azure/AzurePublicDataset): TIMESTAMP, ContextTokens,
# GeneratedTokens.
# BurstGPT (https://github.com/HPMLL/BurstGPT): Timestamp, Request tokens, Response tokens.
# Mooncake (https://github.com/kvcache-ai/Mooncake) has input_length, output_length, but a timestamp in milliseconds: no alias.
ARRIVED = Column("arrived_at", ("timestamp",), "seconds, or dates with times")
PROMPT = Column("num_prefill_tokens", ("contexttokens", "request tokens"), "tokens of the prompt")
ANSWER = Column("num_decode_tokens", ("generatedtokens", "response tokens"), "tokens of the answer")
COLUMNS = (ARRIVED, PROMPT, ANSWER)
