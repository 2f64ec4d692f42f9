"""Losses by name."""

from collections.abc import Callable

from tuckerkg.losses.bce import BinaryCrossEntropy, BinaryCrossEntropyAll
from tuckerkg.losses.nt_xent import NTXent
from tuckerkg.losses.self_adversarial import SelfAdversarial
from tuckerkg.nn.contracts import Loss

LOSSES: dict[str, Callable[..., Loss]] = {
    "softmax": NTXent,
    "bce": BinaryCrossEntropy,
    "bce-all": BinaryCrossEntropyAll,
    "self-adversarial": SelfAdversarial,
}

__all__ = ["LOSSES", "BinaryCrossEntropy", "BinaryCrossEntropyAll", "NTXent", "SelfAdversarial"]
