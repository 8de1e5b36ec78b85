"""A plugin file written of a module passes verification, with the closed form in it where one is recognised."""

import pytest
from click.testing import CliRunner

import nqf_registry as nqf
from nqf_registry.cli.new import command
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import declares
from nqf_registry.registry import Registry

ATTENTION = ["torch.nn:MultiheadAttention", "--args", "4", "--args", "2", "--args", "batch_first=True", "--input", "3,3,4"]
CASES = {
    "multihead-attention": ([*ATTENTION, "--input", "=0", "--input", "=0"], "nqf", True),
    "encoder": (["torch.nn:TransformerEncoderLayer", "--args", "4", "--args", "2", "--args", "3", "--args", "batch_first=True",
                 "--args", "activation=gelu", "--args", "norm_first=True",
                 "--input", "3,2,4", "--key", "encoder"], "nqf", None),
    "embedding-pair": ([f"{__name__}:Pair", "--input", "9<3", "--input", "9<4", "--key", "embedding-pair"], "exact-nqf", True),
}  # fmt: skip


def run(*words):
    return CliRunner().invoke(command, ["--from-module", *map(str, words)])


@pytest.mark.parametrize("key", CASES)
def test_the_file_that_is_written_passes(key, tmp_path, monkeypatch):
    (tmp_path / "pairs.py").write_text(
        "import torch\n\n\nclass Pair(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.word, self.context = torch.nn.Embedding(3, 4), torch.nn.Embedding(4, 4)\n\n"
        "    def forward(self, i, j):\n        return (self.word(i) * self.context(j)).sum(-1, keepdim=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words, expected, closed = CASES[key]
    words = [word.replace(f"{__name__}:", "pairs:") for word in words]
    shown = run(*words, "--out", tmp_path / "made.py")
    assert shown.exit_code == 0, shown.output + repr(shown.exception)
    layer = Registry.discover([str(tmp_path / "made.py")], entry_points=False).get(key)
    report = nqf.verify(layer)
    assert report.passed and report.classification == expected, str(report)
    if closed is not None:
        assert declares(layer, "structure") == closed


def test_what_cannot_be_written_says_what_to_do(tmp_path):
    there = tmp_path / "there.py"
    there.write_text("")
    linear = ["torch.nn:Linear", "--args", "3", "--args", "4", "--input", "5,3"]
    for words, said in (
        ([*linear, "--out", there], "is there already"),
        ([*linear, "--out", tmp_path / "a.txt"], "ends in .py"),
        ([*linear, "--out", tmp_path / "a.py"], "has 0 groups of neurons"),
    ):
        shown = run(*words)
        assert isinstance(shown.exception, InvalidInput) and said in str(shown.exception)
    assert there.read_text() == "" and list(tmp_path.iterdir()) == [there]
