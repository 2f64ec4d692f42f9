"""Decoders by name.

``query(heads [B, d], relations [2R, d_r], relation_ids [B]) -> queries [B, d_q]`` and ``comparison(queries [B, d_q],
candidates [M, d]) -> scores [B, M]``. A query gets the relation table and ids rather than gathered vectors, so that a
decoder may do its work once per distinct relation.
"""

from __future__ import annotations

from collections.abc import Callable

from tuckerkg.nn.contracts import Decoder
from tuckerkg.nn.decoders.complex import ComplEx
from tuckerkg.nn.decoders.conve import ConvE
from tuckerkg.nn.decoders.convtranse import ConvTransE
from tuckerkg.nn.decoders.distmult import DistMult
from tuckerkg.nn.decoders.rescal import RESCAL
from tuckerkg.nn.decoders.rotate import RotatE
from tuckerkg.nn.decoders.transe import TransE
from tuckerkg.nn.decoders.tucker import TuckER

DECODERS: dict[str, Callable[..., Decoder]] = {
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
