"""A cell of the grid: one configuration under one mix of faults. Its name says all of it, and reads back.

    epoch.acks-all.rf3.min2.clean.roll.plain.retries2.caught-up-time.crash+power.zones3.whole

Rules of the file: a name never needs quoting, neither in a shell nor as a file's name. Two cells that cannot
behave differently have one *plain* form, and only that one is played.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property

from tidelog.core.config import BrokerConfig, IsrRule
from tidelog.core.generations import GENERATIONS
from tidelog.core.guards import Guards
from tidelog.core.types import TopicConfig
from tidelog.faults import SEARCH_FAULTS
from tidelog.lab.search.schedule import FaultChoice
from tidelog.scenario.clients.producer import ProducerConfig
from tidelog.scenario.scenario import ClientSetup, Scenario
from tidelog.scenario.setup import Setup, TopicSetup

# ---------------------------------------------------------------- faults

# A mix is kinds of faults joined by ``+`` (``crash+power``), or one of the names below. The seed decides
# which of them happen in a trial, when, and to which brokers.

KINDS = {name: fault.words.en for name, fault in SEARCH_FAULTS.items()}
"""Every kind, in one line each."""

NAMED_MIXES = {
    "none": (),
    "network": ("cut", "reset"),
    "all": ("crash", "pause", "cut", "reset", "keeper", "elect"),
    "all-power": ("crash", "power", "pause", "cut", "reset", "keeper", "elect"),
}
"""``all`` is everything except loss of power."""

POWERFUL = ("power", "blackout")
"""Kinds after which it matters whether a log was flushed."""
PARTING = ("cut", "zone")
"""Kinds that need two zones at least."""
BUDGET = 6
"""Faults in one trial, at most; recoveries are free."""


def kinds_of(mix: str) -> tuple[str, ...]:
    """The kinds in a mix, in the order of `KINDS`. Raises `ValueError` with what to write instead."""
    if mix in NAMED_MIXES:
        return NAMED_MIXES[mix]
    named = mix.split("+")
    for kind in named:
        if kind not in KINDS:
            raise ValueError(
                f"unknown fault {kind!r}: choose from {', '.join(KINDS)}, "
                f"several at once with +, or {', '.join(NAMED_MIXES)}"
            )
    return tuple(kind for kind in KINDS if kind in named)


def canonical(mix: str) -> str:
    """The one name of a mix: `power+crash` and `crash+power` are the same."""
    kinds = kinds_of(mix)
    for name, members in NAMED_MIXES.items():
        if sorted(members) == sorted(kinds):
            return name
    return "+".join(kinds)


def faults_of(mix: str) -> FaultChoice:
    kinds = kinds_of(mix)
    return FaultChoice(kinds, BUDGET if kinds else 0)


# ---------------------------------------------------------------- cells

OPERATIONS = 16
"""Sends and polls in a trial."""
REPLICAS_MAX = 7
RETRIES_MAX = 20
ZONES_MAX = 5

LACKING = {
    "kip320": (
        *("isr_entry_above_epoch_start", "match_fetch_epoch", "fence_fetch_by_epoch", "maximal_isr"),
        "incarnation_in_isr",
    )
}
"""Guards that came together: without what KIP-320 brought, and what followed from its model, the rules are
those of KIP-279."""

_BROKERS_MIN = 3
"""With fewer, a dead broker often is the controller, and no other broker can take over."""
_LAG_MESSAGES = 2
"""Of the rule by messages: few, because a trial has few."""
_NAME = re.compile(
    r"(?P<generation>\w+)\.acks-(?P<acks>0|1|all)\.rf(?P<replicas>\d+)\.min(?P<min_insync>\d+)"
    r"\.(?P<unclean>clean|unclean)\.(?P<flush>roll|always)\.(?P<idempotent>plain|idempotent)"
    r"\.retries(?P<retries>\d+)\.(?P<isr_rule>[a-z-]+)\.(?P<faults>[a-z_+-]+)\.zones(?P<zones>\d+)"
    r"\.(?P<guards>whole|without-(?P<without>[a-z0-9_+]+))"
)


@dataclass(frozen=True, order=True)
class Cell:
    generation: str = "epoch"
    acks: str = "all"
    replicas: int = 3
    min_insync: int = 1
    unclean: bool = False
    flush: str = "roll"
    idempotent: bool = False
    retries: int = 2
    isr_rule: str = IsrRule.CAUGHT_UP_TIME.value
    faults: str = "crash"
    zones: int = 3
    without: str = ""
    """Guards of the rules that are switched off, joined by +, or a name of `LACKING`."""

    @cached_property
    def name(self) -> str:
        return (
            f"{self.generation}.acks-{self.acks}.rf{self.replicas}.min{self.min_insync}"
            f".{'unclean' if self.unclean else 'clean'}.{self.flush}"
            f".{'idempotent' if self.idempotent else 'plain'}.retries{self.retries}.{self.isr_rule}"
            f".{self.faults}.zones{self.zones}"
            f".{f'without-{self.without}' if self.without else 'whole'}"
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        return kinds_of(self.faults)

    def as_json(self) -> dict[str, str | int | bool]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # ------------------------------------------------------------ what can be, and what is the same

    def impossible(self) -> str | None:
        """Why there can be no such cluster or producer; None if there can."""
        if self.min_insync > self.replicas:
            return f"{self.replicas} replicas never meet min.insync.replicas={self.min_insync}"
        if self.idempotent and self.acks != "all":
            return f"an idempotent producer needs acks=all, not {self.acks}"
        if self.idempotent and self.retries == 0:
            return "an idempotent producer needs retries"
        if self.zones == 1 and any(kind in PARTING for kind in self.kinds):
            return f"{self.faults} needs two zones, and there is one"
        faults = (SEARCH_FAULTS[kind] for kind in self.kinds)
        return next(filter(None, (fault.impossible(self.min_insync) for fault in faults)), None)

    def plain(self) -> Cell:
        """The cell without settings that cannot matter in it: the one that is played for both."""
        cell = self
        # It may also decide which brokers a fault hits.
        hits = any(SEARCH_FAULTS[kind].min_insync_min > 1 for kind in self.kinds)
        min_insync = self.min_insync if hits else 1
        if self.acks != "all":  # a leader asks for in-sync replicas only then
            cell = replace(cell, min_insync=min_insync)
        if self.flush != "roll" and not any(kind in POWERFUL for kind in self.kinds):
            cell = replace(cell, flush="roll")
        if not GENERATIONS[self.generation].commits_by_isr:
            cell = replace(cell, min_insync=min_insync, unclean=False, isr_rule=IsrRule.CAUGHT_UP_TIME.value)
        if self.replicas == 1:
            cell = replace(cell, unclean=False, isr_rule=IsrRule.CAUGHT_UP_TIME.value)
        if self.without and self.guards_off() == self._lacking_anyway():
            cell = replace(cell, without="")
        return cell

    def guards_off(self) -> tuple[str, ...]:
        """The guards that are missing in this cell, those that its rules never had among them."""
        named = LACKING.get(self.without) or tuple(filter(None, self.without.split("+")))
        missing = {*named, *self._lacking_anyway()}
        return tuple(guard.name for guard in fields(Guards) if guard.name in missing)

    def _lacking_anyway(self) -> tuple[str, ...]:
        own = GENERATIONS[self.generation].guards
        return tuple(guard.name for guard in fields(Guards) if not getattr(own, guard.name))

    # ------------------------------------------------------------ the cluster

    def scenario(self) -> Scenario:
        """The cluster and its clients. Times are short, so that a trial of a few hundred steps sees sessions
        expire, followers lag and checkpoints happen."""
        brokers = max(_BROKERS_MIN, self.replicas)
        config = BrokerConfig(
            replica_lag_time_max_ms=4_000,
            replica_fetch_wait_max_ms=2_000,
            high_watermark_checkpoint_interval_ms=2_500,
            isr_rule=IsrRule(self.isr_rule),
        )
        if config.isr_rule is IsrRule.MESSAGE_LAG:
            config = replace(config, replica_lag_max_messages=_LAG_MESSAGES)
        topic = TopicConfig(min_insync_replicas=self.min_insync, unclean_leader_election=self.unclean)
        setup = Setup(
            brokers=brokers,
            zones=tuple(f"az{broker % self.zones + 1}" for broker in range(brokers)),
            controller=brokers - 1,
            topics=(TopicSetup("t", tuple(range(self.replicas)), topic),),
            generation=self.generation,
            without=self.guards_off() if self.without else (),
            config=config,
            session_timeout_ms=3_000,
            sync_each_append=self.flush == "always",
        )
        producer = ProducerConfig(
            acks={"0": 0, "1": 1, "all": -1}[self.acks],
            retries=self.retries,
            idempotent=self.idempotent,
            request_timeout_ms=4_000,
            delivery_timeout_ms=8_000,
            retry_backoff_ms=500,
            retry_backoff_max_ms=2_000,
        )
        clients = [
            ClientSetup("p", setup.zone(0), producer),
            ClientSetup("q", setup.zone(1), producer),
            ClientSetup("c", setup.zone(brokers - 1), None),
        ]
        return Scenario("trial", setup, clients=clients)


def cell_named(name: str) -> Cell:
    """The cell of a name. Raises `ValueError` if it is none."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not the name of a cell: it looks like {Cell().name}")
    words = found.groupdict()
    cell = Cell(
        generation=words["generation"],
        acks=words["acks"],
        replicas=int(words["replicas"]),
        min_insync=int(words["min_insync"]),
        unclean=words["unclean"] == "unclean",
        flush=words["flush"],
        idempotent=words["idempotent"] == "idempotent",
        retries=int(words["retries"]),
        isr_rule=words["isr_rule"],
        faults=canonical(words["faults"]),
        zones=int(words["zones"]),
        without=words["without"] or "",
    )
    check_values(cell)
    return cell


def check_values(cell: Cell) -> None:
    """Whether each setting has a value that exists, on its own. Raises `ValueError` naming what to write."""
    kinds_of(cell.faults)
    guards = [guard.name for guard in fields(Guards)]
    for name in () if cell.without in LACKING else filter(None, cell.without.split("+")):
        if name not in guards:
            raise ValueError(
                f"unknown guard {name!r}: choose from {', '.join((*LACKING, *guards))}, several with +"
            )
    for what, value, known in (
        ("generation", cell.generation, tuple(GENERATIONS)),
        ("acks", cell.acks, ("0", "1", "all")),
        ("flush", cell.flush, ("roll", "always")),
        ("isr rule", cell.isr_rule, tuple(rule.value for rule in IsrRule)),
    ):
        if value not in known:
            raise ValueError(f"unknown {what} {value!r}: choose one of {', '.join(known)}")
    for what, number, least, most in (
        ("replicas", cell.replicas, 1, REPLICAS_MAX),
        ("min-insync", cell.min_insync, 1, REPLICAS_MAX),
        ("retries", cell.retries, 0, RETRIES_MAX),
        ("zones", cell.zones, 1, ZONES_MAX),
    ):
        if not least <= number <= most:
            raise ValueError(f"{what} {number} is out of range: {least} to {most}")
