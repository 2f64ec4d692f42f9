"""Ranks on this machine, started by torch's own launcher."""

from __future__ import annotations

import logging
import os
import sys
import uuid

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def launch(count: int, arguments: list[str]) -> int:
    """Start ``python -m tuckerkg`` with these arguments as ``count`` ranks; the exit code of the first that failed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks share the cores
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # a rank has said what is wrong
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,  # the same command again would meet what the first one left; torchrun restarts on demand
    )
    try:
        elastic_launch(config, sys.executable)("-m", "tuckerkg", *arguments)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return int(failure.exitcode) if failure.exitcode > 0 else 128 - int(failure.exitcode)
    return 0
