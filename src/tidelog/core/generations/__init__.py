"""Generations of replication rules, by name. Each file holds only the rules that differ."""

from __future__ import annotations

from tidelog.core.generations.base import Generation
from tidelog.core.generations.elr import EligibleLeaders
from tidelog.core.generations.epoch import LeaderEpochs
from tidelog.core.generations.hw import HighWatermarkTruncation
from tidelog.core.generations.kip101 import SingleEpochTruncation
from tidelog.core.generations.majority import Majority

GENERATIONS: dict[str, Generation] = {
    generation.name: generation
    for generation in (
        HighWatermarkTruncation(),
        SingleEpochTruncation(),
        LeaderEpochs(),
        EligibleLeaders(),
        Majority(),
    )
}

__all__ = ["GENERATIONS", "Generation"]
