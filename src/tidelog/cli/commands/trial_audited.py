"""Run a trial and audit it: the one place that has both, because neither knows the other."""

from __future__ import annotations

from tidelog.cli.show.audit import exit_code, present
from tidelog.cli.show.trial import check_quickly
from tidelog.cli.show.trial_progress import QuietWatcher, watched
from tidelog.errors import Refusal
from tidelog.pipeline.audit.run import Auditor
from tidelog.trials.plan import TrialOptions, prepared


def run(options: TrialOptions, *, audit: bool, as_json: bool) -> int:
    """Run a trial, audit what it left, and print the result. The trial keeps its evidence locked until the
    audit is over, so that no other process changes it between the two."""
    with watched(quiet=as_json) as watcher:
        auditor = Auditor(watcher) if audit else None
        early = _Early(watcher, auditor)
        with prepared(options, early) as trial:
            with watcher.interrupts(trial.interrupt):
                trial.run()
            audited, folder, notes = None, trial.folder, trial.notes
            try:
                audited = None if auditor is None else auditor.audit(folder.path)
            except Refusal as error:
                notes.append(f"no audit, only a check for lost records: {error}")
            except KeyboardInterrupt:
                notes.append(f"the audit was interrupted; to run it again: tidelog audit {folder.path}")
    if audited is None:
        return check_quickly(folder, notes, as_json=as_json)
    present(audited, notes=notes, as_json=as_json)
    return exit_code(audited)


class _Early:
    """Forwards to the watcher, and starts Spark when the load is over.

    During the load Spark would take processor time from it. After the load the trial mostly waits.
    """

    def __init__(self, watcher: QuietWatcher, auditor: Auditor | None) -> None:
        self._auditor = auditor
        self._phase = watcher.phase
        self.numbers = watcher.numbers
        self.said = watcher.said

    def phase(self, name: str, seconds: float | None) -> None:
        if name == "heal" and self._auditor is not None:
            self._auditor.warm_up()
        self._phase(name, seconds)
