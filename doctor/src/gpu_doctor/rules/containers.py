"""Causes in a container: it sees only the cards, and only the part of the driver, that it was started with."""

from __future__ import annotations

from gpu_doctor.rules.ask import driver_of, heard, maker
from gpu_doctor.rules.commands import sudo
from gpu_doctor.rules.rule import Seen, rule
from gpu_doctor.shapes import Facts

TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
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
NO_RUNTIME, NO_CDI = "could not select device driver", "unresolvable CDI devices"
DESCRIBE = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


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
    again = f"$ {engine} run {option} YOUR_IMAGE"
    if vendor != "nvidia":
        return (again,)
    if engine == "docker":
        return (again, f'If Docker answers "{NO_RUNTIME}", install the NVIDIA Container Toolkit there: {TOOLKIT}')
    return (again, f'If Podman answers "{NO_CDI}", describe the cards to it once:', f"$ sudo {DESCRIBE}")


@rule("nodes", on="container")
def container_without_gpu(facts: Facts) -> Seen | None:
    """The container was started without the GPU.

    A container shares the Linux kernel of the machine around it, so the card shows on the bus. But the device files
    through which programs reach it, and the driver's libraries, come in only if the container is started with them.
    Nothing that you install inside helps; least of all a driver.
    """
    vendor = maker(facts)
    if vendor not in FILES or facts.cuda.devices or facts.torch.kind:
        return None
    if any(node.path.startswith(FILES[vendor]) for node in facts.nodes):
        return None
    version, asked = driver_of(facts), facts.env.get("NVIDIA_VISIBLE_DEVICES")
    seen = [
        f"this is a container ({facts.system.container})",
        f"the kernel outside runs NVIDIA's driver {version}" if version else "the card is on the bus",
        f"there is no {FILES[vendor][0]}… in here",
    ]
    seen += [f"NVIDIA_VISIBLE_DEVICES={asked}"] if vendor == "nvidia" and asked else []
    leave = "Leave the container, and start it again on the machine around it:"
    return Seen(tuple(seen), (leave, *give(facts, vendor)))


@rule("library", on="container")
def apptainer_without_nv(facts: Facts) -> Seen | None:
    """Apptainer was started without --nv, so NVIDIA's driver is missing inside.

    Apptainer (once Singularity) shows every device file of the machine to the container. The driver's library,
    libcuda, has to fit the driver outside, so no image holds it: the option --nv brings it in.
    """
    files = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia")]
    if facts.system.container != "apptainer" or not files or not facts.cuda.error:
        return None
    there = f"the card's files are here: {', '.join(files[:3])}"
    return Seen(
        ("this is a container of Apptainer", there, f"its library is not: {facts.cuda.error}"),
        ("Leave the container, and start it again:", *give(facts, "nvidia")),
    )


@rule("library", on="container")
def container_without_compute(facts: Facts) -> Seen | None:
    """The container was given nvidia-smi, but not CUDA.

    The variable NVIDIA_DRIVER_CAPABILITIES says which parts of the driver a container gets. The part "utility" is
    nvidia-smi and its library alone: it shows the card and a healthy driver. CUDA is the part "compute".
    """
    parts = facts.env.get("NVIDIA_DRIVER_CAPABILITIES")
    if not parts or facts.nvml.init != 0 or not facts.cuda.error:
        return None
    if {"compute", "all"} & {part.strip() for part in parts.split(",")}:
        return None
    start = "In its description, set the variable NVIDIA_DRIVER_CAPABILITIES to compute,utility"
    if facts.system.container == "docker":
        start = "$ docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility YOUR_IMAGE"
    missing = f"the library of nvidia-smi works in here, CUDA's is missing: {facts.cuda.error}"
    return Seen(
        (f"NVIDIA_DRIVER_CAPABILITIES={parts}", missing),
        (
            "Start the container again, with both parts of the driver:",
            start,
            "If you build the image yourself, a line of its Dockerfile does it for good:",
            "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
    )


@rule("nodes", on="linux")
def container_lost_gpu(facts: Facts) -> Seen | None:
    """The container had the GPU, and lost it while it ran.

    The machine around the container keeps a list of the devices that it may open. When systemd, which starts the
    services there, reads its settings anew, it can write that list without the GPU. The device files are still to be
    seen, but no longer open. Updates of packages do this, often at night.
    """
    line, inside = heard(facts, "Failed to initialize NVML: Unknown Error"), facts.system.container
    if not (inside and facts.nvml.init == 999) and not (line and facts.nvml.init in (0, None)):
        return None
    shut = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia") and not node.open]
    seen = [line or "NVML, the library of nvidia-smi, returned 999: unknown error"]
    seen += [f"this is a container ({inside})"] if inside else []
    seen += [f"these device files are here, but closed: {', '.join(shut)}"] if shut else []
    pod = inside == "kubernetes"
    return Seen(
        tuple(seen),
        (
            "On the machine around the container, start it again; it has the GPU until the next time:",
            "$ kubectl delete pod YOUR_POD" if pod else f"$ {inside or 'docker'} restart YOUR_CONTAINER",
            "So that there is no next time, its administrator makes the links that systemd looks for, at every boot:",
            "$ sudo nvidia-ctk system create-dev-char-symlinks --create-all",
        ),
        "likely",
    )


@rule("visible", on="linux")
def no_container_toolkit(facts: Facts) -> Seen | None:
    """Docker or Podman cannot hand out the GPU: NVIDIA's Container Toolkit is missing, or they do not know of it.

    The card works on the machine itself. To bring it into a container, with a library that fits the driver, takes a
    helper from NVIDIA, the Container Toolkit. Docker has to be told of it once; Podman reads a list of the cards that
    it writes.
    """
    docker = heard(facts, NO_RUNTIME)
    line, root = docker or heard(facts, NO_CDI), sudo(facts)
    if not line or maker(facts) != "nvidia":
        return None
    steps: tuple[str, ...] = (
        f"$ {root}{DESCRIBE}",
        f"$ podman run --rm {OPTIONS['podman', 'nvidia']} ubuntu nvidia-smi",
    )
    if docker:
        steps = (
            f"$ {root}nvidia-ctk runtime configure --runtime=docker",
            f"$ {root}systemctl restart docker",
            "$ docker run --rm --gpus all ubuntu nvidia-smi",
            "A Docker that was installed as a snap does not find it: install Docker's own package.",
        )
    package = (
        "On the machine itself, outside of any container, add NVIDIA's source of packages and install the package "
        f"nvidia-container-toolkit: {TOOLKIT}"
    )
    return Seen((line,), (package, "Then make it known, and try it:", *steps), "likely")
