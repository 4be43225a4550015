"""What a fit asks of the group that it is in: it is alone, so this goes as soon as the fit no longer asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")


class Group:
    """One process."""

    size, first = 1, True

    def share(self, n: int) -> slice:
        """Return all."""
        return slice(0, n)

    def sum(self, tensor: Tensor) -> Tensor:
        """Return it as it is."""
        return tensor

    whole = sum

    def collect(self, value: T) -> list[T]:
        """Return it alone."""
        return [value]

    def from_first(self, make: Callable[[], T]) -> T:
        """Make it."""
        return make()

    def numbers(self, own: Tensor) -> Tensor:
        """Return it as one of one."""
        return own.reshape(1)


def spare(*_: Any) -> list[str]:
    """Return that no process is without a channel."""
    return []


check_model = check_sums = spare  # one process may have any model


def rows_of_all(parts: list[Tensor], separate: bool) -> Tensor:
    """Return the rows of the one process."""
    del separate
    return parts[0]


def state_of_all(group: Group, state: dict[str, Any]) -> dict[str, Any]:
    """Return it as it is."""
    del group
    return state


def own_state(group: Group, state: dict[str, Any], nchan: int) -> dict[str, Any]:
    """Return it as it is."""
    del group, nchan
    return state
