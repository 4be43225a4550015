"""Causes that show when PyTorch is imported, or at its first computation."""

from __future__ import annotations

from gpu_doctor.rules.ask import has, heard
from gpu_doctor.rules.commands import unset
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.shapes import Facts

FOREIGN = ("undefined symbol: __nvJitLink", "symbol __nvJitLink", "but found runtime version", "undefined symbol: cu")
HALF_IMPORTED = ("partially initialized module", "module 'torch' has no attribute", "module 'numba' has no attribute")


@rule("torch")
def shadowed(facts: Facts) -> Seen | None:
    """A file of yours has the name of a package and hides it.

    Python looks for a module in the folder of the program first, and only then among the installed packages. With a
    file torch.py there, "import torch" runs that file, which has nothing of PyTorch in it.
    """
    names, line = facts.system.shadowed, heard(facts, *HALF_IMPORTED)
    if not names:
        return None
    move = "Rename-Item" if facts.system.os == "windows" else "mv"
    return Seen(
        (f"this folder has a file {' and one '.join(names)}", *([line] if line else [])),
        ("Give it another name:", *(f"$ {move} {name} my_{name}" for name in names)),
        "certain" if line else "possible",
    )


@rule("torch", on="linux")
def library_path(facts: Facts) -> Seen | None:
    """LD_LIBRARY_PATH gives PyTorch libraries of another CUDA.

    PyTorch's wheel brings its own CUDA and cuDNN. The variable LD_LIBRARY_PATH names folders that Linux searches before
    those of the wheel; guides that install a CUDA toolkit set it, and so do modules on clusters. PyTorch then loads
    part of its libraries from there, in another version, and one misses a function in the other.
    """
    line, path = heard(facts, *FOREIGN), facts.env.get("LD_LIBRARY_PATH")
    if not line or not (path or line in facts.said):
        return None
    seen = f"LD_LIBRARY_PATH={path}" if path else "the error came in a program that was started elsewhere"
    return Seen(
        (line, seen),
        (
            "See whether PyTorch starts without the variable:",
            '$ env -u LD_LIBRARY_PATH python -c "import torch; print(torch.backends.cudnn.version())"',
            "If it does, take the variable away for good:",
            *unset(facts, "LD_LIBRARY_PATH"),
            "On a cluster a module may have set it: module list shows which, and module unload takes it back.",
        ),
        "likely" if path else "possible",
    )


@rule("torch")
def torch_stops(facts: Facts) -> Seen | None:
    """PyTorch hangs or crashes.

    It does so without an error of Python, because the fault is in compiled code: a library of another program that
    PyTorch picked up, a processor that lacks instructions, too little memory, or a driver that does not answer. On a
    network disk a first import can also just be slow.
    """
    torch, failed = facts.torch, facts.torch.failed
    if not failed:
        return None
    where = "after it had been imported, at its first work" if torch.imported else "at import torch"
    if "hung" in failed and not torch.imported:
        fix: tuple[str, ...] = (
            "Try it once more by hand: if it only was slow, the second time is quicker. If it hangs again, this prints "
            "after a minute where it waits:",
            '$ python -c "import faulthandler; faulthandler.dump_traceback_later(60, exit=True); import torch"',
        )
    elif "signal 4" in failed:
        fix = (
            "The processor lacks an instruction. In a virtual machine, let it have the processor of the host (its type "
            '"host"); in a container, take an image for this kind of processor.',
        )
    elif "signal 9" in failed:
        fix = ("The system ended it, most likely because memory ran out: give the job or the container more.",)
    else:
        work = "torch.ones(2, device=torch.accelerator.current_accelerator()).sum()"
        trace = f'$ python -X faulthandler -c "import torch; {work}"'
        fix = ("This prints where it stops; a path outside of the environment is what to take away:", trace)
    if facts.env.get("LD_LIBRARY_PATH") and "signal 9" not in failed:
        fix = (
            "First without the libraries that LD_LIBRARY_PATH brings in:",
            *unset(facts, "LD_LIBRARY_PATH")[:1],
            *fix,
        )
    return Seen((f"the check of PyTorch {failed}", f"it stopped {where}"), fix, "likely")


@rule("torch")
def wrong_result(facts: Facts) -> Seen | None:
    """The GPU computes, and gets it wrong.

    The doctor multiplied matrices on the GPU and on the CPU and compared. A difference as large as this is no rounding.
    Memory that loses bits, clocks set too high, or too weak a power supply do that; now and then it is a fault of the
    driver or of PyTorch. Do not trust what this GPU computed.
    """
    if facts.torch.kernel != "wrong":
        return None
    name = facts.torch.names[0] if facts.torch.names else "the GPU"
    nvidia = (
        "See whether the card has counted errors, how hot it is, and how fast it runs:",
        "$ nvidia-smi -q -d ECC,TEMPERATURE,CLOCK",
    ) * has(facts, "nvidia")
    last = (
        "Take back any overclocking, restart, and run the doctor again. If it is still wrong, try a newer driver, then "
        "another card in its place."
    )
    return Seen((f"a matrix product on {name} was wrong",), (*nvidia, last), "likely")
