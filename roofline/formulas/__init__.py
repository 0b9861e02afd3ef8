"""One formula, its tongues: closed forms, LaTeX, text, JavaScript. The only package that imports SymPy.

Whoever imports a module of it has symbols: the symbolic backend of `roofline.numeric` is registered on the way.
"""
