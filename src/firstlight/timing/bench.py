"""One experiment: the ways of doing a thing, each timed, judged, and shown as one table and one figure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from firstlight.devices import Card, card
from firstlight.display import MISSING, Table, Widget, ipython_shell, percent, quantity
from firstlight.timing.ceilings import Roof, ceilings
from firstlight.timing.measurement import device_of, measure
from firstlight.timing.result import MIN_VALUES, RowName, Timing
from firstlight.timing.roofs import measured_roof
from firstlight.timing.verdicts import NEVER_SHOWN, with_verdicts, with_verdicts_of_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ("", "n", "device", "median", "spread", "first call", "rate", "of roof", "cores", "verdict")


class Bench(Widget):
    """One experiment: its rows share a budget of seconds, a table and a figure.

    Parameters
    ----------
    id
        A name that no other experiment has: small letters, digits and hyphens.
    budget
        Seconds for all rows together; each takes at most a quarter of what is left, and at most one second.

    Examples
    --------
    >>> import numpy as np
    >>> bench = Bench("two-sums", budget=0.2)
    >>> a, out = np.ones(1001), np.empty(1001)
    >>> timing = bench.time("new result", np.add, a, a, n=1001, bytes=3 * 8 * 1001)
    >>> timing = bench.time("same result", lambda: np.add(a, a, out=out), n=1001, bytes=3 * 8 * 1001)
    >>> [t.label for t in bench.timings]
    ['new result', 'same result']
    """

    def __init__(self, id: str, budget: float = 8.0) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", id):
            raise ValueError(f"a Bench is named with small letters, digits and hyphens, like 'vector-add'; got {id!r}")
        if not 0 < budget < math.inf:
            raise ValueError(f"budget must be a positive number of seconds; got {budget!r}")
        self.id = id
        self.rows: dict[RowName, Timing] = {}
        self._budget = budget
        self._spent: dict[RowName, float] = {}
        self._cells: dict[RowName, int | None] = {}

    @property
    def timings(self) -> list[Timing]:
        """What was timed, in order."""
        return list(self.rows.values())

    def time(
        self,
        label: str,
        fn: Callable[..., object],
        *args: Any,
        n: int | None = None,
        bytes: int | None = None,
        flops: int | None = None,
        footprint: int | None = None,
        tensor_cores: bool | None = None,
        device: object = None,
        setup: Callable[[], object] | None = None,
        blocks: int | None = None,
    ) -> Timing:
        """Time ``fn(*args)`` as one row, and judge its rates; a call that raises or is interrupted makes no row.

        The other parameters are those of :func:`~firstlight.timing.measurement.measure`. Rows of one label that say
        their bytes or operations are compared with each other, too. A cell of a notebook may be run again, and then
        times its rows anew; otherwise two rows of one name are a mistake.
        """
        device = str(device) if device is not None else device_of(args)
        name, shell = RowName(self.id, label, device, n), ipython_shell()
        cell = shell.execution_count if shell else None
        if name in self.rows and self._cells[name] == cell:
            raise ValueError(f"{self.id!r} has a row {name.in_bench!r} already; give this one another label")
        left = self._budget - sum(self._spent.values()) + self._spent.get(name, 0.0)
        budget = min(1.0, left / 4)
        work: dict[str, Any] = {"bytes": bytes, "flops": flops, "footprint": footprint, "tensor_cores": tensor_cores}
        how: dict[str, Any] = {"device": device, "budget": budget, "setup": setup, "blocks": blocks}
        timing = measure(fn, *args, label=label, n=n, **how, **work)
        self._spent[name], self._cells[name] = min(sum(timing.values) * timing.loops, budget), cell
        self.rows[name] = with_verdicts(timing, ceilings(_card_of(device)), _roof_for(timing))
        self.rows = dict(zip(self.rows, with_verdicts_of_series(self.timings), strict=True))
        return self.rows[name]

    def __getitem__(self, label: str) -> Timing:
        """Return the timing with this label; the name in full where several share it."""
        found = {name: t for name, t in self.rows.items() if label in (name.label, name.in_bench)}
        if len(found) != 1:
            names = ", ".join(repr(name.in_bench) for name in found or self.rows) or "none yet"
            raise KeyError(f"{len(found)} rows of {self.id!r} are called {label!r}; there are: {names}")
        return next(iter(found.values()))

    def table(self) -> Table:
        """Return the rows as a table, with the machine in its caption, and what all rows share."""
        rows = tuple(map(_row, self.timings))
        devices = list(dict.fromkeys(timing.device for timing in self.timings))
        sizes = {timing.n for timing in self.timings}
        shared = {"device"} if len(devices) < 2 else set()
        caption = [self.id, "; ".join(_describe(_card_of(device)) for device in devices) or "nothing timed yet"]
        if len(sizes) == 1 and (size := sizes.pop()):
            caption.append(f"n = {size:,}")
            shared.add("n")
        return Table(" – ".join(caption), HEAD, rows).drop_columns(shared)

    def __str__(self) -> str:
        return self.table().text()

    def to_json(self) -> str:
        """Return the rows as JSON, for another program: what was measured, its median, its quartiles and its verdicts.

        Examples
        --------
        >>> bench = Bench("one-sum")
        >>> timing = bench.time("built in", sum, range(10_001), blocks=12)
        >>> import json
        >>> (row,) = json.loads(bench.to_json())
        >>> row["label"], len(row["values"]), row["median"] == timing.median
        ('built in', 12, True)
        """
        rows = [asdict(t) | {"median": t.median, "quartiles": t.quartiles} for t in self.timings if t.values]
        return json.dumps(rows, indent=1)

    def plot(self) -> Figure:
        """Draw the rows with their spread, and the floor that their bytes and operations set on this machine."""
        from firstlight.timing.figure import draw

        devices = dict.fromkeys(timing.device for timing in self.timings)
        series = {_describe(_card_of(d)): [t for t in self.timings if t.device == d] for d in devices}
        return draw(series, self.id)

    def _repr_html_(self) -> str:
        return self.table().html()


def _card_of(device: str) -> Card:
    """Return the card of a device, also of one that only Numba reaches, because there is no PyTorch with GPU code."""
    try:
        return card(device)
    except (ImportError, OSError, ValueError):  # a PyTorch whose libraries do not load is an OSError
        return Card(name=f"{device}, which PyTorch cannot use here", kind="cuda")


def _roof_for(timing: Timing) -> Roof | None:
    """Return the roof to hold a timing against; none without a rate, or where there is no room or no PyTorch for it."""
    if timing.byte_rate is None and timing.flop_rate is None:
        return None
    try:
        return measured_roof(timing.device)
    except (ImportError, OSError, RuntimeError, ValueError):
        return None


def _row(timing: Timing) -> tuple[str, ...]:
    """Return the cells of one timing, in the order of ``HEAD``."""
    name = (timing.label, f"{timing.n:,}" if timing.n else MISSING, timing.device)
    if timing.verdict in NEVER_SHOWN:
        return (*name, *[MISSING] * (len(HEAD) - 4), timing.verdict)  # such a number is flagged, never printed
    on_cpu = timing.device == "cpu" and timing.cores is not None
    return (
        *name,
        quantity(timing.median, "s"),
        percent(timing.relative_iqr if len(timing.values) >= MIN_VALUES else None),
        quantity(timing.first, "s"),
        timing.rate_text or MISSING,
        percent(timing.of_roof),
        f"{timing.cores:.1f}" if on_cpu else MISSING,
        timing.verdict_text,
    )


def _describe(of: Card) -> str:
    """Return a device in a few words; a CPU says its cores."""
    return f"{of.name}, {of.cores} cores" if of.kind == "cpu" else of.name
