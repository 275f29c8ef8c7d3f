"""``tidelog doctor``: what this machine lacks, what that costs, and what helps."""

from __future__ import annotations

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import JsonOption
from tidelog.cli.show.output import write_json, write_text


def doctor(as_json: JsonOption = False) -> int:
    """Check this machine: Java, Spark, ports, rights, disk, browser.

    Says of everything that is missing which commands need it, and how to get it. Changes nothing.

    \b
    Example: tidelog doctor
    Exit code: 0 everything is there, 1 something is missing.
    """
    from dataclasses import asdict

    from tidelog.cli.checks import all_checks

    checks = list(all_checks())
    if as_json:
        write_json([asdict(check) for check in checks])
    else:
        for check in checks:
            write_text(f"{'ok' if check.fine else 'not ok':<9}{check.name:<20}{check.found}\n")
            if not check.fine:
                write_text(f"{'':9}{'':20}without it: {check.costs}\n{'':9}{'':20}to get it: {check.helps}\n")
    return ExitCode.HELD if all(check.fine for check in checks) else ExitCode.VIOLATED
