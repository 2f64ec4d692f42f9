"""Decoders by name.

``query(heads [B, d], relations [2R, d_r], relation_ids [B]) -> queries [B, d_q]`` and
``compare(queries [B, d_q], candidates [M, d]) -> scores [B, M]``. A query gets the relation table and ids rather than
gathered vectors, so that a decoder may do its work once per distinct relation.
"""

from tuckerkg.decoders.complex import ComplEx
from tuckerkg.decoders.conve import ConvE
from tuckerkg.decoders.convtranse import ConvTransE
from tuckerkg.decoders.distmult import DistMult
from tuckerkg.decoders.rescal import RESCAL
from tuckerkg.decoders.rotate import RotatE
from tuckerkg.decoders.transe import TransE
from tuckerkg.decoders.tucker import TuckER

DECODERS = {
    "complex": ComplEx,
    "conve": ConvE,
    "convtranse": ConvTransE,
    "distmult": DistMult,
    "rescal": RESCAL,
    "rotate": RotatE,
    "transe": TransE,
    "tucker": TuckER,
}

__all__ = ["DECODERS", "RESCAL", "ComplEx", "ConvE", "ConvTransE", "DistMult", "RotatE", "TransE", "TuckER"]
