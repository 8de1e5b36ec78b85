"""Running ``nqf`` inside the test process."""

from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from nqf_registry.cli.main import main
from nqf_registry.verbs import VERBS


@dataclass
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def nqf(capsys):
    """``nqf(*arguments)`` runs the command and returns its exit code and what it printed."""

    def run(*arguments):
        for argument in arguments:
            if argument in VERBS and find_spec(f"nqf_registry.cli.{argument}") is None:
                pytest.skip(f"the verb {argument} is not there")
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run
