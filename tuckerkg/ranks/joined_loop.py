"""What every training loop on ranks has: its group, and stopping together."""

from __future__ import annotations

import torch

from tuckerkg.config.settings import Settings
from tuckerkg.ranks.group import Group
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

    def check_interruptions(self) -> None:
        """All ranks stop where one is asked to."""
        numbers = self.group.gather(torch.tensor([self.interruptions.number or 0]))
        if number := int(numbers.max()):
            raise TrainingInterrupted(number)
