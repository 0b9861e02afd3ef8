"""The link at which swapping a cache costs as much as computing it again, for numbers and symbols alike.

A token of a prompt costs 2 N_p FLOP, N_p the parameters that multiply it, done at a share eta of the peak P: 2 N_p/(P eta)
seconds. Its cache of k bytes crosses a link of B bytes/s out and back: 2 k/B seconds. Both are equal at

    B* = k P eta/N_p

whatever the number of tokens, as long as attention and the calls of the copies count for nothing. A faster link makes swapping
the cheaper of the two.
"""

from __future__ import annotations

from roofline.numeric import Expr


def break_even_link(kv_bytes: Expr, peak: Expr, efficiency: Expr, parameters: Expr) -> Expr:
    """B* in bytes/s: cache bytes of a token x FLOP/s x share of it that is reached / parameters that multiply a token.

    Llama-3.1-8B has 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 of a token, and 6.98e9 parameters in its layers:

    >>> f"{break_even_link(131072, 312e12, 0.55, 6.98e9):.3g}"
    '3.22e+09'
    """
    return kv_bytes * peak * efficiency / parameters
