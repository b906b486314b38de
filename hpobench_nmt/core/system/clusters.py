"""Clusters of Dask and of Ray, whose workers call a function for many tasks."""

from __future__ import annotations

import importlib.util
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeVar, get_args

from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError, one_line, unknown
from hpobench_nmt.core.system.text import brief

T = TypeVar("T")

Cluster = Literal["dask", "ray"]
Backend = Literal["local", Cluster]
"""Where methods of the package and trainings run: in processes of this machine, or on a cluster."""

BACKENDS: tuple[Backend, ...] = get_args(Backend)

NO_DASHBOARD = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
"""Settings of a local cluster of Dask. Without a dashboard it still serves pages, here at any free port."""


def known_backend(name: str) -> Backend:
    """The backend of this name; "loky" is an old name of "local"."""
    if not isinstance(name, str):
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, not {brief(name)}.")
    if name == "loky":
        warn_deprecated("backend 'loky'", "'local'", since="1.1", removed_in="2.0")
        return "local"
    for backend in BACKENDS:
        if name == backend:
            return backend
    raise unknown("backend", name, BACKENDS)


@contextmanager
def cluster(backend: Cluster, jobs: int, processes: bool = True) -> Iterator[None]:
    """Connect to a cluster, or start a local one with `jobs` workers if there is none.

    Dask's local workers are processes. Without `processes` they are threads, for work that starts processes.
    """
    if importlib.util.find_spec({"dask": "distributed", "ray": "ray"}[backend]) is None:
        raise InputError(f"backend {backend!r} is not installed: pip install 'hpobench-nmt[{backend}]'")
    with ExitStack() as own:
        if backend == "dask":
            import dask
            import distributed

            try:
                distributed.get_client()
            except ValueError:
                address = dask.config.get("scheduler-address", None)
                local = {"n_workers": jobs, "threads_per_worker": 1, "processes": processes, **NO_DASHBOARD}
                connect: Any = distributed.Client
                own.enter_context(connect(address, **({} if address else local)))
        else:
            import ray

            if not ray.is_initialized():
                ray.init(log_to_driver=False)
        yield


def cluster_results(
    backend: Cluster, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], jobs: int, **of_ray: Any
) -> Iterator[T]:
    """A function's result for the arguments of each task, as tasks end, on the connected cluster.

    At most `jobs` tasks are submitted at a time, and nothing runs in this process. A worker of Ray that is
    killed loses only its own task; `of_ray` are options of Ray's tasks. Raises what the function raises, and
    InputError if a worker of Dask cannot import it.
    """
    if backend == "ray":
        return _ray_results(function, tasks, jobs, of_ray)
    return _dask_results(function, tasks, jobs)


def _dask_results(function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], jobs: int) -> Iterator[T]:
    # Tasks run on the workers that the cluster has at that time, including workers that joined later.
    import distributed

    client: Any = distributed.get_client()
    _check_workers(client, function.__module__)
    waiting = iter(tasks)

    def submitted(count: int) -> list[Any]:
        return [client.submit(function, *task, pure=False) for task in itertools.islice(waiting, count)]

    futures = submitted(jobs)
    as_completed: Any = distributed.as_completed
    ended = as_completed(futures)
    try:
        for future in ended:
            yield future.result()
            futures.remove(future)
            more = submitted(1)
            futures += more
            ended.update(more)
    finally:
        client.cancel(futures)


def _check_workers(client: Any, module: str) -> None:
    """Raise InputError if a worker of Dask cannot import a module. It would close, and the run would wait."""
    found = client.run(pkgutil.resolve_name, f"{module}:__name__", on_error="return")
    for worker, name in found.items():
        if isinstance(name, BaseException):
            raise InputError(
                f"Dask's worker {worker} cannot import {module} ({one_line(name)}). Install the same version "
                f"of hpobench-nmt for all workers."
            ) from name


def _ray_results(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], jobs: int, options: Mapping[str, Any]
) -> Iterator[T]:
    import ray

    remote: Any = ray.remote(num_cpus=1, **options)(function)
    waiting = iter(tasks)
    running = [remote.remote(*task) for task in itertools.islice(waiting, jobs)]
    while running:
        [ended], running = ray.wait(running)
        try:
            yield ray.get(ended)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        running += [remote.remote(*task) for task in itertools.islice(waiting, 1)]
