"""Encoders by name. ``Encoder(graph, entities [M, d_e], relations [2R, d_r]) -> entities, relations``."""

from tuckerkg.encoders.compgcn import CompGCN
from tuckerkg.encoders.none import NoEncoder
from tuckerkg.encoders.rgcn import RGCN
from tuckerkg.encoders.sacn import SACN
from tuckerkg.encoders.tgcn import TGCN, TGCNConv, TGCNLayer

ENCODERS = {
    "compgcn": CompGCN,
    "none": NoEncoder,
    "rgcn": RGCN,
    "sacn": SACN,
    "tgcn": TGCN,
}

__all__ = ["ENCODERS", "RGCN", "SACN", "TGCN", "CompGCN", "NoEncoder", "TGCNConv", "TGCNLayer"]
