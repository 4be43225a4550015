"""Causes in a container: it sees only the cards, and only the part of the driver, that it was started with."""

from __future__ import annotations

import re

from firstlight_doctor.rules.machine import driver_version, find_message, vendor_of
from firstlight_doctor.rules.rule import Signs, rule, signs
from firstlight_doctor.rules.steps import Words, command
from firstlight_doctor.schema import Facts

FILES = {"nvidia": r"/dev/(nvidia\d|dxg)", "amd": "/dev/kfd", "intel": "/dev/dri/renderD"}  # of a card
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


@command
def start_with_gpu(facts: Facts) -> Words:
    """Start a container of this kind so that it has the card.

    To do (kubernetes):
    A pod gets a GPU if its description asks for one: resources: {limits}
    Whether the cluster has any to give, this tells:
    $ kubectl describe nodes | grep {limit}

    To do (apptainer):
    $ apptainer exec {option} YOUR_IMAGE.sif python your_script.py

    To do:
    $ {engine} run {option} YOUR_IMAGE
    [docker nvidia] If Docker answers "could not select device driver", install the NVIDIA Container Toolkit there:
      https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html
    [podman nvidia] If Podman answers "unresolvable CDI devices", describe the cards to it once:
    [podman nvidia] $ sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
    """
    engine, vendor = facts.system.container or "", vendor_of(facts) or "nvidia"
    limit, option = LIMITS[vendor], OPTIONS.get((engine, vendor)) or DEVICES.get(vendor)
    limits = f"{{limits: {{{limit}: 1}}}}"
    return {"nvidia": vendor == "nvidia", "engine": engine, "option": option, "limit": limit, "limits": limits}


@rule("nodes", on="container")
def container_without_gpu(facts: Facts) -> Signs | None:
    """The container was started without the GPU.

    A container shares the Linux kernel of the machine around it, so the card shows on the bus. But the device files
    through which programs reach it, and the driver's libraries, come in only if the container is started with them.
    So install no driver in your Docker image, nor in the container: it is the host's driver that comes in, and a second
    one only gets in its way. The image needs no more than PyTorch for CUDA. NVIDIA_VISIBLE_DEVICES=none (or void) has
    the same effect: an image or a description can set it, and then no card comes in although you ask for it.

    To do:
    Leave the container, and start it again on the machine around it:
    {start_with_gpu}
    If Nextflow starts it for you, write docker.runOptions = '--gpus all' in nextflow.config.
    [refused] NVIDIA_VISIBLE_DEVICES={asked} keeps every card out. Look where the image or its description sets it, and
      set it to all.
    """
    vendor = vendor_of(facts)
    if vendor not in FILES or facts.cuda.devices or facts.torch.kind:
        return None
    if any(re.match(FILES[vendor], node.path) for node in facts.nodes):
        return None
    shared = ", ".join(node.path for node in facts.nodes if node.path.startswith("/dev/nvidia"))
    first = {"nvidia": "/dev/nvidia", "amd": "/dev/kfd", "intel": "/dev/dri/renderD"}[vendor]
    version, asked = driver_version(facts), facts.env.get("NVIDIA_VISIBLE_DEVICES")
    return signs(
        f"this is a container ({facts.system.container})",
        f"the kernel outside runs NVIDIA's driver {version}" if version else "the card is on the bus",
        f"of NVIDIA's files there are {shared} in here, and none of a card"
        if shared
        else f"there is no {first}… in here",
        f"NVIDIA_VISIBLE_DEVICES={asked}" if vendor == "nvidia" and asked else None,
        asked=asked,
        refused=asked in ("", "none", "void"),
    )


@rule("library", on="container")
def apptainer_without_nv(facts: Facts) -> Signs | None:
    """Apptainer was started without --nv, so NVIDIA's driver is missing inside.

    Apptainer (once Singularity) shows every device file of the machine to the container. The driver's library,
    libcuda, has to fit the driver outside, so no image holds it: the option --nv brings it in.

    To do:
    Leave the container, and start it again:
    {start_with_gpu}
    Had you given --nv? It stands before the image; behind it, it's an option of your program. Leave out --writable:
      with it, Apptainer skips what has no place in the image, such as nvidia-smi (apptainer -d tells what). And does
      nvidia-smi work on this node outside the container?
    If another program starts it for you, hand --nv to that one. In nextflow.config, write
      singularity.runOptions = '--nv' (or apptainer.runOptions), and give Snakemake --apptainer-args '--nv'.
      For most others a variable will do:
    $ export APPTAINER_NV=1
    An older Singularity calls it SINGULARITY_NV. Nextflow doesn't pass it on. Under Slurm, the job must have asked for
      a GPU as well; in nextflow.config that is process.clusterOptions = '--gres=gpu:1'.
    """
    files = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia")]
    if facts.system.container != "apptainer" or not files or not facts.cuda.error:
        return None
    return signs(
        "this is a container of Apptainer",
        f"the card's files are here: {', '.join(files[:3])}",
        f"its library is not: {facts.cuda.error}",
    )


@rule("library", on="container")
def container_without_compute(facts: Facts) -> Signs | None:
    """The container was given nvidia-smi, but not CUDA.

    The variable NVIDIA_DRIVER_CAPABILITIES says which parts of the driver a container gets. The part "utility" is
    nvidia-smi and its library alone: it shows the card and a healthy driver. CUDA is the part "compute".

    To do:
    Start the container again, with both parts of the driver:
    [docker] $ docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility YOUR_IMAGE
    [not docker] In its description, set the variable NVIDIA_DRIVER_CAPABILITIES to compute,utility
    If you build the image yourself, a line of its Dockerfile does it for good:
    ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
    """
    parts = facts.env.get("NVIDIA_DRIVER_CAPABILITIES")
    if not parts or facts.nvml.init != 0 or not facts.cuda.error:
        return None
    if {"compute", "all"} & {part.strip() for part in parts.split(",")}:
        return None
    missing = f"the library of nvidia-smi works in here, CUDA's is missing: {facts.cuda.error}"
    return signs(f"NVIDIA_DRIVER_CAPABILITIES={parts}", missing)


@rule("nodes", on="linux")
def container_lost_gpu(facts: Facts) -> Signs | None:
    """The container had the GPU, and lost it while it ran.

    The machine around the container keeps a list of the devices that it may open. When systemd, which starts the
    services there, reads its settings anew, it can write that list without the GPU. The device files are still to be
    seen, but no longer open. Updates of packages do this, often at night.

    To do:
    On the machine around the container, start it again; it has the GPU until the next time:
    [kubernetes] $ kubectl delete pod YOUR_POD
    [not kubernetes] $ {engine} restart YOUR_CONTAINER
    So that there is no next time, its administrator makes the links that systemd looks for, at every boot:
    $ sudo nvidia-ctk system create-dev-char-symlinks --create-all
    """
    line, inside = find_message(facts, "Failed to initialize NVML: Unknown Error"), facts.system.container
    if not (inside and facts.nvml.init == 999) and not (line and facts.nvml.init in (0, None)):
        return None
    shut = [node.path for node in facts.nodes if node.path.startswith("/dev/nvidia") and not node.open]
    return signs(
        line or "NVML, the library of nvidia-smi, returned 999: unknown error",
        f"this is a container ({inside})" if inside else None,
        f"these device files are here, but closed: {', '.join(shut)}" if shut else None,
        certainty="likely",
        engine=inside or "docker",
    )


@rule("visible", on="linux")
def no_container_toolkit(facts: Facts) -> Signs | None:
    """Docker or Podman cannot hand out the GPU: NVIDIA's Container Toolkit is missing, or they do not know of it.

    The card works on the machine itself, and its driver stays there: you install none in the image. To bring the card
    and the driver's library into a container takes a helper from NVIDIA, the Container Toolkit. Docker has to be told
    of it once; Podman reads a list of the cards that it writes.

    To do:
    On the machine itself, outside of any container, add NVIDIA's source of packages and install the package
      nvidia-container-toolkit:
      https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html
    Then make it known, and try it:
    [docker] $ {sudo}nvidia-ctk runtime configure --runtime=docker
    [docker] $ {sudo}systemctl restart docker
    [docker] $ docker run --rm --gpus all ubuntu nvidia-smi
    [docker] A Docker that was installed as a snap does not find it: install Docker's own package.
    [docker] Docker Desktop for Linux has a Docker of its own, which doesn't either: docker context use default
    [not docker] $ {sudo}nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
    [not docker] $ podman run --rm --device nvidia.com/gpu=all ubuntu nvidia-smi
    """
    docker = find_message(facts, NO_RUNTIME)
    line = docker or find_message(facts, NO_CDI)
    return signs(line, certainty="likely", docker=docker) if line and vendor_of(facts) == "nvidia" else None
