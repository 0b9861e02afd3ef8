"""Formulas in several forms: closed forms of SymPy, LaTeX, MathML, text, JavaScript. The only package that imports SymPy.

Importing `roofline.formulas.symbolic`, or a module that needs it, registers the symbolic backend of `roofline.numeric`.
"""

from __future__ import annotations

from roofline.numeric import Expr


def break_even_link(kv_bytes: Expr, peak: Expr, efficiency: Expr, parameters: Expr) -> Expr:
    """The link bandwidth at which swapping a KV cache takes as long as computing it again, in bytes/s.

    A prompt token costs 2 N_p FLOP at a share eta of the peak P: 2 N_p/(P eta) seconds. Its cache of k bytes crosses a link of
    B bytes/s out and back: 2 k/B seconds. Both are equal at

        B* = k P eta/N_p

    for any number of tokens, as long as attention and the calls of the copies are negligible. Over a faster link, swapping is
    cheaper.

    Args:
        kv_bytes: cache bytes per token.
        peak: FLOP/s.
        efficiency: share of the peak that is reached.
        parameters: parameters that multiply a token.

    Llama-3.1-8B has 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 per token, and 6.98e9 parameters in its layers:

    >>> f"{break_even_link(131072, 312e12, 0.55, 6.98e9):.3g}"
    '3.22e+09'
    """
    return kv_bytes * peak * efficiency / parameters
