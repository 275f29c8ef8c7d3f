"""Load on a cluster while every kind of fault happens, for hours, with an audit at the end of each round.

Every round is a `tidelog trial` of its own: three brokers, acks=all, all faults. Evidence is kept of a round
in which a promise was broken; of the others only what was tried and found. Ctrl-C ends the running round
early, has it judged, and prints the table.

    python -m soak --hours 1 --seed 7
    python -m soak --minutes 5 --no-audit
    python -m soak --minutes 30 -- --set tidelog.flush=always      words for tidelog trial

Exit code: 0 every promise held, 1 one was broken, 2 it cannot be said.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

from soak.rounds import Plan, Rounds, require_room
from soak.table import lines

MINUTES = 60.0
ROUND_MINUTES = 15.0
RATE = 1_000.0
EVERY_SECONDS = 3.0


def main() -> int:
    arguments = _parsed()
    hours, minutes = arguments.hours, arguments.minutes
    plan = Plan(
        seconds=60 * (hours * 60 if hours else minutes or MINUTES),
        round_seconds=60 * arguments.round_minutes,
        seed=random.SystemRandom().randrange(1 << 30) if arguments.seed is None else arguments.seed,
        rate=arguments.rate,
        every=arguments.every,
        audit=not arguments.no_audit,
        more=tuple(arguments.words),
    )
    folder = (arguments.out or Path("build") / time.strftime("soak-%Y%m%d-%H%M%S")).absolute()
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        return _refuse(f"{folder}: {(error.strerror or str(error)).lower()}; choose another --out")
    if why := require_room(folder, plan):
        folder.rmdir()
        return _refuse(why)
    rounds = Rounds(plan, folder, _say)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: rounds.interrupt())
    rounds.run()
    rows = [asdict(each) for each in rounds.rounds]
    (folder / "rounds.json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(
        json.dumps(rows) if arguments.json else "\n".join((*lines(rounds.rounds), f"details     in {folder}"))
    )
    codes = {each.code if each.held or each.code else 1 for each in rounds.rounds} or {2}
    return 1 if 1 in codes else max(codes)


def _parsed() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m soak",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--hours", type=_positive, metavar="H", help="how long the load lasts, in all")
    length.add_argument("--minutes", type=_positive, metavar="M", help=f"the same in minutes ({MINUTES:g})")
    parser.add_argument(
        "--round-minutes",
        type=_positive,
        default=ROUND_MINUTES,
        metavar="M",
        help=f"the longest round ({ROUND_MINUTES:g}); the evidence of one must fit the disk",
    )
    parser.add_argument(
        "--rate", type=_positive, default=RATE, metavar="R", help=f"records a second ({RATE:g})"
    )
    parser.add_argument(
        "--every",
        type=_positive,
        default=EVERY_SECONDS,
        metavar="S",
        help=f"average seconds between faults ({EVERY_SECONDS:g})",
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", help="of the first round; the next has the next (random)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to leave it (build/soak-DATE-TIME)")
    parser.add_argument("--no-audit", action="store_true", help="only look for losses, without Spark")
    parser.add_argument("--json", action="store_true", help="the rounds as JSON")
    parser.add_argument("words", nargs="*", metavar="WORD", help="more words for tidelog trial, after --")
    return parser.parse_args()


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return value


def _refuse(why: str) -> int:
    print(f"soak: {why}", file=sys.stderr)
    return 2


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
