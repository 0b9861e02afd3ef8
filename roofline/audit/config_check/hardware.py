"""What clusters call accelerators, as our ids."""

from __future__ import annotations

import re

from roofline.errors import RooflineError
from roofline.specs.library import by_driver_name, find, ids, text_of

# Source: https://cloud.google.com/kubernetes-engine/docs/how-to/gpus, the values of cloud.google.com/gke-accelerator.
_GKE = {
    "nvidia-tesla-t4": "t4", "nvidia-l4": "l4", "nvidia-tesla-a100": "a100-sxm-40gb", "nvidia-a100-80gb": "a100-sxm-80gb",
    "nvidia-h100-80gb": "h100-sxm", "nvidia-h100-mega-80gb": "h100-sxm", "nvidia-h200-141gb": "h200-sxm",
    "nvidia-b200": "b200-sxm", "nvidia-gb200": "gb200",
}  # fmt: skip
_SHARED = re.compile(r"-SHARED$")
_NAMES = re.compile(r"^driver_names:\s*\[(.*)\]", re.MULTILINE)


def by_label(text: str) -> str | None:
    """The id for an id, an alias, a path, or a label of a node: the driver's name with dashes for its blanks.

    >>> by_label("NVIDIA-H100-80GB-HBM3"), by_label("nvidia-l4"), by_label("h100_sxm"), by_label("NVIDIA-A30-MIG-1g.6gb")
    ('h100-sxm', 'l4', 'h100-sxm', None)
    """
    if text in _GKE:
        return _GKE[text]
    wanted = _folded(_SHARED.sub("", text))
    for path in ids("hardware").values():
        # NB: without parsing the files, of which there are many; `by_driver_name` does it for the one that is meant
        for listed in _NAMES.findall(text_of(path)):
            for name in listed.split(","):
                if _folded(name) == wanted and (found := by_driver_name(name.strip(" \"'"))) is not None:
                    return found
    try:
        path = find("hardware", text)
    except RooflineError:
        return None
    return path.stem if path in ids("hardware").values() else str(path)


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip(" \"'")).lower()
