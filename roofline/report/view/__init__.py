"""What a page shows, made from a state by plain functions that are also translated to JavaScript (see `roofline.report.live`).

They stay inside the part of Python that `roofline.formulas.javascript` translates.
"""
