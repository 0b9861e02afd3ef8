"""Prediction and measurement: an engine's log and its benchmark."""
