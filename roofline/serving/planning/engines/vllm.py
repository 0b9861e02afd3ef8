"""vLLM's server. Sources: https://docs.vllm.ai/en/latest/configuration/engine_args.html; a cache that moves between servers:
https://docs.vllm.ai/en/stable/features/nixl_connector_usage.html."""

from __future__ import annotations

import json

from roofline.predict.engine_command import engine_command
from roofline.serving.planning.engines.base import EngineFlags, Start

_TRANSFER = {"prefill": "kv_producer", "decode": "kv_consumer"}


def _flags(start: Start) -> list[str]:
    found = list(engine_command(start.request, start.longest))
    if start.prefix_caching:
        found.append("--enable-prefix-caching")
    if start.pool is not None:
        found += ["--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": _TRANSFER[start.pool]})]
    return found


ENGINE = EngineFlags("vllm", _flags)
