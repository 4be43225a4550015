"""Causes that show when PyTorch is imported, or at its first computation."""

from __future__ import annotations

from firstlight_doctor.rules.commands import unset
from firstlight_doctor.rules.machine import find_message
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.schema import HUNG, Facts

FOREIGN = ("undefined symbol: __nvJitLink", "symbol __nvJitLink", "but found runtime version", "undefined symbol: cu")
HALF_IMPORTED = ("partially initialized module", "module 'torch' has no attribute", "module 'numba' has no attribute")


@rule("torch")
def shadowed(facts: Facts) -> Signs | None:
    """A file of yours has the name of a package and hides it.

    Python looks for a module in the folder of the program first, and only then among the installed packages. With a
    file torch.py there, "import torch" runs that file, which has nothing of PyTorch in it.

    To do:
    Give it another name:
    {move}
    """
    names, line = facts.system.shadowed, find_message(facts, *HALF_IMPORTED)
    if not names:
        return None
    move = "Rename-Item" if facts.system.os == "windows" else "mv"
    return signs(
        f"this folder has a file {' and one '.join(names)}",
        line,
        certainty="certain" if line else "possible",
        move=tuple(f"$ {move} {name} my_{name}" for name in names),
    )


@rule("torch", on="linux")
def library_path(facts: Facts) -> Signs | None:
    """LD_LIBRARY_PATH gives PyTorch libraries of another CUDA.

    PyTorch's wheel brings its own CUDA and cuDNN. The variable LD_LIBRARY_PATH names folders that Linux searches before
    those of the wheel; guides that install a CUDA toolkit set it, and so do modules on clusters. PyTorch then loads
    part of its libraries from there, in another version, and one misses a function in the other.

    To do:
    See whether PyTorch starts without the variable:
    $ env -u LD_LIBRARY_PATH python -c "import torch; print(torch.backends.cudnn.version())"
    If it does, take the variable away for good:
    {unset}
    On a cluster a module may have set it: module list shows which, and module unload takes it back.
    """
    line, path = find_message(facts, *FOREIGN), facts.env.get("LD_LIBRARY_PATH")
    if not line or not (path or line in facts.said):
        return None
    return signs(
        line,
        f"LD_LIBRARY_PATH={path}" if path else "the error came in a program that was started elsewhere",
        certainty="likely" if path else "possible",
        unset=unset(facts, "LD_LIBRARY_PATH"),
    )


@rule("torch")
def torch_stops(facts: Facts) -> Signs | None:
    """PyTorch hangs or crashes.

    It does so without an error of Python, because the fault is in compiled code: a library of another program that
    PyTorch picked up, a processor that lacks instructions, too little memory, or a driver that does not answer. On a
    network disk a first import can also just be slow.

    To do (out_of_memory):
    The system ended it, most likely because memory ran out: give the job or the container more.

    To do (slow):
    {without_library_path}
    Try it once more by hand: if it only was slow, the second time is quicker. If it hangs again, this prints after a
      minute where it waits:
    $ python -c "import faulthandler; faulthandler.dump_traceback_later(60, exit=True); import torch"

    To do (no_instruction):
    {without_library_path}
    The processor lacks an instruction. In a virtual machine, let it have the processor of the host (its type "host");
      in a container, take an image for this kind of processor.

    To do:
    {without_library_path}
    This prints where it stops; a path outside of the environment is what to take away:
    $ python -X faulthandler -c "import torch; torch.ones(2, device=torch.accelerator.current_accelerator()).sum()"
    """
    torch, failed = facts.torch, facts.torch.failed
    if not failed:
        return None
    return signs(
        f"the check of PyTorch {failed}",
        f"it stopped {'after it had been imported, at its first work' if torch.imported else 'at import torch'}",
        certainty="likely",
        slow=failed.startswith(HUNG) and not torch.imported,
        no_instruction="signal 4" in failed,
        out_of_memory="signal 9" in failed,
    )


@rule("torch")
def wrong_result(facts: Facts) -> Signs | None:
    """The GPU computes, and gets it wrong.

    The doctor multiplied matrices on the GPU and on the CPU and compared. A difference as large as this is no rounding.
    Memory that loses bits, clocks set too high, or too weak a power supply do that; now and then it is a fault of the
    driver or of PyTorch. Do not trust what this GPU computed.

    To do:
    [nvidia] See whether the card has counted errors, how hot it is, and how fast it runs:
    [nvidia] $ nvidia-smi -q -d ECC,TEMPERATURE,CLOCK
    Take back any overclocking, restart, and run the doctor again. If it is still wrong, try a newer driver, then
      another card in its place.
    """
    if facts.torch.kernel != "wrong":
        return None
    name = facts.torch.names[0] if facts.torch.names else "the GPU"
    return signs(f"a matrix product on {name} was wrong", certainty="likely")
