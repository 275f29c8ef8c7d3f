"""Attack a cluster of real brokers with mutated frames, bombs, half frames and storms of connections.

A neighbour produces and consumes meanwhile; at the end all its records must be there. Also checked: no
traceback in any log, no broker ended, memory and descriptors as before, no keeper session lost, every frame
answered or its connection closed. Needs no preparation; everything is started here and stopped at the end.

    python -m fuzz --frames 1000000 --seed 7
    python -m fuzz --minutes 10
    python -m fuzz --replay build/fuzz-…/trouble-1.json      what was kept of a campaign, once more

Exit code: 0 nothing broke, 1 something did, 2 it could not be run.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from bench.processes import Unavailable

from fuzz.campaign import ATTACKS, Plan
from fuzz.evidence import BadFile
from fuzz.run import attack, replay
from fuzz.verdict import lines
from tidelog.kafka_client.blocking import ClientError

FRAMES = 100_000


def main() -> int:
    arguments = _parsed()
    try:
        if arguments.replay is not None:
            with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
                return 1 if replay(arguments.replay, Path(scratch), arguments.brokers, _say) else 0
        return _attack(arguments)
    except (Unavailable, ClientError, BadFile) as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fuzz: interrupted", file=sys.stderr)
        return 2


def _attack(arguments: argparse.Namespace) -> int:
    folder = arguments.out or Path("build") / time.strftime("fuzz-%Y%m%d-%H%M%S")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        print(
            f"fuzz: {folder}: {(error.strerror or str(error)).lower()}; choose another --out", file=sys.stderr
        )
        return 2
    minutes = arguments.minutes
    plan = Plan(
        seed=random.SystemRandom().randrange(1 << 30) if arguments.seed is None else arguments.seed,
        frames=arguments.frames or (None if minutes else FRAMES),
        seconds=minutes * 60 if minutes else None,
        attacks=tuple(ATTACKS) if arguments.attacks == "all" else _attacks(arguments.attacks),
    )
    result = attack(plan, folder.absolute(), arguments.brokers, _say)
    if arguments.json:
        print(json.dumps(result.as_json()))
    else:
        print("\n".join(lines(result)))
        print(f"{'details':<12}in {folder}")
    return 1 if result.watch.troubles else 0


def _attacks(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip() != "none")


def _parsed() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--frames", type=_at_least(1), metavar="N", help=f"how many frames ({FRAMES:,})")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after this time")
    parser.add_argument("--seed", type=_at_least(0), metavar="S", help="draws the frames (random)")
    parser.add_argument("--brokers", type=_at_least(1), default=3, metavar="N", help="brokers (3)")
    names = ", ".join(ATTACKS)
    parser.add_argument(
        "--attacks", default="all", metavar="LIST", help=f"besides frames: all, none, or of {names}"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to leave the details (build/fuzz-DATE-TIME)"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="send the frames of a trouble-N.json again"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    arguments = parser.parse_args()
    unknown = set(_attacks(arguments.attacks)) - set(ATTACKS) - {"all"}
    if unknown:
        parser.error(f"no attack is called {sorted(unknown)[0]}: choose from {names}")
    if arguments.minutes is not None and arguments.minutes <= 0:
        parser.error("--minutes must be more than 0")
    return arguments


def _at_least(least: int):  # type: ignore[no-untyped-def]
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number, at least {least}")
        return int(text)

    return parse


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
