"""An evicted sequence: compute its keys and values again, or copy them to the host and back."""
