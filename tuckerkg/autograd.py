"""What PyTorch's types lack for autograd functions written by hand."""

from __future__ import annotations

from typing import Any

import torch

Context = Any
"""``ctx`` of a function: forward puts attributes on it that backward reads."""


def apply(function: type[torch.autograd.Function], *arguments: object) -> Any:
    """``function.apply(*arguments)``, which PyTorch leaves untyped."""
    return function.apply(*arguments)
