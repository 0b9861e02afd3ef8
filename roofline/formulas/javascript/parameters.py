"""Parameters of functions, in the order in which translated functions take them."""

from __future__ import annotations

import ast


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters: keyword-only ones after the others, `**kwargs` last."""
    found = [*arguments.posonlyargs, *arguments.args]
    found += [arguments.vararg] if arguments.vararg else []
    found += arguments.kwonlyargs
    return [*found, arguments.kwarg] if arguments.kwarg else found


def defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Default values by parameter."""
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    found = {parameter.arg: value for parameter, value in zip(last, arguments.defaults, strict=True)}
    return found | {
        parameter.arg: value
        for parameter, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }


def rest(arguments: ast.arguments) -> ast.arg | None:
    """`*values` where nothing follows it, which JavaScript has too; elsewhere it is handed over as a list."""
    return None if arguments.kwonlyargs or arguments.kwarg else arguments.vararg


def without_first(arguments: ast.arguments) -> ast.arguments:
    """Parameters without `self`."""
    return ast.arguments(
        posonlyargs=[],
        args=[*arguments.posonlyargs, *arguments.args][1:],
        vararg=arguments.vararg,
        kwonlyargs=arguments.kwonlyargs,
        kw_defaults=arguments.kw_defaults,
        kwarg=arguments.kwarg,
        defaults=arguments.defaults,
    )
