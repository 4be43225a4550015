"""Causes in a container: it sees only the cards, and only the part of the driver, that it was started with."""

from __future__ import annotations

from firstlight.doctor.rules.ask import driver_of, heard, maker
from firstlight.doctor.rules.commands import sudo
from firstlight.doctor.rules.rule import Seen, rule
from firstlight.doctor.shapes import Facts

TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
LOST = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html"
FILES = {"nvidia": ("/dev/nvidia", "/dev/dxg"), "amd": ("/dev/kfd",), "intel": ("/dev/dri/renderD",)}
OPTIONS = {
    ("docker", "nvidia"): "--gpus all",
    ("podman", "nvidia"): "--device nvidia.com/gpu=all",
    ("apptainer", "nvidia"): "--nv",
    ("apptainer", "amd"): "--rocm",
    ("apptainer", "intel"): "--bind /dev/dri",
}
DEVICES = {"amd": "--device /dev/kfd --device /dev/dri", "intel": "--device /dev/dri"}
LIMITS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
NO_RUNTIME = "could not select device driver"
NO_CDI = "unresolvable CDI devices"


def give(facts: Facts, vendor: str) -> tuple[str, ...]:
    """Return how a container of this kind is started so that it has the card."""
    engine = facts.system.container or "docker"
    if engine == "kubernetes":
        limit = LIMITS[vendor]
        return (
            f"A pod gets a GPU if its description asks for one: resources: {{limits: {{{limit}: 1}}}}",
            "Whether the cluster has any to give, this tells:",
            f"$ kubectl describe nodes | grep {limit}",
        )
    option = OPTIONS.get((engine, vendor)) or DEVICES[vendor]
    if engine == "apptainer":
        return (f"$ apptainer exec {option} YOUR_IMAGE.sif python your_script.py",)
    again = (f"$ {engine} run {option} YOUR_IMAGE",)
    if option == "--gpus all":
        toolkit = f'If Docker answers "{NO_RUNTIME}", install the NVIDIA Container Toolkit there: {TOOLKIT}'
        return (*again, toolkit)
    if vendor == "nvidia":
        describe = "$ sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        return (*again, f'If Podman answers "{NO_CDI}", describe the cards to it once:', describe)
    return again


@rule("nodes")
def container_without_gpu(facts: Facts) -> Seen | None:
    """The container was started without the GPU.

    A container shares the Linux kernel of the machine around it, so the card shows on the bus. But the device files
    through which programs reach it, and the driver's libraries, come in only if the container is started with them.
    Nothing that you install inside helps; least of all a driver.
    """
    vendor, engine = maker(facts), facts.system.container
    if not engine or vendor not in FILES or facts.cuda.devices or facts.torch.kind:
        return None
    if any(node.path.startswith(FILES[vendor]) for node in facts.nodes):
        return None
    version = driver_of(facts)
    seen = [
        f"this is a container ({engine})",
        f"the kernel outside runs NVIDIA's driver {version}" if version else "the card is on the bus",
        f"there is no {FILES[vendor][0]}… in here",
    ]
    if vendor == "nvidia" and (asked := facts.env.get("NVIDIA_VISIBLE_DEVICES")):
        seen.append(f"NVIDIA_VISIBLE_DEVICES={asked}")
    return Seen(
        tuple(seen), ("Leave the container, and start it again on the machine around it:", *give(facts, vendor))
    )


@rule("library")
def apptainer_without_nv(facts: Facts) -> Seen | None:
    """Apptainer was started without --nv, so NVIDIA's driver is missing inside.

    Apptainer (once Singularity) shows every device file of the machine to the container. The driver's library,
    libcuda, has to fit the driver outside, so no image holds it: the option --nv brings it in.
    """
    files = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia")]
    if facts.system.container != "apptainer" or not files or not facts.cuda.error:
        return None
    return Seen(
        evidence=(
            "this is a container of Apptainer",
            f"the card's files are here: {', '.join(files[:3])}",
            f"its library is not: {facts.cuda.error}",
        ),
        fix=("Leave the container, and start it again:", *give(facts, "nvidia")),
    )


@rule("library")
def container_without_compute(facts: Facts) -> Seen | None:
    """The container was given nvidia-smi, but not CUDA.

    The variable NVIDIA_DRIVER_CAPABILITIES says which parts of the driver a container gets. The part "utility" is
    nvidia-smi and its library alone: it shows the card and a healthy driver. CUDA is the part "compute".
    """
    parts = facts.env.get("NVIDIA_DRIVER_CAPABILITIES")
    if not (facts.system.container and parts and facts.nvml.init == 0 and facts.cuda.error):
        return None
    if {"compute", "all"} & {part.strip() for part in parts.split(",")}:
        return None
    start = "$ docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility YOUR_IMAGE"
    return Seen(
        evidence=(
            f"NVIDIA_DRIVER_CAPABILITIES={parts}",
            f"the library of nvidia-smi works in here, CUDA's is missing: {facts.cuda.error}",
        ),
        fix=(
            "Start the container again, with both parts of the driver:",
            start
            if facts.system.container == "docker"
            else "In its description, set the variable NVIDIA_DRIVER_CAPABILITIES to compute,utility",
            "If you build the image yourself, a line of its Dockerfile does it for good:",
            "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
    )


@rule("nodes")
def container_lost_gpu(facts: Facts) -> Seen | None:
    """The container had the GPU, and lost it while it ran.

    The machine around the container keeps a list of the devices that it may open. When systemd, which starts the
    services there, reads its settings anew, it can write that list without the GPU. The device files are still to be
    seen, but no longer open. Updates of packages do this, often at night.
    """
    line = heard(facts, "Failed to initialize NVML: Unknown Error")
    inside = facts.system.container
    if not (inside and facts.nvml.init == 999) and not (line and facts.nvml.init in (0, None)):
        return None
    shut = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia") and not node.open]
    again = (
        "$ kubectl delete pod YOUR_POD" if inside == "kubernetes" else f"$ {inside or 'docker'} restart YOUR_CONTAINER"
    )
    return Seen(
        evidence=(
            *((line,) if line else ("NVML, the library of nvidia-smi, returned 999: unknown error",)),
            *((f"this is a container ({inside})",) if inside else ()),
            *((f"these device files are here, but closed: {', '.join(shut)}",) if shut else ()),
        ),
        fix=(
            "On the machine around the container, start it again; it has the GPU until the next time:",
            again,
            "So that there is no next time, its administrator makes the links that systemd looks for, at every boot:",
            "$ sudo nvidia-ctk system create-dev-char-symlinks --create-all",
        ),
        certainty="likely",
    )


@rule("visible")
def no_container_toolkit(facts: Facts) -> Seen | None:
    """Docker or Podman cannot hand out the GPU: NVIDIA's Container Toolkit is missing, or they do not know of it.

    The card works on the machine itself. To bring it into a container, with a library that fits the driver, takes a
    helper from NVIDIA, the Container Toolkit. Docker has to be told of it once; Podman reads a list of the cards that
    it writes.
    """
    docker, podman = heard(facts, NO_RUNTIME), heard(facts, NO_CDI)
    line = docker or podman
    if not line or maker(facts) != "nvidia":
        return None
    root = sudo(facts)
    tell = (
        (f"$ {root}nvidia-ctk runtime configure --runtime=docker", f"$ {root}systemctl restart docker")
        if docker
        else (f"$ {root}nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",)
    )
    return Seen(
        evidence=(line,),
        fix=(
            "On the machine itself, outside of any container, add NVIDIA's source of packages and install the package "
            f"nvidia-container-toolkit: {TOOLKIT}",
            "Then make it known, and try it:",
            *tell,
            f"$ {'docker run --rm --gpus all' if docker else 'podman run --rm --device nvidia.com/gpu=all'} "
            "ubuntu nvidia-smi",
            *(
                ("A Docker that was installed as a snap does not find it: install Docker's own package.",)
                * bool(docker)
            ),
        ),
        certainty="likely",
    )
