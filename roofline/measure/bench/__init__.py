"""Microbenchmarks through torch: the operators that predictions are made of, run and timed on a device.

The only package that imports torch. A suite (`suites`) lists points without torch; a kernel (`kernels`) runs the operators of
a point; a device (`devices`) times them; `run` does so until the budget is spent and appends each record to a file.
"""
