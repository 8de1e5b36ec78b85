"""What a user gets: the wheel, installed into a new environment."""

import json
import os
import zipfile

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]  # one worker builds the wheel, once


def test_the_wheel_holds_two_packages_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"nqf_registry", "nqf_models", "nqf_registry-0.1.0.dist-info"}


def test_every_file_of_the_library_is_in_the_wheel(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    for package, folder in (("nqf_registry", root / "nqf_registry"), ("nqf_models", root / "plugins" / "nqf_models")):
        files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {f"{package}/{path.relative_to(folder)}" for path in files} <= held


def test_the_new_environment_lists_seventeen_layers(nqf_outside):
    assert len(json.loads(nqf_outside("list", "--json"))) == 17


def test_the_installation_leaves_no_stray_package(environment):
    assert not {"plugins", "tests", "catalogue", "examples"} & set(os.listdir(environment.site))
