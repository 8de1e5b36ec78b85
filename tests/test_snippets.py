"""Every snippet of the README and of docs/ runs, and shows what it says it shows.

``console`` blocks hold commands after ``$`` and, where shown, their output (``...`` stands for anything). ``python`` blocks
run one after another in one namespace; one that begins with ``# name.py`` is a file, written where the commands run.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if FENCE.search(page.read_text())]
COMPARE = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def commands(block):
    """Pairs of a command and the output shown for it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = command[:-1] + more
        yield command, shown


def run(command, shown, folder):
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    if shown.strip():
        got = done.stdout
        assert COMPARE.check_output(shown, got, FLAGS), f"$ {command}\nshown:\n{shown}\ngot:\n{got}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets(page, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names, ran = {"__name__": "snippet"}, 0
    for language, block in FENCE.findall(page.read_text()):
        if language == "console":
            for command, shown in commands(block):
                if not command.startswith(("make ", "git ")):  # these do the set-up of the checkout that this test runs in
                    run(command, shown, tmp_path)
                    ran += 1
        elif language == "python":
            file = re.match(r"# (\w+\.py)\n", block)
            if file:
                (tmp_path / file[1]).write_text(block.partition("\n")[2].lstrip("\n"))
            else:
                exec(compile(block, f"{page.name} snippet", "exec"), names)
            ran += 1
    assert ran, f"{page.name} shows snippets, but none ran"


def test_readme_shows_the_example_layer():
    block = next(block for _, block in FENCE.findall((ROOT / "README.md").read_text()) if block.startswith("# gated_unit.py"))
    shown = block.partition("\n")[2].strip()
    example = (ROOT / "examples" / "gated_unit.py").read_text()
    assert shown == example[example.index("from dataclasses") :].strip()
