"""The settings of one broker of a cluster: those that all share, its own, and its ways to the others."""

from __future__ import annotations

from tidelog.cluster.directory import BrokerStatus
from tidelog.cluster.network.networks import Address, ClusterNetwork
from tidelog.cluster.spec import EMBEDDED, ClusterSpec
from tidelog.faults.places import KEEPER
from tidelog.settings.broker import Settings
from tidelog.settings.kinds import Endpoint
from tidelog.settings.loading import settle
from tidelog.settings.properties import Property
from tidelog.settings.table import replace


def broker_settings(
    spec: ClusterSpec,
    broker: BrokerStatus,
    network: ClusterNetwork | None,
    keeper_at: Address,
    clock_offset_ms: int | None,
) -> Settings:
    """Without a network ports and routes are left open: enough to see whether a broker could run like that.
    Raises `SettingsError` if not."""
    listen = (broker.host, broker.port) if network is None else network.listen(broker.id)
    values = spec.shared_settings() | {
        "broker.id": str(broker.id),
        "listeners": f"PLAINTEXT://{Endpoint(*listen)}",
        "log.dirs": broker.data_dir,
        "tidelog.keeper": spec.keeper,
    }
    if spec.keeper == EMBEDDED:
        way = None if network is None else network.route(broker.id, KEEPER)
        values["tidelog.keeper"] = f"embedded://{Endpoint(*(way or keeper_at))}"
    if zone := spec.zone_of(broker.id):
        values["broker.rack"] = zone
    if clock_offset_ms is not None:
        values["tidelog.clock.offset.ms"] = str(clock_offset_ms)
    if routes := _routes(spec, broker.id, network):
        values["tidelog.peer.routes"] = routes
    given = (Property(name, value, "cluster settings") for name, value in values.items())
    return _with_metrics_port(settle(given).settings, broker)


def _routes(spec: ClusterSpec, broker: int, network: ClusterNetwork | None) -> str:
    if network is None:
        return ""
    ways = {other: network.route(broker, other) for other in spec.broker_ids() if other != broker}
    return ",".join(f"{other}={Endpoint(*way)}" for other, way in ways.items() if way)


def _with_metrics_port(settings: Settings, broker: BrokerStatus) -> Settings:
    """Each broker its own: the chosen one and those after it, or at each start any free one.

    The one it had may have been taken meanwhile.
    """
    port = settings.tidelog_metrics_port
    if port > 0:
        return replace(settings, tidelog_metrics_port=port + broker.id - 1)
    return settings
