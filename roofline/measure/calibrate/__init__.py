"""Fits of the forms to measured records: what is held out, the least squares, the errors on what was not seen."""
