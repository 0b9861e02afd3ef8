"""Prediction beside reality: an engine's log and its benchmark."""
