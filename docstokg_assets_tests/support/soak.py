"""A soak: two processes of the program fill one data root while they are stopped, killed, and deprived of their database, disk
and clock, and while some of the answers are hostile. Then everything is audited.

What is done, and when, is drawn from a seed before anything starts. The program is started as a user starts it, over the
sandbox; nothing of it is imported here. The rules by which the result is judged are in `audit.py`; those about processes
and about limits at the server are here. `benchmarks/soak.py` is the way in, `faults/test_soak.py` the short form.
"""

from __future__ import annotations

import gzip
import heapq
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg
import yaml

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.audit import PART_PREFIX, Audit, Database, audit
from docstokg_assets_tests.support.servers import Postgres

ROOT = Path(__file__).parents[2]
YEAR = 2024
QUERY = ("--query", f"publication_year:{YEAR}")
DISK = "4g"
WOKEN_S = 1.0  # a request that arrives so soon after its process was woken was under way when it was stopped
START_S = 40.0  # disturbances begin when the first work is finished, or after so long
END_S = 30.0  # time to end in order after SIGTERM
CHILD_S = 5.0  # time for its children to end after it
STALE_S = 100_000.0  # so old are the parts of killed processes made before the last run, which has to remove them then

Kind = Literal["stop", "long stop", "kill", "full disk", "clock step", "database freeze", "database restart"]
WEIGHTS: dict[Kind, float] = {
    "stop": 5,
    "long stop": 2,
    "kill": 4,
    "full disk": 1.5,
    "clock step": 1.5,
    "database freeze": 1.5,
    "database restart": 1,
}
CLOCK_STEPS_S = (-120.0, -20.0, -2.0, 2.0, 30.0, 300.0)


@dataclass(frozen=True)
class SoakPlan:
    works: int
    seconds: float
    seed: int
    catalog: Literal["sqlite", "postgres"] = "sqlite"
    workers: int = 8
    lease_s: float = 10.0  # the shortest that the program allows
    gap_s: float = 8.0  # mean time between two disturbances
    hostile: float = 0.02
    full_disk: bool = True
    clock_steps: bool = False
    drain_s: float = 600.0  # most time of the last, undisturbed run
    without: tuple[str, ...] = ()  # kinds of disturbances and of hostile answers that are left out

    def kinds(self) -> list[Kind]:
        possible = {
            "full disk": self.full_disk and os.geteuid() == 0,
            "clock step": self.clock_steps,
            "database freeze": self.catalog == "postgres",
            "database restart": self.catalog == "postgres",
        }
        return [kind for kind in WEIGHTS if possible.get(kind, True) and kind not in self.without]


@dataclass(frozen=True)
class Disturbance:
    at: float  # seconds after the start
    kind: Kind
    slot: int  # which of the two processes, where one is meant
    seconds: float  # how long it lasts
    amount: float  # of a clock step: seconds; of a full disk: bytes that are left

    def __str__(self) -> str:
        who = f" of {SLOTS[self.slot].name}" if self.kind in ("stop", "long stop", "kill") else ""
        what = f" by {self.amount:+.0f} s" if self.kind == "clock step" else ""
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:7.1f} s  {self.kind}{who}{what}{lasts}"


def schedule(plan: SoakPlan) -> list[Disturbance]:
    """Each kind once, as soon as may be, then by chance; the same seed gives the same list."""
    chance, kinds = random.Random(plan.seed), plan.kinds()
    first = [*kinds]
    chance.shuffle(first)
    if "long stop" in first:  # it lasts longest
        first.remove("long stop")
        first.insert(0, "long stop")
    found: list[Disturbance] = []
    at = min(6.0, plan.seconds / 6)
    while at < plan.seconds:
        kind = first.pop(0) if first else chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        seconds = {
            "stop": chance.uniform(0.2, min(5.0, plan.lease_s / 2)),
            "long stop": plan.lease_s * chance.uniform(1.5, 2.0),
            "full disk": chance.uniform(1.0, 4.0),
            "database freeze": chance.uniform(2.0, min(45.0, plan.seconds / 6)),
            "database restart": chance.uniform(0.2, 3.0),
        }.get(kind, 0.0)
        step = chance.choice(CLOCK_STEPS_S)
        amount = step if kind == "clock step" else float(chance.choice((4096, 65_536, 1_048_576)))
        slot = chance.randrange(len(SLOTS)) if found else 0  # the first long stop is for the one that has works by then
        found.append(Disturbance(at, kind, slot, seconds, amount))
        at += chance.expovariate(1 / plan.gap_s)
    return found


# -- the wall clock ----------------------------------------------------------------------------------------------------

# libfaketime 0.9.10 is of no use here: under it `time.sleep` of Python fails (EINVAL) when the monotonic clock is left alone.
STEPPED_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long *step;
static int (*real)(clockid_t, struct timespec *);
__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SOAK_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (seen != MAP_FAILED) step = seen;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *step;
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}
"""


def build_stepped_clock(folder: Path) -> Path:
    """A library that adds the seconds in the file SOAK_CLOCK to the wall clock of a process; the monotonic one stays."""
    (folder / "clock.c").write_text(STEPPED_CLOCK)
    library = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c", "-ldl"], check=True)
    return library


# -- hostile answers ---------------------------------------------------------------------------------------------------


def hostile_answers() -> dict[str, dict[str, Any]]:
    """By name, as fields of the sandbox's `Fault`."""
    empty = gzip.compress(b"", mtime=0)
    for _ in range(4):  # with the innermost, five codings; each unpacks to a thousand members
        empty = gzip.compress(empty * 1000, mtime=0)
    zeros = gzip.compress(gzip.compress(bytes(100_000_000), 1, mtime=0), mtime=0)
    noise = random.Random(0).randbytes(60_000)
    whole = gzip.compress(b"%PDF-1.7\n" + noise, mtime=0)
    pdf: dict[str, Any] = {"status": 200, "type": "application/pdf"}

    def coded(body: bytes, *codings: str) -> dict[str, Any]:
        return pdf | {"body_hex": body.hex(), "headers": {"Content-Encoding": ", ".join(codings)}}

    return {
        "nested-empty-gzip": coded(empty, *["gzip"] * 5),
        "gzip-bomb": coded(zeros, "gzip", "gzip"),
        "truncated-gzip": coded(whole[:30_000], "gzip"),
        "false-gzip": coded(noise, "gzip"),
        "cut-short": {"truncate": 1000},
        "endless-chunks": pdf | {"body": "%PDF-1.7\n" + "x" * 60_000, "endless": True},
        "body-drip": pdf | {"body": "%PDF-1.7\n" + "x" * 60_000, "drip": 40},
        "head-drip": pdf | {"body": "%PDF-1.7\n", "header_drip": 4},
        "redirect-loop": {"loop": True},
        "no-answer": {"close": True},
        "login-as-pdf": pdf | {"body": "<html><form><input type=password></form></html>"},
        "empty": pdf | {"body": ""},
        "overloaded": {"status": 503, "headers": {"Retry-After": "5"}},
    }


def prepare(box: Sandbox, plan: SoakPlan) -> None:
    """Switch on hostile answers for a share of all addresses, and PDFs of which no two copies are equal."""
    hostile = {name: fault for name, fault in hostile_answers().items() if name not in plan.without}
    # The list of works is left alone: a hostile page of it, met again at each try, would keep works from ever being known.
    box.add_fault(host="api.openalex.org", name="list of works")
    for name, fault in hostile.items():
        if plan.hostile:
            box.add_fault(name=f"{name} {plan.seed}", share=plan.hostile / len(hostile), **fault)
    # So slow that the works last for most of the time: about four requests a work.
    delay = min(0.5, max(0.02, len(SLOTS) * plan.workers * plan.seconds / (plan.works * 4)))
    box.add_fault(host="*.example", name="slow", delay=delay, stamp=True)
    box.add_fault(name="stamped", stamp=True)


def mix(plan: SoakPlan) -> dict[str, float]:
    """Few works at those who allow few requests, so that their limits are tried and still do not decide how long it takes."""
    return {"arxiv_only": min(6.0, 100 * plan.seconds / 12 / plan.works), "pmc": 2.0, "wayback_only": 0.0}


# -- processes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    name: str
    arguments: tuple[str, ...]


SLOTS = (Slot("pull", ("pull", *QUERY)), Slot("resume", ("resume",)))


@dataclass
class Running:
    """One start of the program."""

    slot: Slot
    process: subprocess.Popen[bytes]
    log: Path
    began: float
    stopped_until: float = 0.0
    ended: float | None = None
    asked_to_end: bool = False

    def signal(self, number: signal.Signals) -> None:
        """To the process and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def last_words(self) -> str:
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])[-400:]


@dataclass
class Soak:
    """The whole of it; `report` tells what was done and found."""

    plan: SoakPlan
    folder: Path
    box: Sandbox
    data_root: Path
    postgres: Postgres | None = None
    disk: Path | None = None
    result: Audit = field(default_factory=Audit)
    done: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    starts: list[Running] = field(default_factory=list)
    freezes: list[tuple[str, float, float]] = field(default_factory=list)  # slot, from, until
    outages: list[tuple[float, float]] = field(default_factory=list)  # of disk or database, from, until
    seconds: dict[str, float] = field(default_factory=dict)
    clock_offset: int = 0
    _undo: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _database_frozen: bool = False

    # -- from beginning to end

    def run(self) -> Audit:
        self._write_config()
        prepare(self.box, self.plan)
        began = time.monotonic()
        try:
            self._disturb(began)
            self.seconds["disturbed"] = time.monotonic() - began
            self._calm()
            self._end_all()
            began = time.monotonic()
            self._drain()
            self.seconds["drained"] = time.monotonic() - began
            self._judge_processes()
        finally:
            self._calm()
            for one in self.starts:
                one.signal(signal.SIGKILL)
                one.process.wait(10)
        works = [work.id for work in self.box.universe.works()]
        audited = audit(self.data_root, works, self._database_url())
        audited.findings[:0] = self.result.findings
        audited.apart[:0] = self.result.apart
        self.result = audited
        self._judge_limits()
        return self.result

    def _write_config(self) -> None:
        sections: dict[str, Any] = {
            "workers": self.plan.workers,
            "http": {
                "proxy": self.box.proxy_url,
                "ca_bundle": str(self.box.ca_bundle),
                "contact_email": "soak@library-of-tests.edu",
                "timeout_connect_s": 5.0,
                "timeout_read_s": 5.0,
                "deadline_s": 15.0,
                "retry": {"max_attempts": 2, "base_delay_ms": 50, "max_retry_after_s": 10.0},
                "breaker": {"open_s": 1.0, "max_open_s": 5.0},
            },
            "download": {"lease_s": self.plan.lease_s, "max_bytes": 20_000_000},
            "rate_limit": {"policies": {"*": "50/second burst 20"}, "concurrency": {"*": 8}},
            "resolvers": {"order": ["arxiv", "pmc", "openalex", "crossref", "unpaywall", "doi", "landing"]},
        }
        if self.postgres is not None:
            sections["storage"] = {"backend": "postgres", "url": self.postgres.url}
        (self.folder / "content.yaml").write_text(yaml.safe_dump(sections))
        (self.folder / "logs").mkdir()
        if "clock step" in self.plan.kinds():
            (self.folder / "clock").write_bytes(bytes(8))
            build_stepped_clock(self.folder)

    # -- the disturbed part

    def _disturb(self, began: float) -> None:
        running = [self._start(slot) for slot in SLOTS]
        ended_at = [0.0 for _ in SLOTS]
        events: list[Disturbance] = []
        looked, under_way = time.monotonic(), False
        while (now := time.monotonic()) - began < self.plan.seconds or not under_way:
            while events and began + events[0].at <= now:
                event = events.pop(0)
                self._apply(event, running[event.slot])
            while self._undo and self._undo[0][0] <= now:
                heapq.heappop(self._undo)[2]()
            for n, one in enumerate(running):
                if one.ended is None and self._has_ended(one):
                    ended_at[n] = now
                elif one.ended is not None and now - ended_at[n] > 1.0:
                    running[n] = self._start(one.slot)
            if not under_way and (now - began > START_S or self._finished()):
                began, under_way, events = now, True, schedule(self.plan)
            if now - looked > 2.0:
                looked = now
                if self._finished() >= self.plan.works:
                    self.log.append(f"{now - began:7.1f} s  all works are finished")
                    return
            time.sleep(0.02)

    def _start(self, slot: Slot) -> Running:
        log = self.folder / "logs" / f"{len(self.starts):03}-{slot.name}.log"
        options = ("--config", str(self.folder / "content.yaml"), "--out", str(self.data_root))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
            "DTKG_HTTP__USER_AGENT": _user_agent(slot.name),
        }
        if "clock step" in self.plan.kinds():
            environment |= {
                "LD_PRELOAD": str(self.folder / "clock.so"),
                "SOAK_CLOCK": str(self.folder / "clock"),
            }
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "docstokg_assets.cli", slot.arguments[0], *options, *slot.arguments[1:]],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.starts.append(Running(slot, process, log, time.monotonic()))
        self.done["starts"] += 1
        return self.starts[-1]

    def _has_ended(self, one: Running) -> bool:
        code = one.process.poll()
        if code is None:
            return False
        one.ended = time.monotonic()
        self.ends[f"{one.slot.name}: {signal.Signals(-code).name if code < 0 else code}"] += 1
        return True

    def _finished(self) -> int:
        """How many works are finished; 0 also when the catalog cannot be asked at the moment."""
        if self._database_frozen:
            return 0
        sql = "SELECT count(*) FROM queue WHERE state IN ('done', 'retry')"
        try:
            ((finished,),) = Database(str(self.data_root), self._database_url()).rows(sql)
        except (sqlite3.Error, psycopg.Error):
            return 0
        return int(finished)

    def _database_url(self) -> str | None:
        return self.postgres.url if self.postgres is not None else None

    def _apply(self, event: Disturbance, one: Running) -> None:
        now = time.monotonic()
        until = now + event.seconds
        applied = True
        if event.kind in ("stop", "long stop"):
            applied = one.ended is None and one.stopped_until < now
            if applied:
                one.stopped_until = until
                one.signal(signal.SIGSTOP)
                self._later(until, lambda: self._wake(one, now))
        elif event.kind == "kill":
            applied = one.ended is None
            if applied:
                one.process.send_signal(signal.SIGKILL)
        elif event.kind == "full disk":
            self._fill_disk(event, until)
        elif event.kind == "clock step":
            self.clock_offset += int(event.amount)
            with (self.folder / "clock").open("r+b") as file:
                file.write(self.clock_offset.to_bytes(8, sys.byteorder, signed=True))
        else:
            applied = self._disturb_database(event, until)
        self.done[event.kind if applied else f"{event.kind}, left out"] += 1
        self.log.append(str(event) + ("" if applied else "  (left out: it was so already)"))

    def _later(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._undo, (at, len(self.log), action))

    def _wake(self, one: Running, since: float) -> None:
        one.signal(signal.SIGCONT)
        self.freezes.append((one.slot.name, since, time.monotonic()))

    def _fill_disk(self, event: Disturbance, until: float) -> None:
        assert self.disk is not None
        for tries in range(20):  # refused when meanwhile more is in use
            try:
                _remount(self.disk, str(shutil.disk_usage(self.disk).used + int(event.amount)))
                break
            except subprocess.CalledProcessError:
                if tries == 19:
                    raise
        self.outages.append((time.monotonic(), until))
        self._later(until, self._empty_disk)

    def _empty_disk(self) -> None:
        if self.disk is not None:
            _remount(self.disk, DISK)

    def _disturb_database(self, event: Disturbance, until: float) -> bool:
        assert self.postgres is not None
        if self._database_frozen:
            return False
        self.outages.append((time.monotonic(), until))
        if event.kind == "database freeze":
            self._freeze_database(True)
            self._later(until, lambda: self._freeze_database(False))
        else:
            self.postgres.stop()
            time.sleep(event.seconds)
            self.postgres.start()
        return True

    def _freeze_database(self, frozen: bool) -> None:
        if self.postgres is not None and self._database_frozen != frozen:
            self._database_frozen = frozen
            self.postgres.freeze(frozen)

    def _calm(self) -> None:
        """Undo whatever is still disturbed."""
        while self._undo:
            heapq.heappop(self._undo)[2]()

    # -- the end

    def _end_all(self) -> None:
        for one in self.starts:
            if not self._has_ended_before(one):
                one.asked_to_end = True
                one.process.terminate()
        for one in self.starts:
            if one.ended is None:
                with suppress(subprocess.TimeoutExpired):
                    one.process.wait(END_S)
                if not self._has_ended(one):
                    self.result.find(
                        f"SIGTERM ends a process within {END_S:.0f} s", f"{one.log.name}: {one.last_words()}"
                    )
                    one.signal(signal.SIGKILL)
                    one.process.wait(10)
                    self._has_ended(one)

    def _has_ended_before(self, one: Running) -> bool:
        return one.ended is not None or self._has_ended(one)

    def _drain(self) -> None:
        for part in self.data_root.glob(f"*/{PART_PREFIX}*"):
            then = part.stat().st_mtime - STALE_S
            os.utime(part, (then, then))
        last = self._start(SLOTS[0])
        with suppress(subprocess.TimeoutExpired):
            last.process.wait(self.plan.drain_s)
        if not self._has_ended(last):
            words = f"{last.log.name}: {last.last_words()}"
            self.result.find(f"the last run ends within {self.plan.drain_s:.0f} s", words)
            last.signal(signal.SIGKILL)
            last.process.wait(10)
            self._has_ended(last)

    def _judge_processes(self) -> None:
        for one in self.starts:
            code, text = one.process.returncode, one.log.read_text(errors="replace")
            what = f"{one.log.name} ended with {code}: {one.last_words()}"
            if "Traceback" in text:
                self.result.find("no process shows a stack trace", what)
            elif not self._may_end_with(code, one, text):
                self.result.find("a process ends with an exit code that fits", what)
            if _lives(one.process.pid, CHILD_S):
                self.result.find("no child outlives its process", f"group {one.process.pid} of {one.log.name}")

    def _may_end_with(self, code: int, one: Running, text: str) -> bool:
        """SIGTERM itself ends a process that has not got so far as to handle it."""
        ended = one.ended or time.monotonic()
        outage = any(start < ended and one.began < end + 60 for start, end in self.outages)
        without_catalog = one.slot.name == "resume" and "there is no" in text
        allowed = {0: True, 3: True, -signal.SIGKILL: True, 4: outage, 2: outage or without_catalog}
        return allowed.get(code, code in (130, -signal.SIGTERM) and one.asked_to_end)

    def _judge_limits(self) -> None:
        """Each stop excuses one request for each limit: what the process was about to send."""
        arrivals = self.box.arrivals()
        excused: set[tuple[str, float]] = set()
        for seen in self.box.violations():
            domain = ".".join(str(seen["host"]).split(".")[-2:])
            window = [
                arrival
                for arrival in arrivals
                if arrival["host"].endswith(domain) and -seen["seconds"] <= arrival["time"] - seen["time"] <= 0.01
            ]
            woken = {
                (seen["limit"], until)
                for arrival in window
                for slot, _, until in self.freezes
                if _user_agent(slot) in arrival["user_agent"] and 0 <= arrival["time"] - until < WOKEN_S
            } - excused
            senders = ", ".join(f"{_sender(a['user_agent'])} {a['time'] - seen['time']:+.2f} s" for a in window)
            evidence = f"{seen['limit']}: {seen['seen']} in {seen['seconds']} s, {seen['count']} allowed ({senders})"
            if woken:
                excused.add(min(woken))
                self.result.set_apart("limit exceeded by what a stopped process had under way", evidence)
            else:
                self.result.find("no limit is exceeded at the server", evidence)

    # -- what is told

    def report(self, most: int = 10) -> str:
        """`most`: how many of the findings of one rule are shown."""
        hostile = Counter(
            {
                fault["name"].rpartition(" ")[0]: fault["used"]
                for fault in self.box.control("GET", "faults")
                if fault["share"] < 1
            }
        )
        stats = self.box.stats()
        lines = [f"seed {self.plan.seed}, {self.plan.works} works, catalog {self.plan.catalog}"]
        lines += [f"{name} for {seconds:.0f} s" for name, seconds in self.seconds.items()]
        lines += ["", "Done", *_table(self.done)]
        lines += ["", "How processes ended", *_table(self.ends)]
        share = hostile.total() / max(1, stats["requests"])
        lines += ["", f"Hostile answers: {hostile.total()} of {stats['requests']} ({share:.1%})", *_table(hostile)]
        lines += ["", f"Works: {self.result.outcomes.total()}", *_table(self.result.outcomes)]
        for title, findings in (("Apart", self.result.apart), ("Findings", self.result.findings)):
            rules = Counter(finding.rule for finding in findings)
            lines += ["", f"{title}: {len(findings)}"]
            for rule, count in rules.items():
                lines.append(f"  {rule}: {count}")
                shown = [finding.evidence for finding in findings if finding.rule == rule]
                lines += [f"      {evidence}" for evidence in shown[:most]]
                lines += [f"      … and {count - most} more"] if count > most else []
        return "\n".join(lines)


def _table(counted: Counter[str]) -> list[str]:
    return [f"  {count:7}  {name}" for name, count in counted.most_common()]


def _lives(group: int, seconds: float) -> bool:
    """Whether a process of the group is still there after so long."""
    end = time.monotonic() + seconds
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.05)
        return True
    return False


def _user_agent(slot: str) -> str:
    return f"soak-{slot}/1"


def _sender(user_agent: str) -> str:
    return next((slot.name for slot in SLOTS if _user_agent(slot.name) in user_agent), "unknown")


def _remount(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"remount,size={size}", "tmpfs", disk], check=True)


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def soak_over(plan: SoakPlan, folder: Path) -> Iterator[Soak]:
    """A soak with sandbox, disk and database of its own, which are gone afterwards; logs stay in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        kinds = plan.kinds()
        disk = stack.enter_context(_small_disk(folder / "disk")) if "full disk" in kinds else None
        postgres = None
        if plan.catalog == "postgres":
            postgres = Postgres()
            stack.callback(postgres.remove)
            postgres.start()
        box = stack.enter_context(
            Sandbox.start(
                folder / "sandbox", works_per_year=plan.works, years=(YEAR, YEAR), profile="demo", mix=mix(plan)
            )
        )
        yield Soak(plan, folder, box, (disk or folder) / "data", postgres, disk)


def keep(soak: Soak, folder: Path) -> None:
    """Copy what an investigation needs: the data root, and what arrived at the server."""
    shutil.copytree(soak.data_root, folder / "data-root", dirs_exist_ok=True)
    (folder / "arrivals.json").write_text(json.dumps(soak.box.arrivals()))
    (folder / "violations.json").write_text(json.dumps(soak.box.violations()))


def short_form(folder: Path, seed: int = 2, without: tuple[str, ...] = ()) -> Audit:
    """Half a minute of it, for a test: stops (one longer than a lease), kills, a full disk if root, hostile answers; no
    clock steps, which need a C compiler. AssertionError with the whole report when there is a finding."""
    plan = SoakPlan(works=200, seconds=24.0, seed=seed, gap_s=4.0, drain_s=300.0, without=without)
    with soak_over(plan, folder) as soak:
        result = soak.run()
        assert not result.findings, "\n".join([*soak.log, soak.report()])
    return result
