"""Prediction: bounds on time, memory, limits. Formulas in, numbers out; nothing here knows how an operator works."""
