"""What a training's own process tells of its end: memory that ran out, and work that cannot be repeated."""

import errno
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.family import Family, Job, Outcome, tells_of_no_memory  # noqa: E402
from hpobench_nmt.runner.training import training_process  # noqa: E402
from hpobench_nmt.runner.training.training_process import train_one  # noqa: E402


@dataclass(frozen=True)
class Nothing:
    """A family without settings."""


@pytest.fixture
def result(monkeypatch, tmp_path):
    """Trains by a function in this process, and gives the result."""

    def run(function):
        family = Family("test", "models", "nobody", "text", Nothing, (), function)
        monkeypatch.setattr(training_process, "load_family", lambda name: family)
        return train_one("test", Job(Nothing(), 1, {}, Path(), tmp_path, tmp_path, "cpu"))

    return run


CUDA_ERROR = getattr(torch, "AcceleratorError", RuntimeError)  # of torch 2.8 and newer
# As CUDA, cuBLAS, cuDNN, cuSOLVER, torch's allocators and the system say it.
SHORT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    CUDA_ERROR("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
    RuntimeError("cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`"),
    RuntimeError("NCCL Error 1: unhandled cuda error: cudaErrorMemoryAllocation"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    MemoryError(),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
]


@pytest.mark.parametrize(("left", "named"), [("curve.jsonl", False), ("training.pt", True)])
def test_another_device_is_named_where_there_is_a_state_of_it(tmp_path, left, named):
    state = tmp_path / "state"
    state.mkdir()
    (state / "devices").write_text("cpu, one thread: another\n")
    (state / left).write_text("")
    job = Job({}, 1, {}, Path(), tmp_path, tmp_path, "cpu", state=state)
    assert training_process._devices(job).startswith("cpu, one thread: another, then ") == named


@pytest.mark.parametrize("error", SHORT_OF_MEMORY, ids=str)
def test_memory_that_ran_out_is_no_error_of_the_run(result, error):
    def train(job):
        raise error

    ended = result(train)
    assert (ended.failure, ended.starved, ended.outcome) == ("out of memory", True, None)


def test_a_gpu_without_room_for_the_process_is_short_of_memory(result, monkeypatch):
    def opens_cuda(device):
        raise CUDA_ERROR("CUDA error: out of memory")

    monkeypatch.setattr(training_process, "device_name", opens_cuda)
    ended = result(lambda job: Outcome({"a": 1.0}))
    assert (ended.failure, ended.starved, ended.device) == ("out of memory", True, "cpu")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
    ids=str,
)
def test_other_errors_are_not_taken_for_it(result, error):
    def train(job):
        raise error

    with pytest.raises(type(error)):
        result(train)
    assert not tells_of_no_memory(str(error))


def test_work_that_cannot_be_repeated_is_named(result):
    def train(job):
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            for _ in range(3):  # adds nothing the second time
                torch.zeros(3).put_(torch.tensor([0]), torch.tensor([1.0]))
        finally:
            torch.use_deterministic_algorithms(False)
        return Outcome({"a": 1.0}, nondeterministic="the weather")

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert result(train).nondeterministic == "the weather, put_"


def test_what_can_be_repeated_is_not_marked(result):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        def train(job):
            warnings.warn("something else", stacklevel=1)
            return Outcome({"a": 1.0})

        assert result(train).nondeterministic == ""
    assert [str(warning.message) for warning in seen] == ["something else"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_that_is_full_is_told_and_can_be_used_again(result):
    def train(job):
        return Outcome({"a": float(torch.empty(2**45, device="cuda")[0])})

    assert result(train).starved
    assert result(lambda job: Outcome({"a": float(torch.ones(3, device="cuda").sum())})).outcome
