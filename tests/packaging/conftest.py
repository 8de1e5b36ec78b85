"""A wheel of this project, and a new environment that holds it and nothing else of it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_wheel(source, folder):
    """The wheel of a source tree, built with what this environment holds: nothing is downloaded."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", folder, source)
    [wheel] = folder.glob("*.whl")
    return wheel


@dataclass
class Environment:
    """A virtual environment that sees the dependencies of the running one."""

    folder: Path

    @property
    def python(self):
        return self.folder / "bin" / "python"

    @property
    def nqf(self):
        return self.folder / "bin" / "nqf"

    @property
    def site(self):
        [site] = self.folder.glob("lib/python*/site-packages")
        return site

    def install(self, wheel):
        run(sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--no-deps", "--no-index", wheel)

    def uninstall(self, name):
        run(sys.executable, "-m", "pip", "--python", self.python, "uninstall", "-q", "-y", name)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("nqf_registry", "plugins", "tests", "examples", "catalogue"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return build_wheel(source, folder)


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    environment = Environment(folder)
    environment.install(wheel)
    # The dependencies come from the running environment; path files in that folder (an editable install) are not followed.
    (environment.site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment


@pytest.fixture(scope="session")
def example_plugin():
    return Path(__file__).parent / "example_plugin"


@pytest.fixture(scope="session")
def example_wheel(example_plugin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    source = shutil.copytree(example_plugin, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    return build_wheel(source, folder)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture
def nqf_outside(environment, tmp_path):
    """Runs the installed ``nqf`` in an empty folder, so that nothing of the source tree can be imported by chance."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NQF_PLUGINS")}
    variables["NQF_CACHE_DIR"] = str(tmp_path / "cache")
    return lambda *arguments: run(environment.nqf, *arguments, cwd=tmp_path, env=variables)


@pytest.fixture
def python_outside(environment, tmp_path):
    """Runs the Python of the new environment in an empty folder."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NQF_PLUGINS")}
    variables["NQF_CACHE_DIR"] = str(tmp_path / "cache")
    return lambda *arguments: run(environment.python, *arguments, cwd=tmp_path, env=variables)
