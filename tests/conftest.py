"""Settings of every test: one thread, a cache of this run alone, hypothesis profiles, and plugins installed for one test."""

import os
import shutil
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nqf_registry.testing.fixtures import *  # noqa: F403

# Before torch is imported anywhere: it reads this once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("NQF_PLUGINS", None)

settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

_folders: list[str] = []


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # the workers of xdist share the folder of the process that started them
        _folders.append(tempfile.mkdtemp(prefix="nqf-tests-"))
        os.environ["NQF_CACHE_DIR"] = _folders[0]


def pytest_unconfigure(config):
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


LAYER = '''
from dataclasses import dataclass

import torch
import nqf_registry as nqf


@dataclass(frozen=True)
class Sample(nqf.Layer):
    """f(W) = sum_i (w_i . x)^2."""

    key = "{key}"
    title = "A sample layer"
    n_in: int = 3
    width: int = 2

    def blocks(self):
        return {{"w": (self.n_in,)}}

    def sample(self, n, generator):
        return {{"x": torch.randn(n, self.n_in, generator=generator)}}

    def unit(self, w, x):
        return (x["x"] @ w["w"])[:, None] ** 2


@nqf.hookimpl
def nqf_register(register):
    register(Sample)
'''


@pytest.fixture
def layer_source():
    """The text of a plugin that registers one layer, by its key."""
    return lambda key: LAYER.format(key=key)


@pytest.fixture
def install(install_distribution, tmp_path):
    """Installs a plugin of one module for one test: ``install(module, source)`` returns the module's path in ``site``."""
    (tmp_path / "site").mkdir()

    def _install(module, source, value=None, distribution=None, version="1.0", entry=None):
        name = distribution or module.replace("_", "-")
        points = {entry or module: value or module}
        return install_distribution(name, {module: source}, points, version=version) / f"{module}.py"

    return _install


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """An empty cache folder for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NQF_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def write(tmp_path):
    """Writes a plugin file: ``write(name, source)`` returns its path."""

    def _write(name, source):
        path = Path(tmp_path / name)
        path.write_text(textwrap.dedent(source))
        return path

    return _write
