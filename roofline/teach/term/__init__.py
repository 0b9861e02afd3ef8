"""A term on the hardware of inference: weeks, outcomes, assignments, exams with keys, lab and project, all by one seed.

`python lessons/term.py --seed 2027 FOLDER` writes it. Problems are drawn from the templates of the worksheets.
"""
