"""Commands, found by walking this package: each module has `register(app)`."""
