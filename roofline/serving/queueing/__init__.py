"""Many requests at once: what a server of one deployment gives them."""
