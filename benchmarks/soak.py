"""A soak: whether anything is lost, wrong or impolite after two processes have worked on one data root under what really happens.

    .venv/bin/python benchmarks/soak.py [--works 20000] [--seconds 1200] [--seed N] [--catalog sqlite|postgres]
        [--gap 8] [--workers 8] [--hostile 0.02] [--clock-steps] [--no-full-disk] [--without KIND …] [--folder FOLDER] [--keep]

`content pull` and `content resume` run side by side over the sandbox. They are stopped and woken again (also for longer than
`download.lease_s`), killed, and started again; the disk fills up and is emptied (a tmpfs: only as root); the wall clock steps
(`--clock-steps`; a C compiler `cc` is needed); PostgreSQL is frozen and restarted (`--catalog postgres`); 2 % of all
addresses answer with something hostile, and no two copies of a PDF are equal, so that a file that was replaced is seen. One
undisturbed run ends it. Then an auditor without code of ours looks at catalog, files, attempts and manifests
(`docstokg_assets_tests/support/audit.py`), and at the limits that the sandbox has counted.

Printed: the seed, what was done and when, works per outcome, and every finding with its evidence; exit code 1 when there is one.
The same seed disturbs in the same way at the same times; what the processes do meanwhile is theirs. The Wayback Machine is not
asked, and arXiv and PMC hold few works, because their limits, and not the machine, would decide how long 20,000 works take.
`--without` leaves out kinds of disturbances ("kill") or of hostile answers ("nested-empty-gzip").
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from docstokg_assets_tests.support.soak import SoakPlan, keep, schedule, soak_over


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long it is disturbed")
    parser.add_argument("--seed", type=int, default=None, help="by chance when not given")
    parser.add_argument("--catalog", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--workers", type=int, default=8, help="of each process")
    parser.add_argument("--gap", type=float, default=8.0, help="mean seconds between two disturbances")
    parser.add_argument("--hostile", type=float, default=0.02, help="share of hostile answers")
    parser.add_argument("--clock-steps", action="store_true")
    parser.add_argument("--no-full-disk", action="store_true")
    parser.add_argument("--drain", type=float, default=900.0, help="most seconds of the last run")
    parser.add_argument("--without", action="append", default=[], metavar="KIND")
    parser.add_argument("--folder", type=Path, default=None, help="for logs; a temporary one when not given")
    parser.add_argument("--keep", action="store_true", help="copy the data root and the arrivals to --folder")
    options = parser.parse_args()
    if options.clock_steps and shutil.which("cc") is None:
        parser.error("--clock-steps needs a C compiler, cc")
    if options.keep and options.folder is None:
        parser.error("--keep needs --folder")
    plan = SoakPlan(
        works=options.works,
        seconds=options.seconds,
        seed=random.randrange(1_000_000) if options.seed is None else options.seed,
        catalog=options.catalog,
        workers=options.workers,
        gap_s=options.gap,
        hostile=options.hostile,
        full_disk=not options.no_full_disk,
        clock_steps=options.clock_steps,
        drain_s=options.drain,
        without=tuple(options.without),
    )
    print(f"seed {plan.seed}: {len(schedule(plan))} disturbances in {plan.seconds:.0f} s", flush=True)
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        soak = stack.enter_context(soak_over(plan, folder))
        result = soak.run()
        print("\n".join(soak.log))
        print(soak.report())
        if options.keep:
            keep(soak, folder)
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
