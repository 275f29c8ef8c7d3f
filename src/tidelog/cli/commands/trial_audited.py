"""Run a trial and audit it: the one place that has both, because neither knows the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.commands.trial_through import table_settings
from tidelog.cli.errors import ExitCode
from tidelog.cli.show import audit as show_audit
from tidelog.cli.show import continuity as show_continuity
from tidelog.cli.show.output import write_json
from tidelog.cli.show.trial import check_quickly
from tidelog.cli.show.trial_progress import QuietWatcher, watched
from tidelog.errors import Refusal
from tidelog.pipeline.audit.run import Auditor
from tidelog.trials.plan import TrialOptions, prepared

if TYPE_CHECKING:
    from tidelog.pipeline.audit.run import Audited
    from tidelog.pipeline.reconcile.result import Continuity
    from tidelog.trials.trial import LoadTrial


def run(options: TrialOptions, *, audit: bool, as_json: bool) -> int:
    """Run a trial, audit what it left, and print the result. The trial keeps its evidence locked until the
    audit is over, so that no other process changes it between the two."""
    audited, compared = None, None
    with watched(quiet=as_json) as watcher:
        auditor = Auditor(watcher, settings=table_settings(options.job)) if audit else None
        early = _Early(watcher, auditor)
        with prepared(options, early) as trial:
            with watcher.interrupts(trial.interrupt):
                trial.run()
            folder, notes = trial.folder, trial.notes
            try:
                audited = None if auditor is None else auditor.audit(folder.path)
                if auditor is not None and options.job is not None:
                    early.phase("compare", None)
                    compared = _compared(trial)
            except Refusal as error:
                notes.append(f"no audit, only a check for lost records: {error}")
            except KeyboardInterrupt:
                notes.append(f"the audit was interrupted; to run it again: tidelog audit {folder.path}")
    if audited is None:
        return check_quickly(folder, notes, as_json=as_json)
    table = "" if trial.job is None else str(trial.job.table)
    return _present(audited, compared, table, notes, as_json=as_json)


def _compared(trial: LoadTrial) -> Continuity | None:
    from tidelog.cli.commands.trial_through import compare_table

    try:
        return compare_table(trial)
    except Refusal as error:
        trial.notes.append(f"the table was not compared: {error}")
        return None


def _present(
    audited: Audited, compared: Continuity | None, table: str, notes: list[str], *, as_json: bool
) -> ExitCode:
    """Both verdicts, from sends to the topic and from the topic to the table. The worse one counts."""
    code = show_audit.exit_code(audited)
    if as_json:
        found = show_audit.as_object(audited, notes)
        write_json(found if compared is None else found | {"table": compared.as_object()})
    else:
        show_audit.present(audited, notes=notes)
        if compared is not None:
            show_continuity.present(compared, table)
    if table and compared is None:
        return ExitCode.REFUSED if code is ExitCode.HELD else code
    codes = {code} if compared is None else {code, ExitCode(compared.exit_code)}
    return next(each for each in (ExitCode.VIOLATED, ExitCode.REFUSED, ExitCode.HELD) if each in codes)


class _Early:
    """Forwards to the watcher, and starts Spark when the load is over.

    During the load Spark would take processor time from it. After the load the trial mostly waits.
    """

    def __init__(self, watcher: QuietWatcher, auditor: Auditor | None) -> None:
        self._auditor = auditor
        self._phase = watcher.phase
        self.numbers = watcher.numbers
        self.said = watcher.said
        self.waits = watcher.waits

    def phase(self, name: str, seconds: float | None) -> None:
        if name == "heal" and self._auditor is not None:
            self._auditor.warm_up()
        self._phase(name, seconds)
