"""What every training loop on ranks has: its group, and stopping together."""

from __future__ import annotations

import numpy as np
import torch

from tuckerkg.config.settings import Settings
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.partition import Partition
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback
from tuckerkg.training.loop import Loop
from tuckerkg.training.signals import Interruptions, TrainingInterrupted


class JoinedLoop(Loop):
    """One rank's part of a loop; the first rank writes what is written once."""

    def __init__(
        self, folder: RunFolder, settings: Settings, callback: Callback, interruptions: Interruptions, group: Group
    ) -> None:
        self.group, self.writes = group, group.is_first
        super().__init__(folder, settings, callback, interruptions)

    def read_splits(self) -> dict[str, np.ndarray]:
        """Without training facts where they lie in shards."""
        names = ("train", "valid") if self.folder.graph is None else ("valid",)
        return {name: self.folder.split(name) for name in names}

    def check_interruptions(self) -> None:
        """All ranks stop where one is asked to."""
        numbers = self.group.gather(torch.tensor([self.interruptions.number or 0]))
        if number := int(numbers.max()):
            raise TrainingInterrupted(number)


def partition_of(folder: RunFolder, settings: Settings, group: Group) -> Partition:
    """The shards of a run's entities: those of its facts, where these lie in shards."""
    if folder.graph is None:
        return Partition.even(folder.num_entities(), settings.ranks.shards, group)
    return Partition.of(folder.graph.offsets.tolist(), group)
