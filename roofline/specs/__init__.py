"""Specs: what a model, a piece of hardware, a deployment and a workload are, as frozen data read from YAML."""
