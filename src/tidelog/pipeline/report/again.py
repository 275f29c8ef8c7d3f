"""The command that repeats a trial, from what its `trial.json` says about it."""

from __future__ import annotations

from tidelog.evidence.folder import MANIFEST, Manifest

_DEFAULTS = {"rate": 10_000.0, "producers": 6, "consumers": 2, "value_bytes": 128}


def command_words(manifest: Manifest, evidence: str) -> list[str]:
    """`tidelog trial …` with every option that was not its default."""
    words = ["tidelog", "trial"]
    if manifest.stage == "foreign":
        words += ["--bootstrap-servers", str(manifest.settings.get("bootstrap_servers") or "HOST:PORT")]
    else:
        words += ["--schedule", f"{evidence}/{MANIFEST}"]
        if manifest.generation and manifest.generation != "epoch":
            words += ["--generation", manifest.generation]
        if manifest.brokers and len(manifest.brokers) != 3:
            words += ["--brokers", str(len(manifest.brokers))]
    words += ["--seconds", f"{manifest.settings.get('seconds', 60):g}"]
    words += _load(manifest)
    words += _topic(manifest)
    return words


def _load(manifest: Manifest) -> list[str]:
    words = []
    workload = manifest.settings.get("workload") or {}
    for name, usual in _DEFAULTS.items():
        value = workload.get(name, usual)
        if value != usual:
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    acks = ",".join("all" if ack == -1 else str(ack) for ack in workload.get("acks") or (-1,))
    if acks != "all":
        words += ["--acks", acks]
    if workload.get("idempotence", "mixed") != "mixed":
        words += ["--idempotence", str(workload["idempotence"])]
    for name, value in (workload.get("client") or {}).items():
        words += ["--client", f"{name}={value}"]
    return words


def _topic(manifest: Manifest) -> list[str]:
    words = []
    for topic in manifest.topics[:1]:
        if topic.get("partitions") != 6:
            words += ["--partitions", str(topic.get("partitions"))]
        if topic.get("replication_factor") != 3:
            words += ["--replication-factor", str(topic.get("replication_factor"))]
        configs = topic.get("configs") or {}
        if configs.get("min.insync.replicas", "2") != "2":
            words += ["--min-insync", str(configs["min.insync.replicas"])]
        if str(configs.get("unclean.leader.election.enable", "")).lower() == "true":
            words.append("--unclean")
    return words
