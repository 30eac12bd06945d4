"""How much memory a device has to spare."""

from __future__ import annotations

import torch

from ..common import memory as _memory

MODEL_SHARE = 0.4  # of what is free, that fitted models may take
BATCH_SHARE = 0.04  # of what is free, that one batch may take


def available(device: torch.device) -> float:
    """Bytes free on the device, what PyTorch holds in reserve included."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return float(_memory.available())


def require(n_bytes: float, device: torch.device, what: str, hint: str) -> None:
    """Refuse what cannot fit, with the number."""
    free = available(device)
    if n_bytes > free:
        raise MemoryError(
            f"{what} needs about {n_bytes / 2**30:.1f} GiB on {device}, where {free / 2**30:.1f} GiB are free. {hint}"
        )


def batch_bytes(device: torch.device) -> float:
    """Bytes that the largest array of one batch may take."""
    return max(BATCH_SHARE * available(device), 2.0**24)
