"""Checks of what others say: performance claims, engine logs, configuration files of deployments."""
