"""Encoders by name. ``Encoder(graph, entities [M, d_e], relations [2R, d_r]) -> entities, relations``."""

from tuckerkg.encoders.none import NoEncoder
from tuckerkg.encoders.rgcn import RGCN
from tuckerkg.encoders.tgcn import TGCN, TGCNConv, TGCNLayer

ENCODERS = {
    "none": NoEncoder,
    "rgcn": RGCN,
    "tgcn": TGCN,
}

__all__ = ["ENCODERS", "RGCN", "TGCN", "NoEncoder", "TGCNConv", "TGCNLayer"]
