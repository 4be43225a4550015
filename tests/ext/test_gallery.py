import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from _ext.gallery import forget_outdated
from firstlight.records import package_parts


@pytest.fixture
def project(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Two examples that were run, of which one stands on the kernels; and a copy of our package to change."""
    for name in ("", "kernels"):
        package = package_parts.PACKAGES[name]
        copy = shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setitem(package_parts.PACKAGES, name, copy)
    for name, code in {"01_plain": "import math\n", "02_kernel": "from firstlight_kernels import cuda\n"}.items():
        script = tmp_path / "examples/1_x" / f"{name}.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f'"""Title"""\n{code}')
    env = SimpleNamespace(srcdir=tmp_path / "docs", config=SimpleNamespace(project_root=".."))
    project = SimpleNamespace(srcdir=env.srcdir, env=env, root=tmp_path)
    forget_outdated(project)
    for name in ("01_plain", "02_kernel"):
        memory(project, name).write_text("what sphinx-gallery writes")
    return project


def memory(project, name: str):
    return project.srcdir / "tutorials/1_x" / f"{name}.py.md5"


def forgotten(project) -> list[str]:
    package_parts._digest.cache_clear()  # the next build is another process
    forget_outdated(project)
    return [name for name in ("01_plain", "02_kernel") if not memory(project, name).exists()]


def change(project, module: str, old: str, new: str) -> None:
    file = project.root / module
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_nothing_changed_nothing_is_run(project) -> None:
    assert forgotten(project) == []


def test_a_module_that_is_used_runs_its_example_and_no_other(project) -> None:
    change(project, "firstlight_kernels/grids.py", "MAX_THREADS = 1024", "MAX_THREADS = 1023")
    assert forgotten(project) == ["02_kernel"]


@pytest.mark.parametrize("module", ["firstlight/timing/measurement.py", "firstlight/devices.py"])
def test_a_module_that_is_not_used_runs_nothing(project, module: str) -> None:
    change(project, module, "return", "return  ")
    assert forgotten(project) == []


def test_a_module_that_goes_runs_what_used_it(project) -> None:
    assert forgotten(project) == []
    (project.root / "firstlight_kernels/driver.py").unlink()
    assert forgotten(project) == ["02_kernel"]


def test_another_import_runs_the_example(project) -> None:
    assert forgotten(project) == []
    script = project.root / "examples/1_x/01_plain.py"
    script.write_text(script.read_text() + "from firstlight_kernels import cuda\n")
    assert forgotten(project) == ["01_plain"]


HOLD = """
import sys, time
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_two_builds_do_not_write_into_one_clone(make_site) -> None:
    site = make_site({"a.rst": ":orphan:\n\nA\n=\n"})
    site.rebuild()
    command = [sys.executable, "-c", HOLD, str(site.folder / "tutorials/.building")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        with pytest.raises(SystemExit, match="another build is at work"):
            site.build("html")
        other.kill()
    site.rebuild()
