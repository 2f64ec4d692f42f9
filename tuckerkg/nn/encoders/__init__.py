"""Encoders by name. ``Encoder(graph, entities [M, d_e], relations [2R, d_r]) -> entities, relations``."""

from __future__ import annotations

from collections.abc import Callable

from tuckerkg.nn.contracts import Encoder
from tuckerkg.nn.encoders.compgcn import CompGCN
from tuckerkg.nn.encoders.identity import NoEncoder
from tuckerkg.nn.encoders.rgcn import RGCN
from tuckerkg.nn.encoders.sacn import SACN
from tuckerkg.nn.encoders.tgcn import TGCN, TGCNConv, TGCNLayer

ENCODERS: dict[str, Callable[..., Encoder]] = {
    "compgcn": CompGCN,
    "none": NoEncoder,
    "rgcn": RGCN,
    "sacn": SACN,
    "tgcn": TGCN,
}

__all__ = ["ENCODERS", "RGCN", "SACN", "TGCN", "CompGCN", "NoEncoder", "TGCNConv", "TGCNLayer"]
