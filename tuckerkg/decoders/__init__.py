"""Decoders by name.

``query(heads [B, d], relations [2R, d_r], relation_ids [B]) -> queries [B, d_q]`` and
``compare(queries [B, d_q], candidates [M, d]) -> scores [B, M]``. A query gets the relation table and ids rather than
gathered vectors, so that a decoder may do its work once per distinct relation.
"""

from tuckerkg.decoders.distmult import DistMult
from tuckerkg.decoders.tucker import TuckER

DECODERS = {
    "distmult": DistMult,
    "tucker": TuckER,
}

__all__ = ["DECODERS", "DistMult", "TuckER"]
