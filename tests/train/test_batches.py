import torch

from nqf_registry.train.batches import Batches

CPU = torch.device("cpu")


def test_a_pass_sees_every_sample_at_most_once_and_all_where_they_fit():
    batches = Batches(12, 4, seed=0, device=CPU)
    seen = torch.cat([batches.at(step) for step in range(3)])
    assert sorted(seen.tolist()) == list(range(12))
    ragged = Batches(10, 4, seed=0, device=CPU)
    seen = torch.cat([ragged.at(step) for step in range(2)]).tolist()
    assert len(set(seen)) == 8


def test_passes_differ_and_the_rest_is_not_always_the_same():
    batches = Batches(10, 4, seed=0, device=CPU)
    rests = {frozenset(range(10)) - frozenset(torch.cat([batches.at(2 * t), batches.at(2 * t + 1)]).tolist()) for t in range(8)}
    assert len(rests) > 1


def test_a_step_is_the_same_wherever_one_starts():
    whole = [Batches(20, 3, seed=5, device=CPU).at(step).tolist() for step in range(15)]
    batches = Batches(20, 3, seed=5, device=CPU)
    assert [batches.at(step).tolist() for step in reversed(range(15))] == whole[::-1]
    assert whole[0] != Batches(20, 3, seed=6, device=CPU).at(0).tolist()
