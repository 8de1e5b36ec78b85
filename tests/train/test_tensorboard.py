import sys

import numpy as np
import pytest

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput, StorageError
from nqf_registry.train.tensorboard import export


@pytest.fixture(scope="module")
def run():
    layer = nqf.default_registry().get("phase-retrieval", size=3, width=5)
    probes = ["modes", "order-parameters", "sample-loss"]
    return nqf.compare(layer, nqf.teacher(layer, n=70), steps=20, replicas=2, records=[0, 5, 20], probes=probes, verify=False)


def test_every_curve_is_there_with_its_steps_and_values(run, tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    export(run, tmp_path)
    [file] = (tmp_path / "nqf" / "replica-1").glob("events.*")
    found, content = {}, file.read_bytes()
    while content:  # length (8), its checksum (4), the event, its checksum (4)
        size = int.from_bytes(content[:8], "little")
        event = Event.FromString(content[12 : 12 + size])
        content = content[16 + size :]
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
    expected = run.data.sel(model="nqf").isel(replica=1)
    np.testing.assert_allclose(list(found["train_loss"].values()), expected["train_loss"], rtol=1e-6)
    assert list(found["train_loss"]) == [0, 5, 20]
    np.testing.assert_allclose(list(found["modes/2"].values()), expected["modes"][:, 2], rtol=1e-6)
    np.testing.assert_allclose(
        list(found["order-parameters/0-1-2"].values()), expected["order-parameters"][:, 0, 1, 2], rtol=1e-6
    )
    assert not [tag for tag in found if tag.startswith("sample-loss")]  # 70 curves are no picture


def test_without_the_package_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(InvalidInput, match=r"pip install 'nqf_registry\[tensorboard\]'"):
        export(run, tmp_path)


def test_a_folder_that_cannot_be_written_is_one_message(run, tmp_path):
    pytest.importorskip("tensorboardX")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        export(run, tmp_path / "file")
