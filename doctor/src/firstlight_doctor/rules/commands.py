"""The commands that several rules prescribe, as this system has them; `steps` tells how they are written down."""

from __future__ import annotations

import re
from shlex import quote

from firstlight_doctor.rules import machine
from firstlight_doctor.rules.steps import Words, command
from firstlight_doctor.schema import Facts

# The first release of PyTorch that has a kind of wheel, and the first that no longer has it.
RELEASES = {"cu126": ((2, 6), (2, 15)), "cu130": ((2, 9), (99, 0))}
EXTRAS = (0, 20)  # the first numba-cuda that brings CUDA 13
OURS = "2.13.0"  # the release that the site's page on installing names
NO_WHEEL = (
    "No wheel of today has code for so old a card, and no newer driver changes that. Compute on the CPU, or on another "
    "machine: Colab and Kaggle lend a T4."
)
FIRST_DRIVER = {12: 525, 13: 580}  # that can run programs of a generation of CUDA


@command
def sudo(facts: Facts) -> str:
    """Return what comes before a command that only the administrator may run."""
    return "" if facts.system.root or facts.system.os == "windows" else "sudo "


@command
def pip(facts: Facts) -> str:
    """Return how packages are installed here."""
    return "uv pip install" if "uv" in facts.system.commands else "python -m pip install"


@command
def uninstall(facts: Facts) -> str:
    """Return how packages are removed here."""
    return "uv pip uninstall" if "uv" in facts.system.commands else "python -m pip uninstall --yes"


@command
def reinstall(facts: Facts) -> str:
    """Return how a package is installed over itself here."""
    return f"{pip(facts)} {'--reinstall' if 'uv' in facts.system.commands else '--force-reinstall'}"


def torch_for(facts: Facts, tag: str) -> str:
    """Return the command that installs PyTorch from the index of a kind of wheel: "cu130", "cu126", "xpu"."""
    version = re.match(r"\d+\.\d+\.\d+(?![\da-z]|\.dev)", facts.torch.version or "")  # no index keeps nightly builds
    first, end = RELEASES.get(tag, ((0, 0), (99, 0)))
    there = version and first <= machine.major_minor(version[0]) < end
    which = f'"torch=={version[0] if version and there else OURS}"' if version else "torch"
    return f"$ {reinstall(facts)} {which} --index-url https://download.pytorch.org/whl/{tag}"


def numba_for(facts: Facts, tag: str) -> str:
    """Return the command that installs Numba's CUDA target with the CUDA of a kind of wheel.

    Examples
    --------
    >>> numba_for(Facts(), "cu126")
    '$ python -m pip install "numba-cuda[cu12]" "cuda-toolkit==12.6.*"'
    """
    old = facts.numba.target and machine.major_minor(facts.numba.target) < EXTRAS
    least = f">={'.'.join(map(str, EXTRAS))}" if old else ""
    return f'$ {pip(facts)} "numba-cuda[{tag[:4]}]{least}" "cuda-toolkit=={tag[2:4]}.{tag[4:]}.*"'


def fresh(facts: Facts, tag: str) -> tuple[str, ...]:
    """Return the commands that put the newest PyTorch of an index in the place of the installed one."""
    new = f"$ {pip(facts)} torch --index-url https://download.pytorch.org/whl/{tag}"
    return (f"$ {uninstall(facts)} torch", new) if facts.torch.version else (new,)


def cuda_tag(facts: Facts) -> str:
    """Return the kind of CUDA wheel that fits this card and this driver."""
    old_driver = 0 < machine.major(machine.driver_version(facts)) < 580 or 0 < (facts.cuda.version or 0) < 13000
    return "cu126" if machine.is_old_card(facts) or old_driver else "cu130"


@command
def wheel(facts: Facts) -> tuple[str, ...]:
    """Return the command for the wheel that fits the card and the driver, and before it what it needs."""
    if machine.is_ancient(facts):
        return (NO_WHEEL,)
    late = wheel_needs_driver(facts)
    tag = "cu126" if machine.is_old_card(facts) else "cu130" if late else cuda_tag(facts)
    numba = (numba_for(facts, tag),) if facts.numba.target else ()
    first = "The driver is too old for every wheel that has code for this card, so it comes first:"
    torch = (torch_for(facts, tag),) if facts.torch.version else fresh(facts, tag)
    return (*((first, *newer_driver(facts)) if late else ()), *torch, *numba)


def wheel_needs_driver(facts: Facts) -> bool:
    """Return whether no wheel has code for the card and also runs with the driver."""
    release = machine.major(machine.driver_version(facts))
    return 0 < release < FIRST_DRIVER[12] or (cuda_tag(facts) == "cu126" and machine.is_blackwell(facts))


@command
def same_torch(facts: Facts) -> str:
    """Return the command that installs the same PyTorch once more, from the index it came from."""
    if any(name.startswith("pytorch-") for name in facts.system.conda):
        return "$ conda install --force-reinstall pytorch"
    torch = facts.torch
    tag = f"rocm{'.'.join(torch.hip.split('.')[:2])}" if torch.hip else "xpu" if torch.xpu else "cpu"
    tag = f"cu{torch.cuda.replace('.', '')}" if torch.cuda else tag
    command = torch_for(facts, tag)
    return command.partition(" --index-url")[0] if facts.system.os == "darwin" else command


@command
def numba_cuda(facts: Facts, tag: str = "") -> str:
    """Return the command that gives Numba the CUDA of a kind of wheel, by the manager that Numba is from.

    That is PyTorch's, if the driver can run that.
    """
    cuda, minor = machine.major_minor(facts.torch.cuda)
    runs = cuda in (12, 13) and (facts.cuda.version is None or cuda <= facts.cuda.version // 1000)
    tag = tag or (f"cu{cuda}{minor}" if runs else cuda_tag(facts))
    if any(name.startswith("numba-") for name in facts.system.conda):
        return f'$ conda install --channel conda-forge numba-cuda "cuda-version={tag[2:4]}.{tag[4:]}"'
    return numba_for(facts, tag)


@command
def jetson_wheel(facts: Facts) -> Words:
    """Get the wheel for this Jetson, which its JetPack decides; the kernel tells which that is.

    To do (thor):
    For a Jetson Thor, PyTorch's own wheel for CUDA 13 has the code:
    {torch}

    To do:
    [jetpack_6] This is JetPack 6. Its wheels are for Python 3.10, in an environment of its own:
    [jetpack_6] $ python3.10 -m venv ~/jetson-env
    [jetpack_6] $ ~/jetson-env/bin/pip install torch --index-url https://pypi.jetson-ai-lab.io/jp6/cu126
    [jetpack_6] The pages of First Light need Python 3.11 or newer, which JetPack 7.2 has; it is there for the Orin too.
    [not jetpack_6] NVIDIA lists which PyTorch belongs to which JetPack:
      https://docs.nvidia.com/deeplearning/frameworks/install-pytorch-jetson-platform/
    A container made for your JetPack has a PyTorch that fits: https://github.com/dusty-nv/jetson-containers
    $ jetson-containers run $(autotag l4t-pytorch)
    """
    jetpack_6 = (facts.system.kernel or "").startswith("5.15.")
    return {"thor": (11, 0) in machine.capabilities(facts), "torch": torch_for(facts, "cu130"), "jetpack_6": jetpack_6}


@command
def torch_rocm(facts: Facts) -> Words:
    """Install PyTorch for AMD's cards, for which its index has nothing on Windows.

    To do (windows for_amd):
    For Windows AMD publishes PyTorch itself, for some cards:
      https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad/windows/install-pytorch.html

    To do:
    {torch}
    """
    return {"torch": fresh(facts, "rocm7.2")}


@command
def torch_xpu(facts: Facts) -> tuple[str, ...]:
    """Return how PyTorch for Intel's cards is installed."""
    return fresh(facts, "xpu")


@command
def torch_cuda(facts: Facts) -> tuple[str, ...]:
    """Return how PyTorch for the newest CUDA is installed."""
    return fresh(facts, "cu130")


def unset(facts: Facts, *names: str) -> tuple[str, ...]:
    """Return how variables of the environment are taken away, now and for good."""
    if facts.system.os == "windows":
        settings = "If a new PowerShell has it again, delete it in Windows' settings for environment variables."
        return (*(f"$ Remove-Item Env:{name}" for name in names), settings)
    again = "If a new terminal has it again, this shows the file that sets it:"
    if "SLURM_JOB_ID" in facts.env:
        again = f"In a job, Slurm itself may set it, to the GPUs of the job: your script should leave it alone. {again}"
    where = "~/.bashrc ~/.profile ~/.bash_profile ~/.zshrc /etc/environment"
    return (f"$ unset {' '.join(names)}", again, f"$ grep -sn {names[0]} {where}")


@command
def without_library_path(facts: Facts) -> Words:
    """Try without the libraries that LD_LIBRARY_PATH brings in.

    To do:
    [path not windows] First without the libraries that LD_LIBRARY_PATH brings in:
    [path not windows] $ unset LD_LIBRARY_PATH
    """
    return {"path": facts.env.get("LD_LIBRARY_PATH")}


def search_path_without(facts: Facts, piece: str) -> tuple[str, ...]:
    """Return how a folder leaves the search path of libraries."""
    folders = facts.env.get("LD_LIBRARY_PATH", "").split(":")
    kept = [folder for folder in folders if folder and piece not in folder]
    if any(piece in folder for folder in folders):
        command = f"$ export LD_LIBRARY_PATH={quote(':'.join(kept))}" if kept else "$ unset LD_LIBRARY_PATH"
        return (command, "The old setting comes from a line in ~/.bashrc, a job script or a module: take it out there.")
    return (
        "A file in /etc/ld.so.conf.d names the folder. Remove the line that the first command shows:",
        f"$ grep -rn {piece} /etc/ld.so.conf.d",
        f"$ {sudo(facts)}ldconfig",
    )


@command
def nvidia_driver(facts: Facts) -> Words:
    """Install NVIDIA's driver, but for the restart.

    To do (wsl):
    Install the newest driver for your card on Windows, and none in here: https://www.nvidia.com/en-us/drivers/

    To do (old_card not debian):
    {last_driver}

    To do (ubuntu):
    $ {sudo}apt install ubuntu-drivers-common
    $ {sudo}ubuntu-drivers install

    To do (debian not blackwell):
    The package is in Debian's sections contrib and non-free. Name them in /etc/apt/sources.list, or in
      /etc/apt/sources.list.d/debian.sources, where that is the file; then:
    $ {sudo}apt update
    [apt] $ {sudo}apt install linux-headers-$(dpkg --print-architecture) nvidia-driver

    To do (fedora):
    The package is in RPM Fusion; https://rpmfusion.org/Configuration tells how to add that source.
    [dnf] $ {sudo}dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda

    To do (pacman):
    [usual_kernel] $ {sudo}pacman -S nvidia-open nvidia-utils
    [not usual_kernel] Your kernel is not Arch's usual one: name its headers, here those of linux-lts.
    [not usual_kernel] $ {sudo}pacman -S nvidia-open-dkms nvidia-utils linux-lts-headers

    To do:
    Install NVIDIA's driver as its guide describes for your distribution:
      https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
    """
    return {
        "debian": "debian" in facts.system.distro,  # whose tools or packages take a driver that fits an old card
        "old_card": machine.is_old_card(facts),
        "blackwell": machine.is_blackwell(facts),  # for which Debian's own driver is too old
        "usual_kernel": "-arch" in (facts.system.kernel or "-arch"),
    }


@command
def newer_driver(_: Facts) -> Words:
    """Get a driver for CUDA 13.

    To do (windows):
    Install the newest driver for your card on Windows: https://www.nvidia.com/en-us/drivers/

    To do (wsl):
    Install the newest driver for your card on Windows: https://www.nvidia.com/en-us/drivers/
    In PowerShell, bring Windows' Linux up to date too:
    $ wsl --update

    To do (container):
    The driver belongs to the machine around the container: it has to be updated there.

    To do (cluster):
    The driver belongs to the cluster: ask its administrators for {release} or newer.

    To do:
    {nvidia_driver}
    $ {sudo}reboot
    Then nvidia-smi has to print a driver of {release} or newer. If your distribution has no such driver, take NVIDIA's
      own packages: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
    """
    return {"release": FIRST_DRIVER[13]}


@command
def last_driver(_: Facts) -> None:
    """Install the driver of the branch 580, the last for cards before Turing.

    To do (ubuntu):
    [apt] $ {sudo}apt install nvidia-driver-580

    To do (fedora):
    [dnf] $ {sudo}dnf install akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda

    To do (pacman):
    Your card needs the branch 580 of NVIDIA's driver, the last that knows it: nvidia-580xx-dkms, from the AUR. See
      https://wiki.archlinux.org/title/NVIDIA

    To do:
    Your card needs the branch 580 of NVIDIA's driver, the last that knows it:
      https://www.nvidia.com/en-us/drivers/unix/
    """


@command
def rebuild_boot(_: Facts) -> None:
    """Take a new choice of modules into what Linux starts from.

    To do:
    [apt] $ {sudo}update-initramfs -u
    [pacman] $ {sudo}mkinitcpio -P
    [not apt not pacman] $ {sudo}dracut --force
    """


@command
def switch_graphics(facts: Facts) -> Words:
    """Give the card of a laptop with two kinds of graphics to programs.

    To do:
    [two] If a tool (prime-select, supergfxctl, envycontrol) chose the other graphics alone, choose both:
    [two ubuntu] $ {sudo}prime-select on-demand
    [two not ubuntu] $ supergfxctl --mode Hybrid
    """
    return {"two": len({gpu.vendor for gpu in facts.gpus}) > 1}


@command
def reset(_: Facts) -> None:
    """Reset the card.

    To do:
    [windows] In a PowerShell that you start with "Run as administrator":
    $ {sudo}nvidia-smi --gpu-reset
    """


@command
def mend_memory(_: Facts) -> None:
    """Have a card set aside a broken place in its memory.

    To do:
    End every program that uses the card, then reset it, or restart the machine:
    {reset}
    This tells whether the broken place was set aside (Pending: Yes waits for a reset), or the card is worn out:
    $ nvidia-smi --query --display=ECC,ROW_REMAPPER
    Repeat results that were computed since the error. If it comes back, have the card replaced.
    """


@command
def works_on_cpu(facts: Facts) -> Words:
    """Do without a GPU.

    To do:
    Your programs run here all the same, on the processor (CPU).
    [torch] PyTorch {torch} runs the same code there if you choose the device cpu.
    [not torch] PyTorch isn't installed yet. This is the one for the CPU:
    [not torch mac] $ {pip} torch
    [not torch not mac] $ {pip} torch --index-url https://download.pytorch.org/whl/cpu
    [numba] Numba runs kernels in its simulator. It is slow, but the results are right:
    [numba windows] $ $env:NUMBA_ENABLE_CUDASIM = "1"; python your_script.py
    [numba not windows] $ NUMBA_ENABLE_CUDASIM=1 python your_script.py
    """
    return {"torch": facts.torch.version, "numba": facts.numba.version}


@command
def ask_slurm(_: Facts) -> None:
    """Ask Slurm for a GPU.

    To do:
    Ask for a GPU. To try things out, in a shell on a node that has one:
    $ srun --gpus=1 --pty bash
    For work that runs by itself, a line of the script asks for it: #SBATCH --gpus=1
    $ sbatch your_script.sh
    On some clusters the option is --gres=gpu:1, or the GPUs have a partition of their own. The column "GRES" tells:
    $ sinfo -o '%P %G'
    """


@command
def no_hmm(_: Facts) -> None:
    """Keep NVIDIA's driver from using HMM, from the next start on.

    To do:
    $ echo options nvidia_uvm uvm_disable_hmm=1 | {sudo}tee /etc/modprobe.d/nvidia-hmm.conf
    """
