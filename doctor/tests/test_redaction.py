"""What tells who and where this is goes; everything else stays."""

import re
from pathlib import Path

import pytest
import tomllib
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight_doctor.errors import TABLE, causes_of
from firstlight_doctor.redaction import redacted, secrets
from firstlight_doctor.schema import LONGEST

PUBLIC = tomllib.loads(Path(__file__).with_name("public.toml").read_text(encoding="utf-8"))
ANNA = {"HOME": "/home/anna.k", "USER": "anna.k", "HOSTNAME": "lucy07.cluster.uni.edu", "SUDO_USER": "boss"}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/anna.k/env/lib:/usr/lib", "~/env/lib:/usr/lib"),
        ("/home/anna.k", "~"),
        ("/home/anna.keller/x", "/home/USER/x"),
        ("/home/boris/shared/lib", "/home/USER/shared/lib"),
        ("/Users/boris/shared", "/Users/USER/shared"),
        (r"(env) C:\Users\boris>conda list", r"(env) C:\Users\USER>conda list"),
        (r"C:\Users\boris\lib", r"C:\Users\USER\lib"),
        (r"'C:\\Users\\boris\\lib'", r"'C:\\Users\\USER\\lib'"),
        ("/scratch/anna.k/env, /scratch/anna.k_old", "/scratch/USER/env, /scratch/USER_old"),
        ("Anna.K: permission denied", "USER: permission denied"),
        ("ssh://anna.k@lucy07.cluster.uni.edu", "ssh://USER@HOST"),
        ("lucy07 kernel: NVRM", "HOST kernel: NVRM"),
        ("Lucy07:8888", "HOST:8888"),
        ("/data/boss/x", "/data/USER/x"),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-…"),
        ("GPU-8932F937,GPU-0abcdef1", "GPU-…,GPU-…"),
        ("MIG-b4895dd2-9534-5bba-9a0e-0ea9ab0e5f5e", "MIG-…"),
        ("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0", "MIG-GPU-…/1/0"),
        ("GPU Board Serial Number: 1650522003820", "GPU Board Serial Number: …"),
        (r"C:\Users\Boris B. Old\lib and D:\x", r"C:\Users\USER\lib and D:\x"),
        ("mail to b.old+gpu@astro.uni.edu, or a@b", "mail to MAIL, or a@b"),
        ("https://boris:s3cret@repo.org/whl", "https://…@repo.org/whl"),
        ("annabel and lucyann stay, GPU-accelerated", "annabel and lucyann stay, GPU-accelerated"),
    ],
)
def test_what_tells_who_and_where_this_is(text, clean):
    assert redacted(text, secrets(ANNA)) == clean


KEY = "Aa0" * 12
HIDDEN = {
    f"HF_TOKEN=hf_{KEY}": "HF_TOKEN=KEY",
    f"remote: ghp_{KEY} is no longer valid": "remote: KEY is no longer valid",
    f"github_pat_11AB_{KEY}": "KEY",
    f"glpat-{KEY}, nvapi-{KEY}": "KEY, KEY",
    "AKIAIOSFODNN7EXAMPLE": "KEY",
    f"Incorrect API key provided: sk-proj-{KEY}.": "Incorrect API key provided: KEY.",
    f"Authorization: Bearer eyJ{KEY}.eyJ{KEY}.x-y": "Authorization: Bearer KEY",
    "curl -H 'authorization: token 0123456789abcdef'": "curl -H 'authorization: token KEY'",
    "https://repo.org/whl?token=s3cr3t&v=2": "https://repo.org/whl?token=KEY&v=2",
    "https://repo.org/whl?v=2&key=s3cr3t#a": "https://repo.org/whl?v=2&key=KEY#a",
    "password: hunter2": "password: KEY",
    "{'password': 'hunter2', 'n': 1}": "{'password': 'KEY', 'n': 1}",
    "pip --password=hunter2 install": "pip --password=KEY install",
    "mysql --password hunter2": "mysql --password KEY",
    "WANDB_API_KEY=0123abcd wandb": "WANDB_API_KEY=KEY wandb",
    "AWS_SECRET_ACCESS_KEY=a/b+c": "AWS_SECRET_ACCESS_KEY=KEY",
    "ssh boris@141.20.3.7": "ssh boris@IP",
    "MASTER_ADDR=131.152.1.9 MASTER_PORT=1": "MASTER_ADDR=IP MASTER_PORT=1",
    "NCCL INFO NET/Socket : Using [0]eth0:131.152.1.9<0>": "NCCL INFO NET/Socket : Using [0]eth0:IP<0>",
    "tcp://131.152.1.9:29500": "tcp://IP:29500",
    "route via 192.168.17.4, 172.20.0.3, 10.11.0.7": "route via IP, IP, IP",
    "inet6 fe80::42:acff:fe11:2 or 2001:db8:0:1:2:3:4:5": "inet6 IP or IP",
    "link/ether 02:42:ac:11:00:02 brd": "link/ether MAC brd",
    "no answer of astro-node18.uni-x.de": "no answer of HOST",
    "gpu7.hpc.example.edu: down": "HOST: down",
    "lucy12, Lucy07 and io1.cluster.uni.edu": "HOST, HOST and HOST",
    "/data/groups/schmidt-lab/a.py": "/data/groups/NAME/a.py",
    "file=%2Fhome%2Fjdoe%2Fa.py": "file=%2Fhome%2FUSER%2Fa.py",
    "file=%2Fhome%2Fanna.k%2Fa.py": "file=~%2Fa.py",
    r"open('\\nas3\lab\a.h5')": r"open('\\HOST\lab\a.h5')",
    "error: Invalid account for user jdoe": "error: Invalid account for user USER",
    "user jdoe is not in the sudoers file": "user USER is not in the sudoers file",
    "uid=1000(jdoe) gid=1000(jdoe)": "uid=1000(USER) gid=1000(USER)",
    "login failed, user='jdoe'": "login failed, user='USER'",
}


@pytest.mark.parametrize("text", HIDDEN)
def test_what_has_the_shape_of_a_key_an_address_or_a_name_is_hidden(text):
    assert redacted(text, secrets(ANNA)) == HIDDEN[text]


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-cublas-cu12==12.8.4.1, nvidia-curand-cu12 10.3.9.90, libcufft.so.11.3.3.83",
        "Updating from 12.8.3.14 to 12.8.4.1; driver 32.0.15.7688; 580.95.05",
        "0000:3b:00.0 and 00000000:3B:00.0: NVRM: Xid (PCI:0000:3b:00): 79",
        "c10::cuda::ExchangeDevice, at::native::fe80, a::b, std::bad_alloc, 12:30:45",
        "max_tokens=4096, tokenizer: fast, hf_hub_download, sk-learn, monkey=1",
        "CUDA_VISIBLE_DEVICES=0 user code, user mode is not root, uid=0(root)",
        "libcuda.so.1, torch.cuda.is_available, pypi.org, download.pytorch.org/whl/cu128",
        r"\\.\pipe\docker_engine, \\wsl.localhost\Ubuntu",
        "NVIDIA A100-SXM4-80GB, RTX4090, sm_120, gfx1100, cuda12, mlx5_0",
    ],
)
def test_what_only_looks_like_one_stays(text):
    assert redacted(text, secrets({**ANNA, "HOSTNAME": "gpu04"})) == text


def test_what_is_hidden_changes_no_answer():
    hidden = secrets(ANNA)
    phrases = [text.replace("…", " ") for cause in TABLE.values() for text in (*cause["says"], *cause.get("hints", ()))]
    assert [text for text in phrases if redacted(text, hidden) != text] == []
    for text in (each["text"] for kind in PUBLIC.values() for each in kind):
        clean = redacted(text, hidden)
        assert clean == text or first(clean) == first(text), clean


def first(text):
    return [found.code for found in causes_of(text)][:1]


def test_windows_homes():
    hidden = secrets({"USERPROFILE": r"C:\Users\Anna Keller", "USERNAME": "Anna Keller", "COMPUTERNAME": "DESKTOP-4XQ"})
    text = r"DLL C:\Users\Anna Keller\env\c10.dll, 'c:\\users\\anna keller\\x' on desktop-4xq"
    assert redacted(text, hidden) == r"DLL ~\env\c10.dll, '~\\x' on HOST"


@pytest.mark.parametrize("name", ["root", "ubuntu", "nvidia", "user", "torch"])
def test_a_name_that_tells_nobody_leaves_the_facts_alone(name):
    hidden = secrets({"USER": name, "HOSTNAME": name})
    for text in ("ubuntu", "/lib/modules/nvidia.ko", "No module named 'torch'", "nvidia", "root"):
        assert redacted(text, hidden) == text


def test_a_short_name_is_hidden_in_paths_only():
    hidden = secrets({"USER": "li", "HOME": "/nonexistent"})
    assert redacted("/scratch/li/env says li", hidden) == "/scratch/USER/env says li"


names = st.text(st.characters(categories=["Ll", "Nd"], include_characters="-._+$(["), min_size=3, max_size=20)


@settings(max_examples=30, deadline=None)
@given(
    name=names.filter(lambda name: re.search("[a-z]", name)),
    around=st.lists(st.sampled_from(" /\\:;,'\"\n-_@=()"), max_size=9),
)
def test_no_user_survives_whatever_stands_around(name, around):
    name = f"zq{name}"  # no word that anything else would be made of
    hidden = secrets({"USER": name, "HOME": f"/data/{name}"})
    text = "".join(f"{mark}{name}{mark}/data/{name}{mark}" for mark in around)
    assert name not in redacted({"a": [text]}, hidden)["a"][0]


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="/\\:GPUMIG-0af \n" + "home", max_size=2000))
def test_no_text_breaks_or_stops_the_redaction(text):
    assert isinstance(redacted(text, secrets(ANNA)), str)


def test_a_text_of_slashes_alone_ends():
    text = "/" * 2_000_000
    assert len(redacted(text, secrets(ANNA))) == LONGEST - 1
