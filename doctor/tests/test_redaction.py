"""What tells who and where this is goes; everything else stays."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight_doctor.redaction import redacted, secrets
from firstlight_doctor.schema import LONGEST

ANNA = {"HOME": "/home/anna.k", "USER": "anna.k", "HOSTNAME": "lucy07.cluster.uni.edu", "SUDO_USER": "boss"}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/anna.k/env/lib:/usr/lib", "~/env/lib:/usr/lib"),
        ("/home/anna.k", "~"),
        ("/home/anna.keller/x", "/home/USER/x"),
        ("/home/boris/shared/lib", "/home/USER/shared/lib"),
        ("/Users/boris/shared", "/Users/USER/shared"),
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
        ("annabel and lucy071 stay, GPU-accelerated", "annabel and lucy071 stay, GPU-accelerated"),
    ],
)
def test_what_tells_who_and_where_this_is(text, clean):
    assert redacted(text, secrets(ANNA)) == clean


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
