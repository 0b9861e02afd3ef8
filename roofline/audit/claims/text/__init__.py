"""Claims in words: a short grammar, forgiving about order and spelling, strict about what it could not read."""
