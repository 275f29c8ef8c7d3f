"""What brokers and controllers wrote into server.log, controller.log and state-change.log.

Lines of Kafka 0.11 to 4.x are recognised by their words, wherever they are: names of files differ between
installations. Times have no zone in these files, so the caller names it.

Rules of the file: a file is read line by line, once. A line that is not known says nothing; a file without
any line of Kafka's layout is named. Words decide nothing beyond what they say: a truncation without a stated
reason has none.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import IO, Final

from tidelog.core.reasons import ElectionKind, TruncationRule
from tidelog.core.types import Offset, TopicPartition
from tidelog.errors import reason
from tidelog.evidence.importers.kafka.happenings import Cut, Happenings, Start, State, name_elections
from tidelog.evidence.importers.kafka.log_folders import LogFolderError

_LINE: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3})\] [A-Z]+ (?P<said>.*)")
_LINE_MAX: Final = 1 << 16
_TP: Final = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)"
_NUMBERS: Final = re.compile(r"-?\d+")

_LEADER = re.compile(
    rf"\[Broker id=(?P<broker>\d+)\] Leader {_TP} (?:with topic id \S+ )?starts at leader epoch "
    r"(?P<epoch>\d+) from offset (?P<end>\d+) with (?:partition epoch \d+, )?high watermark (?P<hw>\d+),? "
    r"ISR \[(?P<isr>[\d,]*)\]"
)
_FOLLOWER = re.compile(
    rf"\[Broker id=(?P<broker>\d+)\] Follower {_TP} starts at leader epoch (?P<epoch>\d+) "
    r"from offset (?P<end>\d+)"
)
# Until 2.5 the partition itself said so.
_OLD_LEADER = re.compile(
    rf"\[Partition \S+ broker=(?P<broker>\d+)\] {_TP} starts at [Ll]eader [Ee]poch (?P<epoch>\d+) "
    r"from offset (?P<end>\d+)(?: with high watermark (?P<hw>\d+))?"
)
_CONTROLLER = r"\[Controller id=(?P<broker>\d+) epoch=(?P<controller>\d+)\] "
_ONLINE = re.compile(
    _CONTROLLER + rf"Changed partition {_TP} from \w+ to OnlinePartition with state LeaderAndIsr\("
    r"leader=(?P<leader>-?\d+), leaderEpoch=(?P<epoch>\d+), isr(?:WithBrokerEpoch)?=List\((?P<isr>.*?)\), .*?"
    r"(?:zkVersion|partitionEpoch)=(?P<version>-?\d+)"
)
_STATE = re.compile(
    _CONTROLLER + rf"Partition {_TP} state changed to \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),"
    r"(?:LeaderRecoveryState:\w+,)?LeaderEpoch:(?P<epoch>\d+),.*?ControllerEpoch:"
)
_ISR = re.compile(
    rf"\[Partition {_TP} broker=(?P<broker>\d+)\] ISR updated (?:from \w+ )?to \[?(?P<isr>[\d,]+)\]? +"
    r"and (?:\w+ )?version updated to \[?(?P<version>\d+)"
)
_CHANGE = re.compile(
    rf"\[QuorumController id=(?P<broker>\d+)\] (?P<unclean>UNCLEAN )?partition change for {_TP} "
    r"with topic ID \S+: (?P<changes>.*)"
)
_LOADED = re.compile(
    r"Completed load of Log\(.*?topic=(?P<topic>[a-zA-Z0-9._-]+), partition=(?P<partition>\d+), .*?"
    r"logEndOffset=(?P<end>\d+)\)"
)
_REASON = re.compile(
    rf"\[ReplicaFetcher replicaId=(?P<broker>\d+),.*?\] Truncating partition {_TP} "
    r"(?:to|with \S+ \S+ due to) (?P<why>local high watermark|leader epoch)"
)
_CUT = re.compile(rf"\[(?:Unified)?Log partition={_TP}, dir=[^\]]*\] Truncating to offset (?P<end>\d+)")
_CREATED = re.compile(rf"Created log for partition {_TP} in \S+ with properties \{{(?P<configs>.*?)\}}")
_SETTING = re.compile(r"([a-z.]+)(?: -> |=)(\[[^\]]*\]|[^,]*)")
_OWNER = re.compile(
    r"\[(?:Partition \S+ broker=|Broker id=|ReplicaManager broker=|KafkaServer id=|BrokerServer id=|"
    r"KafkaRaftServer nodeId=|ReplicaFetcher replicaId=|LogCleaner-|BrokerLifecycleManager id=)(\d+)"
)
_KEPT_CONFIGS: Final = frozenset(
    {"min.insync.replicas", "cleanup.policy", "unclean.leader.election.enable", "retention.ms"}
)

_WHY: Final = {
    "local high watermark": TruncationRule.OWN_HIGH_WATERMARK,
    "leader epoch": TruncationRule.EPOCH_END_ON_LEADER,
}


def log_files(given: Sequence[Path]) -> list[Path]:
    """Files, and those in folders that look like logs. Raises `LogFolderError`."""
    found: dict[Path, None] = {}
    for path in given:
        try:
            if path.is_dir():
                inside = [each for each in sorted(path.rglob("*")) if each.is_file() and ".log" in each.name]
                if not inside:
                    raise LogFolderError(f"{path} holds no log files: give server.log, controller.log, …")
                found |= dict.fromkeys(inside)
            elif path.exists():
                found[path] = None
            else:
                raise LogFolderError(f"{path}: there is no such file or folder")
        except OSError as error:
            raise LogFolderError(f"{path}: {reason(error)}") from None
    return list(found)


def read_server_logs(
    files: Sequence[Path], zone: tzinfo | None, progress: Callable[[int], object] = lambda count: None
) -> tuple[Happenings, list[Path]]:
    """What the files say, and which of them hold no line of Kafka's. Raises `LogFolderError`."""
    found, strange = Happenings(), []
    for path in files:
        reader = _Reader(found, zone)
        try:
            with _opened(path) as file:
                known = sum(reader.take(line) for line in _lines(file))
            progress(path.stat().st_size)
        except (OSError, EOFError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise LogFolderError(f"{path} cannot be read: {why}") from None
        reader.finish()
        if not known:
            strange.append(path)
    found.states.sort(key=lambda state: (state.time_ms, state.version or 0))
    _give_epochs(found)
    name_elections(found.states)
    return found, strange


def _opened(path: Path) -> IO[bytes]:
    return io.BufferedReader(gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(file: IO[bytes]) -> Iterator[str]:
    while line := file.readline(_LINE_MAX):
        yield line.decode("utf-8", "replace")


def _give_epochs(found: Happenings) -> None:
    """A leader that changes its ISR names no epoch: it is that in which it started to lead."""
    leads: dict[TopicPartition, list[tuple[int, int, int]]] = {}
    for start in found.starts:
        leads.setdefault(start.tp, []).append((start.time_ms, start.leader_epoch, start.broker))
    kept = []
    for state in found.states:
        if state.leader_epoch < 0:
            mine = [e for t, e, b in leads.get(state.tp, ()) if t <= state.time_ms and b == state.leader]
            if not mine:
                continue
            state.leader_epoch = max(mine)
        kept.append(state)
    found.states = kept


class _Reader:
    """Of one file, which is one broker's."""

    def __init__(self, found: Happenings, zone: tzinfo | None) -> None:
        self._found = found
        self._zone = zone
        self._owner: int | None = None
        self._ends: dict[TopicPartition, Offset] = {}
        self._whys: dict[TopicPartition, TruncationRule] = {}
        self._cuts: list[Cut] = []
        self._now: dict[TopicPartition, State] = {}

    def take(self, line: str) -> bool:
        """Whether the line has the layout of Kafka's log files."""
        laid_out = _LINE.match(line)
        if laid_out is None:
            return False
        said = laid_out["said"]
        if self._owner is None and (owner := _OWNER.search(said)):
            self._owner = int(owner[1])
        for words, pattern, use in _KNOWN:
            if words in said and (match := pattern.search(said)):
                use(self, match, self._time(laid_out))
                break
        return True

    def _time(self, line: re.Match[str]) -> int:
        at = datetime.strptime(line[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=self._zone)
        return int(at.timestamp()) * 1000 + int(line[2])

    def finish(self) -> None:
        for cut in self._cuts:
            if self._owner is not None:
                cut.broker = self._owner
                self._found.cuts.append(cut)

    # ------------------------------------------------------------ lines

    def leader(self, line: re.Match[str], time_ms: int) -> None:
        tp, groups = _tp(line), line.groupdict()
        self._ends[tp] = int(line["end"])
        hw, isr = groups.get("hw"), groups.get("isr")
        start = Start(
            time_ms,
            tp,
            int(line["broker"]),
            int(line["epoch"]),
            int(line["end"]),
            None if hw is None else int(hw),
            None if isr is None else _ids(isr),
        )
        self._found.starts.append(start)

    def follower(self, line: re.Match[str], time_ms: int) -> None:
        self._ends[_tp(line)] = int(line["end"])

    def loaded(self, line: re.Match[str], time_ms: int) -> None:
        self._ends[_tp(line)] = int(line["end"])

    def state(self, line: re.Match[str], time_ms: int) -> None:
        version = line.groupdict().get("version")
        isr = _ids(line["isr"]) if "brokerId" not in line["isr"] else _ids_of_states(line["isr"])
        self._found.states.append(
            State(
                time_ms,
                _tp(line),
                int(line["leader"]),
                int(line["epoch"]),
                isr,
                int(line["broker"]),
                None if version is None else int(version),
                controller_epoch=int(line["controller"]),
            )
        )

    def isr(self, line: re.Match[str], time_ms: int) -> None:
        broker = int(line["broker"])
        self._found.states.append(
            State(time_ms, _tp(line), broker, -1, _ids(line["isr"]), broker, int(line["version"]))
        )

    def change(self, line: re.Match[str], time_ms: int) -> None:
        """Only what changed is named: `leader: -1 -> 3, leaderEpoch: 1 -> 2`."""
        tp, changes = _tp(line), dict(re.findall(r"(\w+): .*? -> (\[[^\]]*\]|\w+|-\d+)", line["changes"]))
        before = self._now.get(tp)
        if before is None and not {"leader", "leaderEpoch", "isr"} <= changes.keys():
            return
        epoch = before.leader_epoch if before else 0
        state = State(
            time_ms,
            tp,
            int(changes.get("leader", before.leader if before else -1)),
            int(changes.get("leaderEpoch", epoch)),
            _ids(changes["isr"]) if "isr" in changes or before is None else before.isr,
            int(line["broker"]),
            int(changes["partitionEpoch"]) if "partitionEpoch" in changes else None,
            _ids(changes["elr"]) if "elr" in changes else before.elr if before else (),
            _ids(changes["lastKnownElr"])
            if "lastKnownElr" in changes
            else before.last_known_elr
            if before
            else (),
            changes.get("leaderRecoveryState") == "RECOVERING",
            ElectionKind.UNCLEAN if line["unclean"] else None,
        )
        self._now[tp] = state
        self._found.states.append(state)

    def why(self, line: re.Match[str], time_ms: int) -> None:
        self._owner = int(line["broker"])
        self._whys[_tp(line)] = _WHY[line["why"]]

    def cut(self, line: re.Match[str], time_ms: int) -> None:
        tp, after = _tp(line), int(line["end"])
        before = self._ends.get(tp)
        why = self._whys.pop(tp, None)
        self._ends[tp] = after
        if before is not None and before > after:
            self._cuts.append(Cut(time_ms, tp, -1, before, after, why))

    def created(self, line: re.Match[str], time_ms: int) -> None:
        configs = {
            name: value.strip("[]")
            for name, value in _SETTING.findall(line["configs"])
            if name in _KEPT_CONFIGS
        }
        if configs:
            self._found.configs.setdefault(line["topic"], {}).update(configs)


def _tp(line: re.Match[str]) -> TopicPartition:
    return TopicPartition(line["topic"], int(line["partition"]))


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(text))


def _ids_of_states(text: str) -> tuple[int, ...]:
    """`BrokerState(brokerId=1, brokerEpoch=5), …`, as the last releases with ZooKeeper wrote."""
    return tuple(int(number) for number in re.findall(r"brokerId=(\d+)", text))


_KNOWN: Final[tuple[tuple[str, re.Pattern[str], Callable[[_Reader, re.Match[str], int], None]], ...]] = (
    ("] Leader ", _LEADER, _Reader.leader),
    ("] Follower ", _FOLLOWER, _Reader.follower),
    ("starts at ", _OLD_LEADER, _Reader.leader),
    ("to OnlinePartition", _ONLINE, _Reader.state),
    ("state changed to (", _STATE, _Reader.state),
    ("ISR updated", _ISR, _Reader.isr),
    ("partition change for", _CHANGE, _Reader.change),
    ("Completed load of Log(", _LOADED, _Reader.loaded),
    ("] Truncating partition ", _REASON, _Reader.why),
    ("] Truncating to offset ", _CUT, _Reader.cut),
    ("Created log for partition", _CREATED, _Reader.created),
)
"""Words that are looked for first, because few lines have them."""
