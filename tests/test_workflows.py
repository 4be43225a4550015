"""The workflows test and publish every project on the list."""

import yaml

from projects import FOLDERS, ROOT


def projects_of(workflow, job):
    jobs = yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text(encoding="utf-8"))["jobs"]
    return {*jobs[job]["strategy"]["matrix"]["project"]}


def test_no_project_is_forgotten():
    assert projects_of("wheels", "suite") == {folder.name for folder in FOLDERS.values() if folder != ROOT}
    assert projects_of("release", "publish") == {name.replace("_", "-") for name in FOLDERS}
