"""Cards of machines that have no /proc: those with macOS, and with Windows, whose registry is a dictionary here."""

import platform
import sys
import types

import pytest

from firstlight_doctor import collect, facts


@pytest.mark.parametrize(
    ("version", "processor", "apple", "rosetta"),
    [
        ("Darwin Kernel Version 24.1.0: root:xnu-11215/RELEASE_ARM64_T6030", "arm64", True, False),
        ("Darwin Kernel Version 24.1.0: root:xnu-11215/RELEASE_ARM64_T6030", "x86_64", True, True),
        ("Darwin Kernel Version 21.6.0: root:xnu-8020/RELEASE_X86_64", "x86_64", False, False),
    ],
)
def test_macs(monkeypatch, machine, version, processor, apple, rosetta):
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: processor)
    monkeypatch.setattr(platform, "version", lambda: version)
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), processor))
    found = collect(machine.root, {}, lambda *_: {})
    assert (found.system.os, found.system.macos, found.system.kernel) == ("darwin", "15.1", None)
    assert found.system.rosetta is rosetta
    assert [gpu.vendor for gpu in found.gpus] == ["apple"] * apple


class Key:
    """A key of a registry that holds dictionaries."""

    def __init__(self, content):
        self.content = content

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def registry(content) -> types.SimpleNamespace:
    def inner(key, name):
        for part in name.split("\\"):
            key = key.content if isinstance(key, Key) else key
            if part not in key:
                raise FileNotFoundError(part)
            key = key[part]
        return Key(key)

    def enum(key, number):
        try:
            return list(key.content)[number]
        except IndexError:
            raise OSError(259, "no more data") from None

    def value(key, name):
        if name not in key.content:
            raise FileNotFoundError(name)
        return key.content[name], 1

    return types.SimpleNamespace(
        HKEY_LOCAL_MACHINE=content,
        OpenKey=inner,
        EnumKey=enum,
        QueryInfoKey=lambda key: (len(key.content), 0, 0),
        QueryValueEx=value,
    )


def test_windows(monkeypatch):
    display, sound = "{4d36e968-e325-11ce-bfc1-08002be10318}", "{4d36e96c-e325-11ce-bfc1-08002be10318}"
    cards = {
        "VEN_10DE&DEV_228B&SUBSYS_1": {"4&1": {"ClassGUID": sound}},
        "VEN_1414&DEV_008E&SUBSYS_0": {"5&2": {"ClassGUID": display}},  # Microsoft's, in a virtual machine
        "VEN_15AD&DEV_0405&SUBSYS_0": {"3&2": {"ClassGUID": display}},
        "VEN_8086&DEV_1237": {},
        "VEN_10DE&DEV_1234": {"4&1": {}},
        "VEN_10DE&DEV_2684&SUBSYS_2": {"4&3": {"ClassGUID": display.upper()}},
        "VEN_8086&DEV_A780&SUBSYS_3": {"3&1": {"ClassGUID": display}},
    }
    monkeypatch.setitem(sys.modules, "winreg", registry({"SYSTEM": {"CurrentControlSet": {"Enum": {"PCI": cards}}}}))
    assert list(facts.windows_gpus()) == [
        {"vendor": "nvidia", "device": "0x2684"},
        {"vendor": "intel", "device": "0xa780"},
    ]
    monkeypatch.setitem(sys.modules, "winreg", registry({}))
    assert list(facts.windows_gpus()) == []
