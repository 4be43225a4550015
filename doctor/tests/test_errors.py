"""What a pasted error speaks for, in whatever form it is pasted, and what comes of one that is hostile or unknown."""

import io
import json
import re
from pathlib import Path

import pytest
import tomllib
from kept import like

from firstlight_doctor import errors, examine
from firstlight_doctor.cli import main
from firstlight_doctor.errors import TABLE, TAIL, causes_of, has, normalize
from firstlight_doctor.rules import RULES, ruled_out

KNOWN = tomllib.loads(Path(__file__).with_name("errors.toml").read_text("utf-8"))
TEXTS = [(code, text) for code, texts in KNOWN["error"].items() for text in texts]
PUBLIC = tomllib.loads(Path(__file__).with_name("public.toml").read_text("utf-8"))
PLACED = [  # what a text alone leaves open
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "wsl", "linux-driver-in-wsl"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "", "no-module-for-this-kernel"),
    ("zsh: command not found: nvidia-smi", "wsl", "wsl-without-driver"),
    ("zsh: command not found: nvidia-smi", "", "no-driver"),
    (
        "CudaSupportError: Error at driver init: CUDA driver library cannot be found",
        "windows",
        "windows-without-driver",
    ),
    ("CudaSupportError: Error at driver init: CUDA driver library cannot be found", "", "no-libcuda"),
    ("RuntimeError: No CUDA GPUs are available", "cluster", "cluster-node-without-gpu"),
    ("RuntimeError: No CUDA GPUs are available", "container", "container-without-gpu"),
    ("RuntimeError: No CUDA GPUs are available", "notebook", "notebook-without-gpu"),
    ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x44 and 30x64)", "container", "shapes-differ"),
    ("", "container", ""),
]
INSTALLS = re.compile(r"\b(install|uninstall|reinstall|upgrade)\b", re.IGNORECASE)
LOG = "step 1: NVIDIA-SMI 580.95.05 works, loss 0.3\n" * 10
HOSTILE = ["\x1b]0;owned\x07\x1b[2J\u202eevil $(reboot) `id` %n", "\x00\ud800\udfff", "(" * 10_000, "a " * 500_000]


@pytest.mark.parametrize(("code", "text"), TEXTS)
def test_a_message_speaks_for_its_cause_first(code, text):
    assert causes_of(text)[0].code == code
    assert causes_of(LOG + text.replace(" ", "\n│  ").replace("'", "\u2019"))[0].code == code


@pytest.mark.parametrize(("code", "text"), TEXTS[::40])
def test_at_the_end_of_a_log_of_a_million_letters_too(code, text):
    assert causes_of(2000 * LOG + text)[0].code == code


@pytest.mark.parametrize(("code", "text"), [(code, each) for code, near in KNOWN["near_miss"].items() for each in near])
def test_a_message_that_only_looks_like_a_cause_does_not_speak_for_it(code, text):
    assert code not in [found.code for found in causes_of(text)[:1]]


@pytest.mark.parametrize("thread", KNOWN["thread"], ids=lambda thread: thread["source"])
def test_what_people_asked_about_gets_the_answer_that_helped_them(thread):
    assert causes_of(thread["text"])[0].code == thread["first"]


def is_right(public, where=""):
    found = causes_of(public["text"], where)
    return (found[0].code if found else "") in (public["causes"] or [""])


@pytest.mark.parametrize("kind", ["your_code", "set_up"])
def test_public_errors_that_were_looked_at_stay_right(kind):
    # What a text leaves open, the place decides.
    wrong = [one["source"] for one in PUBLIC[kind] if one["seen"] and not is_right(one, one.get("where", ""))]
    assert len(wrong) <= {"your_code": 0, "set_up": 2}[kind], wrong


@pytest.mark.parametrize(("kind", "share"), [("your_code", 0.6), ("set_up", 0.7)])
def test_so_are_most_that_were_only_measured(kind, share):
    unseen = [one for one in PUBLIC[kind] if not one["seen"]]
    assert sum(map(is_right, unseen)) >= share * len(unseen)


def test_nobody_with_an_error_of_their_own_code_is_told_to_install_something():
    cure = examine(like("no-gpu")).cure
    told = {one["source"]: cure(found[0].code) for one in PUBLIC["your_code"] if (found := causes_of(one["text"]))}
    assert {source: fix for source, fix in told.items() if INSTALLS.search(" ".join(fix))} == {}
    own = {code: cure(code) for code, cause in TABLE.items() if cause.get("kind") == "your code"}
    assert {code: fix for code, fix in own.items() if INSTALLS.search(" ".join(fix))} == {}


@pytest.mark.parametrize(("text", "where", "code"), PLACED)
def test_where_a_program_runs_decides_among_causes(text, where, code):
    assert [found.code for found in causes_of(text, where)[:1]] == [code][: bool(code)]
    # A long log has its error at the end, where the place is read, too.
    assert not code or causes_of(LOG * 20 + text, where)[0].code == code


def test_what_no_cause_has_is_not_known():
    for text in (
        "",
        "NameError: name 'x' is not defined",
        "line 1455, in <module>",
        "push --force",
        "Error 8020",
        *HOSTILE,
    ):
        assert causes_of(text) == []


def test_a_phrase_is_found_as_whole_words_alone():
    text = "ModuleNotFoundError: No module named 'torchcodec'"
    assert "torch-missing" not in [each.code for each in causes_of(text)]


def test_an_unknown_text_gets_the_causes_that_share_its_rare_words_and_none_is_likely():
    report = examine(like("no-gpu"), "wheel sm_120 unsupported, kernels image missing for capability")
    assert "no-code-for-card" in [each.code for each in report.error_causes]
    assert len(report.error_causes) <= 3
    assert not any(each.likely for each in report.error_causes)
    assert report.text().startswith("This text is not known here.\nThese causes share")
    assert [each["code"] for each in report.content()["causes"]] == [each.code for each in report.error_causes]


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'loss'\n  File \"/home/u/train.py\", line 33, in main\n(most recent call first)",
        "File C:\\src\\x.ps1 cannot be loaded because scripts are switched off, see https://example.com",
        "Failed to fetch the page: none of the network operations worked. Please try again.",
    ],
)
def test_a_text_that_shares_only_a_part_of_its_words_with_a_cause_is_not_known(text):
    assert causes_of(text) == []


def test_a_part_of_a_message_leads_to_its_cause_and_is_no_proof():
    assert [(each.code, each.likely) for each in causes_of("no kernel image")][:1] == [("no-code-for-card", False)]


@pytest.mark.parametrize("number", [13, 31])
def test_a_process_of_the_number_of_another_fault_is_not_that_fault(number):
    text = f"NVRM: Xid (PCI:0000:3b:00): 48, pid={number}, name=python"
    assert causes_of(text)[0].code == "memory-broken"


def test_what_is_far_before_the_end_does_not_count():
    assert causes_of("device-side assert triggered" + "x" * TAIL) == []


def test_every_alternative_is_spelled_out():
    read = json.loads(Path(errors.__file__).with_name("causes.json").read_text("utf-8"))
    patterns = [
        each
        for cause in read["causes"].values()
        for kind in ("says", "hints", "unless")
        for each in cause.get(kind, ())
    ]
    patterns += [each for options in read["lists"].values() for each in options]
    names = {name for pattern in patterns for name in re.findall(r"\{([^{}|]*)\}", pattern)}
    assert names == read["lists"].keys()  # each list is used, and each name is that of a list
    assert not [phrase for phrase in errors.SHARED_BY if {"{", "}"} & {*phrase}]


def test_every_cause_has_words_and_one_rule_or_all_else_that_a_reader_needs():
    report = examine(like("no-gpu"))
    for code, cause in TABLE.items():
        assert cause["says"]
        assert report.cure(code)
        assert all(has(normalize(f"Error: {phrase.upper()}."), phrase) for phrase in cause["says"])
        assert all(code in [found.code for found in causes_of(f"Error: {phrase}")] for phrase in cause["says"][:5])
        assert {*cause.get("where", ())} <= {*errors.PLACES, "linux"}
        assert cause.get("kind", "your code") == "your code"
        assert ("title" in cause) != any(rule.code == code for rule in RULES)
        assert "title" not in cause or (cause["fix"] and cause["story"] and cause["links"])


@pytest.mark.parametrize("how", ["-", "@error.txt", "text"])
def test_an_error_comes_as_it_is_or_from_a_file(how, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    text = "CUDA error: device-side assert triggered"
    Path("error.txt").write_text(text)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    Path("facts.json").write_text(json.dumps(like("healthy-nvidia").content()))
    main(["--facts", "facts.json", "--error", text if how == "text" else how])
    out = capsys.readouterr().out
    assert out.startswith("1. The program reads or writes outside an array")
    assert "healthy" not in out


def test_facts_of_the_same_machine_strengthen_and_those_of_another_take_nothing_away():
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    alone = [each.code for each in examine(like("healthy-nvidia"), text).error_causes]
    assert alone == [each.code for each in causes_of(text)]
    assert alone == [each.code for each in examine(like("nouveau"), text).error_causes]
    together = examine(like("nouveau", {"said": text}), text)
    assert (alone[0], together.error_causes[0].code) == ("no-module-for-this-kernel", "nouveau")


def test_what_the_facts_of_the_same_machine_refute_comes_last_and_says_so():
    text = "Found no NVIDIA driver on your system"
    report = examine(like("healthy-nvidia", {"said": text}), text)
    order = [each.code for each in report.error_causes]
    assert order.index("container-without-gpu") < order.index("no-driver")  # it may have been another container
    assert not any(each.likely for each in report.error_causes if each.code in report.ruled_out)
    assert "speak against it. Is there a GPU in this machine? Yes: NVIDIA" in " ".join(report.text().split())
    assert "speak against" not in examine(like("healthy-nvidia"), text).text()


def test_no_facts_refute_what_one_program_may_ask_for():
    assert ruled_out(like("healthy-nvidia")).keys().isdisjoint({"own-memory", "cuda-visible-devices", "forked"})
    code = "no-code-for-card"
    assert [code in ruled_out(like(name)) for name in ("healthy-nvidia", code)] == [True, False]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_pasted_is_not_printed(text):
    said = examine(like("nouveau"), text).text()
    assert said.startswith("This text is not known here.")
    assert not {"\x1b", "\u202e", "evil"} & {*said, *said.split()}


def test_what_installs_a_driver_in_linux_warns_readers_in_wsl():
    cures = {code: " ".join(examine(like("no-gpu")).cure(code)) for code in TABLE}
    installs = {
        code for code, cure in cures.items() if re.search(r"ubuntu-drivers install|install nvidia-driver", cure)
    }
    assert "no-driver" in installs
    assert {code for code in installs if "WSL" not in cures[code]} == set()
