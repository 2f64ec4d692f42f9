"""Encoders by name. ``Encoder(graph, entities [M, d_e], relations [2R, d_r]) -> entities, relations``."""

from tuckerkg.encoders.none import NoEncoder
from tuckerkg.encoders.tgcn import TGCN, TGCNConv, TGCNLayer

ENCODERS = {
    "none": NoEncoder,
    "tgcn": TGCN,
}

__all__ = ["ENCODERS", "TGCN", "NoEncoder", "TGCNConv", "TGCNLayer"]
