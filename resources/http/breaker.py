"""The circuit breaker of one host as a pure state machine: what failed lately, since when it is open, which probes are under way.

    closed ── `failures` in a row within `window_s` ──▶ open ── its time is over ──▶ half-open ── `probes` successes ──▶ closed
                                                         ▲                              │
                                                         └── one failure, twice as long ┘

No I/O and no clock: every step is given the time. `host_state.py` keeps the state and shares it between processes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from resources.http.settings import BreakerSettings

PROBE_LOST_S = 300.0  # a probe that was not heard of for so long belonged to a process that has died


class Phase(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class Breaker:
    """Times are epoch seconds."""

    failures: tuple[float, ...] = ()  # of the window, since the last success, while closed
    openings: int = 0  # in a row; 0 while closed
    until: float = 0.0  # the first probe may go then
    probes: tuple[float, ...] = ()  # when those under way began
    successes: int = 0  # of probes

    def phase(self, now: float) -> Phase:
        if not self.openings:
            return Phase.CLOSED
        return Phase.OPEN if now < self.until else Phase.HALF_OPEN

    def admits(self, now: float, rules: BreakerSettings) -> bool:
        """Whether a request may go now; in the half-open phase it must be counted with `probed`."""
        phase = self.phase(now)
        spent = self.successes + len(self._under_way(now))
        return phase is Phase.CLOSED or (phase is Phase.HALF_OPEN and spent < rules.probes)

    def probed(self, now: float) -> Breaker:
        """A probe has left."""
        return replace(self, probes=(*self._under_way(now), now))

    def failed(self, now: float, rules: BreakerSettings) -> Breaker:
        """While open nothing new is learnt: the request had left before."""
        match self.phase(now):
            case Phase.OPEN:
                return self
            case Phase.HALF_OPEN:
                return self._opened(now, rules)
        recent = (*(at for at in self.failures if now - rules.window_s < at <= now), now)
        return self._opened(now, rules) if len(recent) >= rules.failures else replace(self, failures=recent)

    def succeeded(self, now: float, rules: BreakerSettings) -> Breaker:
        match self.phase(now):
            case Phase.OPEN:
                return self
            case Phase.CLOSED:
                return replace(self, failures=())
        after = replace(self.told_nothing(now), successes=self.successes + 1)
        return Breaker() if after.successes >= rules.probes else after

    def told_nothing(self, now: float) -> Breaker:
        """A probe ended without saying anything about the host, so another one may go."""
        return replace(self, probes=self._under_way(now)[1:])

    def _under_way(self, now: float) -> tuple[float, ...]:
        return tuple(at for at in self.probes if now - at < PROBE_LOST_S)

    def _opened(self, now: float, rules: BreakerSettings) -> Breaker:
        longer = rules.open_s * 2.0 ** min(self.openings, 30)
        return Breaker(openings=self.openings + 1, until=now + min(longer, rules.max_open_s))

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | None) -> Breaker:
        if not text:
            return cls()
        fields = json.loads(text)
        return cls(**fields | {name: tuple(fields[name]) for name in ("failures", "probes")})


def changes(before: Breaker, after: Breaker, now: float) -> tuple[Phase, ...]:
    """The phases that were entered between two states. A host becomes half-open by the clock alone, which nobody sees; it
    counts as entered with the first probe that brought something."""
    told = after.successes > 0 or after.openings != before.openings
    first = before.phase(now) is Phase.HALF_OPEN and before.successes == 0 and told
    entered = [Phase.HALF_OPEN] if first else []
    if after.openings > before.openings:
        entered.append(Phase.OPEN)
    elif before.openings and not after.openings:
        entered.append(Phase.CLOSED)
    return tuple(entered)
