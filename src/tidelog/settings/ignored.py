"""Settings of Kafka that a properties file may hold and that have no effect here.

A file written for Apache Kafka should start a broker. Settings without a use in tidelog (threads,
purgatories, quotas, KRaft) are accepted and listed in one line. Settings of security are accepted with a
warning, see `loading`.
"""

from __future__ import annotations

from typing import Final

# Prefixes of names that are ignored.
_IGNORED_PREFIXES: Final = (
    "confluent.",
    "controller.quorum.",
    "kafka.metrics.",
    "log.cleaner.",
    "metadata.",
    "metric.",
    "metrics.",
    "quota.",
    "remote.log.",
    "replication.quota.",
    "transaction.",
    "zookeeper.",
)

_IGNORED_NAMES: Final = """
alter.config.policy.class.name
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
background.threads broker.heartbeat.interval.ms broker.id.generation.enable broker.session.timeout.ms
client.quota.callback.class control.plane.listener.name controller.listener.names
controller.quota.window.num controller.quota.window.size.seconds
create.topic.policy.class.name delete.records.purgatory.purge.interval.requests early.start.listeners
fetch.purgatory.purge.interval.requests group.consumer.assignors group.coordinator.rebalance.protocols
group.coordinator.threads inter.broker.listener.name inter.broker.protocol.version
listener.security.protocol.map log.dir.failure.timeout.ms log.initial.task.delay.ms log.max.id.map.snapshots
log.message.downconversion.enable log.message.format.version log.message.timestamp.after.max.ms
log.message.timestamp.before.max.ms log.roll.jitter.hours log.roll.jitter.ms max.connection.creation.rate
max.connections.per.ip.overrides num.io.threads
num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
num.replica.fetchers offsets.commit.required.acks offsets.load.buffer.size offsets.topic.compression.codec
process.roles producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
replica.fetch.min.bytes replica.selector.class replica.socket.receive.buffer.bytes
replica.socket.timeout.ms request.timeout.ms reserved.broker.max.id server.max.startup.time.ms
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
socket.receive.buffer.bytes socket.send.buffer.bytes transactional.id.expiration.ms
unstable.api.versions.enable
"""
_IGNORED: Final = frozenset(_IGNORED_NAMES.split())

# Names that Kafka removed in 3.0, and their replacements.
REPLACED: Final = {
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "host.name": "listeners",
    "port": "listeners",
}

_SECURITY_PREFIXES: Final = (
    "delegation.token.",
    "listener.name.",
    "password.encoder.",
    "sasl.",
    "security.",
    "ssl.",
    "zookeeper.ssl.",
)
_SECURITY_NAMES: Final = """
allow.everyone.if.no.acl.found authorizer.class.name connection.failed.authentication.delay.ms
connections.max.reauth.ms principal.builder.class super.users zookeeper.set.acl
"""
_SECURITY: Final = frozenset(_SECURITY_NAMES.split())


def is_security(name: str) -> bool:
    """Whether the setting is about security."""
    return name in _SECURITY or name.startswith(_SECURITY_PREFIXES)


def is_ignored(name: str) -> bool:
    return name in _IGNORED or name.startswith(_IGNORED_PREFIXES)
