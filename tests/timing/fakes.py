"""A device with a queue whose times are exact: its clock moves only when something happens."""

from collections.abc import Callable
from dataclasses import dataclass, field

from firstlight.timing.gpu_state import GpuState


@dataclass
class FakeDevice:
    """Work that is asked for runs behind what was asked for before; the host goes on at once."""

    name: str = "cpu"
    tick_cost: float = 50e-9
    wait_cost: float = 10e-6
    host_cost: float = 1e-6
    now: float = 0.0
    busy_until: float = 0.0
    waited: dict[str, tuple[int, int]] = field(default_factory=dict)  # by thread, as Linux tells it
    cores: float = 1.0

    def tick(self) -> float:
        self.now += self.tick_cost
        return self.now

    def cpu_seconds(self) -> float:
        return self.cores * self.now

    def queues(self) -> dict[str, tuple[int, int]]:
        return dict(self.waited)

    def state(self) -> GpuState | None:
        """Tell nothing, unless a test puts another in its place."""

    def seconds_of(self, *_: object) -> None:
        """Tell nothing: it has no events."""

    def launch(self, seconds: float) -> None:
        self.now += self.host_cost
        self.busy_until = max(self.busy_until, self.now) + seconds

    def settle(self) -> None:
        self.now = max(self.now, self.busy_until) + self.wait_cost

    def call(self, seconds: float | Callable[[int], float]) -> Callable[[], None]:
        """Make a call that keeps the device busy; its cost may depend on how many came before."""
        calls = 0

        def run() -> None:
            nonlocal calls
            self.launch(seconds(calls) if callable(seconds) else seconds)
            calls += 1

        return run
