"""How much memory tensors hold at once, counted without a GPU: PyTorch's device ``meta`` is enough."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Meter"]


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of PyTorch
    """Counts the bytes of all tensors that are made inside of ``with`` and still live, on any device.

    After each operation, ``levels`` grows by what they hold then. Of tensors that share memory, it counts once. A GPU
    takes a little more, because its memory is handed out in blocks.

    Parameters
    ----------
    limit
        Bytes from which on an operation raises ``torch.OutOfMemoryError``, as a full card does.

    Examples
    --------
    >>> import torch
    >>> from firstlight.memory import Meter
    >>> with Meter() as meter:
    ...     weights = torch.ones(1000, 1000, device="meta", requires_grad=True)
    ...     (weights * weights).sum().backward()
    >>> max(meter.levels), meter.live()  # weights and gradients stay
    (16000008, 8000000)
    """

    def __init__(self, limit: float = math.inf) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        self.levels: list[int] = []
        self.limit = limit

    def live(self) -> int:
        """Return the bytes that are held now."""
        return sum(storage.nbytes() for storage in self.storages)

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Do an operation of PyTorch's, and count what lives after it."""
        result = operation(*args, **(kwargs or {}))
        made = result if isinstance(result, (tuple, list)) else (result,)
        tensors = (tensor for tensor in made if isinstance(tensor, torch.Tensor))
        self.storages.update(tensor.untyped_storage() for tensor in tensors)
        self.levels.append(self.live())
        if self.levels[-1] > self.limit:
            del result, made, tensors  # whoever catches the error gets their memory back
            raise torch.OutOfMemoryError(f"the limit is {self.limit:,} bytes")
        return result
