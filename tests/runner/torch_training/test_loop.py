"""The order in which the loop updates, checks, reports, saves and pauses, and what its clock counts."""

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.torch_training import loop, training_state  # noqa: E402
from hpobench_nmt.runner.torch_training.loop import Course, learn  # noqa: E402
from hpobench_nmt.runner.torch_training.training_state import Checkpoints, StateFile  # noqa: E402


class Training:
    """Adds 1 to a weight in each update, is checked after every second, is best at update 4, notes all."""

    def __init__(self, times_checks, converges=math.inf, last=math.inf, diverges=math.inf):
        self.model = torch.nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            self.model.weight.zero_()
        self.parameters = list(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.course, self.times_checks = Course(), times_checks
        self.converges, self.last, self.diverges = converges, last, diverges
        self.events, self.own = [], 0

    def update(self):
        assert torch.tensor([1e-30]) * 1e-10 == 0  # it makes numbers that are not normal 0
        self.course.update += 1
        self.own += 1
        with torch.no_grad():
            self.model.weight.add_(1)
        self.events.append(f"update {self.course.update}")
        return torch.tensor(math.nan if self.course.update >= self.diverges else 1.0)

    def check_is_due(self):
        return self.course.update % 2 == 0 or self.is_last()

    def is_last(self):
        return self.course.update == self.last

    def check(self):
        assert self.model.training
        self.events.append("check")
        if self.course.update <= 4:
            self.course.keep_best(self.parameters)
        self.course.converged = self.course.update >= self.converges
        return {"update": self.course.update, "dev_ppl": 9.0}

    def log_line(self):
        self.events.append(f"report {self.course.curve[-1]['seconds']:g}")
        return str(self.course.update)

    def state(self):
        self.events.append(f"save {self.course.spent:g}")
        return {"own": self.own}

    def load_state(self, state):
        self.events.append("resume")
        self.own = state["own"]


@pytest.fixture
def clock(monkeypatch):
    """A clock by which an update takes 10 seconds, a check 100, a report 1000, and saving 10,000."""
    cost = {"update": 10, "check": 100, "report": 1000, "save": 10_000}

    def of(training):
        passed = lambda: sum(cost.get(event.split()[0], 0) for event in training.events)  # noqa: E731
        monkeypatch.setattr(loop, "seconds", lambda device: float(passed()))
        return training

    return of


@pytest.mark.parametrize(
    ("times_checks", "first", "second"), [(False, 20, 40), (True, 120, 240)], ids=["untimed", "timed"]
)
def test_the_order_of_a_training_and_what_counts_as_its_time(times_checks, first, second, clock, tmp_path):
    training = clock(Training(times_checks, converges=4))
    summary = learn(training, Checkpoints(tmp_path, {}, seconds=3600.0))
    check = [f"report {first}"], [f"report {second}", f"save {second}"]
    assert training.events == [
        "update 1", "update 2", "check", *check[0], "update 3", "update 4", "check", *check[1]
    ]  # fmt: skip
    assert summary.curve == tuple(
        {"update": update, "dev_ppl": 9.0, "seconds": spent} for update, spent in ((2, first), (4, second))
    )
    assert (summary.seconds, summary.converged, summary.paused) == (second, True, False)


def test_a_state_is_saved_after_the_check_and_before_the_next_update(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(training_state, "_MOST_TIME", 0)  # save after every update
    training = clock(Training(False, last=3))
    learn(training, Checkpoints(tmp_path, {}, seconds=0.0))
    assert training.events == [
        "update 1", "save 10", "update 2", "check", "report 20", "save 20",
        "update 3", "check", "report 30", "save 30",
    ]  # fmt: skip


def test_it_pauses_after_a_check_resumes_there_and_ends_with_the_best_values(tmp_path, capsys):
    first = Training(False, last=7)
    paused = learn(first, Checkpoints(tmp_path, {}, until=3))
    assert paused.paused and paused.updates == 4 and not paused.converged
    assert first.model.weight.item() == 4
    second = Training(False, last=7)
    ended = learn(second, Checkpoints(tmp_path, {}))
    assert second.events[:2] == ["resume", "update 5"]
    assert second.own == ended.updates == 7
    assert (ended.best_update, second.model.weight.item()) == (4, 4.0)
    assert not ended.converged and not ended.paused
    assert [point["update"] for point in ended.curve] == [2, 4, 6, 7]
    assert capsys.readouterr().out == "2\n4\n6\n7\n"
    third = Training(False, last=7)  # it has ended: nothing is done again
    assert learn(third, Checkpoints(tmp_path, {})) == ended
    assert third.events == ["resume"] and third.model.weight.item() == 4


def test_other_processes_of_a_training_resume_and_pause_but_write_nothing(tmp_path):
    whole = Checkpoints(tmp_path / "state", {}, until=3)
    learn(Training(True, last=9), whole)
    before = {path: path.read_bytes() for path in whole.folder.iterdir()}
    other = Training(True, last=9, diverges=1)
    summary = learn(other, Checkpoints(whole.folder, {}, until=6, seconds=0.0), leads=False)
    assert summary.paused and summary.updates == 6
    assert before == {path: path.read_bytes() for path in whole.folder.iterdir()}


def test_numbers_that_are_not_normal_are_left_alone_outside_of_updates():
    learn(Training(True, last=1), Checkpoints())
    with pytest.raises(TrainingFailed):
        learn(Training(False, diverges=1), Checkpoints())
    assert torch.tensor([1e-30]) * 1e-10 > 0


@pytest.mark.parametrize("update, found", [(1, 1), (2, 51), (51, 51), (52, 101)])
def test_the_training_loss_is_looked_at_in_each_fiftieth_update(update, found):
    with pytest.raises(TrainingFailed, match=f"diverged: the training loss is nan after {found} updates"):
        learn(Training(False, diverges=update), Checkpoints())


def test_a_state_has_the_names_that_earlier_versions_read(tmp_path):
    learn(Training(False, last=2), Checkpoints(tmp_path, {}))
    state = StateFile(Checkpoints(tmp_path, {})).read()
    assert set(state) == {"course", "model", "scaler", "own"}
    assert set(state["course"]) == {
        "best_values", "best_update", "update", "epoch", "spent", "curve", "converged", "ended"
    }  # fmt: skip
    curve = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert curve == state["course"]["curve"]
