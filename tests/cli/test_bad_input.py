"""Wrong use gives one clear message on stderr, exit code 2, and no traceback."""

import pytest

# name: (arguments, a word of the message); FOLDER is a folder that holds the files of `folder` below.
BAD = {
    "unknown-verb": (["lits"], "Did you mean 'list'"),
    "unknown-option": (["list", "--frobnicate"], "--frobnicate"),
    "extra-argument": (["list", "everything"], "everything"),
    "plugin-without-a-file": (["list", "--plugin"], "--plugin"),
    "plugin-missing": (["--plugin", "FOLDER/missing.py", "list"], "expected a Python file"),
    "plugin-is-a-folder": (["list", "--plugin", "FOLDER"], "a directory"),
    "plugin-of-another-kind": (["list", "--plugin", "FOLDER/notes.txt"], "ends in .py"),
    "plugin-with-a-syntax-error": (["list", "--plugin", "FOLDER/syntax.py"], "SyntaxError"),
    "plugin-that-exits": (["list", "--plugin=FOLDER/exits.py"], "SystemExit"),
    "plugin-without-a-hook": (["plugins", "--plugin", "FOLDER/empty.py"], "@nqf.hookimpl"),
    "unknown-key-to-show": (["show", "sampel", "--plugin", "FOLDER/sample.py"], "Did you mean 'sample'"),
    "unknown-key-to-verify": (["verify", "no-such-layer"], "no layer 'no-such-layer' is registered"),
    "unknown-key-to-train": (["train", "no-such-layer"], "no-such-layer"),
    "contested-key": (["show", "sample", "--plugin", "FOLDER/sample.py", "--plugin", "FOLDER/again.py"], "contested"),
    "file-to-verify-missing": (["verify", "FOLDER/missing.py"], "missing.py"),
    "size-of-the-wrong-type": (["show", "sample", "--plugin", "FOLDER/sample.py", "--set", "width=abc"], "expects an integer"),
    "size-unknown": (["show", "sample", "--plugin", "FOLDER/sample.py", "--set", "widht=3"], "Did you mean 'width'"),
    "size-without-a-value": (["show", "sample", "--plugin", "FOLDER/sample.py", "--set", "width"], "NAME=VALUE"),
    "size-impossible": (["show", "sample", "--plugin", "FOLDER/sample.py", "--set", "width=0"], "positive integer"),
}


@pytest.fixture
def folder(tmp_path, layer_source):
    files = {
        "notes.txt": "not Python",
        "syntax.py": "def (:\n",
        "exits.py": "import sys\nsys.exit('over')\n",
        "empty.py": "",
        "sample.py": layer_source("sample"),
        "again.py": layer_source("sample"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_wrong_use(name, nqf, folder):
    arguments, word = BAD[name]
    done = nqf(*(argument.replace("FOLDER", str(folder)) for argument in arguments))
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    [message] = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    assert word in message


def test_debug_shows_the_traceback(nqf, folder):
    for arguments in (["--debug", "list"], ["list", "--debug"]):
        done = nqf(*arguments, "--plugin", folder / "exits.py")
        assert done.code == 2
        assert "Traceback" in done.err
        assert "exits.py" in done.err
