"""`BO_auto` in continuous spaces, against BoTorch's LogEI with its own optimiser: regret and time, in turns.

    pip install -e '.[botorch]'
    python benchmarks/methods/continuous.py [--trials 10] [--evaluations 50] [--functions NAME,...]

The functions are Branin (2 dimensions), Hartmann-6, a quadratic of 10 dimensions whose values have normal
noise of standard deviation 0.1, and Ackley's and Rosenbrock's functions of 20 dimensions. Regret is the
smallest evaluated value, without the noise, minus the minimum. BO_auto starts with 3 random points, as in
`minimize`, and LogEI with 2 H + 2. With --once, `minimize` is compared with BO_auto among 1,000 and 10,000
points that are drawn once, as in `tune`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import hpobench_nmt as hb
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.methods.auto import AutoBO

_HARTMANN_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(u: Floats, seed: int) -> float:
    """Branin's function on [0, 1]^2, minus its minimum."""
    x, y = 15 * u[0] - 5, 15 * u[1]
    parabola = (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2
    return float(parabola + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.397887)


def hartmann(u: Floats, seed: int) -> float:
    """Hartmann's function on [0, 1]^6, minus its minimum."""
    weights = np.array([1, 1.2, 3, 3.2])
    return float(3.32237 - weights @ np.exp(-(_HARTMANN_A * (u - _HARTMANN_P) ** 2).sum(axis=1)))


def quadratic(u: Floats, seed: int) -> float:
    """On [0, 1]^10: the squared distance to a point."""
    return float(((u - np.random.default_rng(seed).uniform(0.2, 0.8, size=len(u))) ** 2).sum())


def ackley(u: Floats, seed: int) -> float:
    """Ackley's function on a box of length 40 in each dimension, with its minimum at a random point."""
    x = 40 * (u - np.random.default_rng(seed).uniform(0.2, 0.8, size=len(u)))
    root = math.sqrt(float((x * x).mean()))
    return 20 + math.e - 20 * math.exp(-0.2 * root) - math.exp(float(np.cos(2 * math.pi * x).mean()))


def rosenbrock(u: Floats, seed: int) -> float:
    """Rosenbrock's function on [-5, 10]^d."""
    x = 15 * u - 5
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


# Dimensions, and the standard deviation of the noise.
FUNCTIONS = {
    "Branin": (branin, 2, 0.0),
    "Hartmann-6": (hartmann, 6, 0.0),
    "quadratic": (quadratic, 10, 0.1),
    "Ackley-20": (ackley, 20, 0.0),
    "Rosenbrock-20": (rosenbrock, 20, 0.0),
}
Function = Callable[[Floats], float]


def of_auto(function: Function, dimensions: int, evaluations: int, seed: int) -> None:
    """Minimise with BO_auto."""
    names = [f"x{h}" for h in range(dimensions)]
    hb.minimize(
        lambda config: function(np.array([config[name] for name in names])),
        dict.fromkeys(names, (0.0, 1.0)),
        budget=evaluations,
        seed=seed,
    )


def of_drawn_once(
    function: Function, dimensions: int, evaluations: int, seed: int, count: int = 1000
) -> None:
    """Minimise with BO_auto among some random points."""
    points = generator(seed, "candidates").random((count, dimensions))
    method = AutoBO(Problem(points, 1, evaluations, 3), generator(seed, "method"))
    for number in range(evaluations):
        row = number if number < 3 else method.ask()
        method.tell(row, np.array([function(points[row])]))


def of_log_ei(function: Function, dimensions: int, evaluations: int, seed: int) -> None:
    """Minimise with BoTorch's model and its LogEI, maximised from 8 starts among 256 points."""
    import torch
    from botorch import fit_gpytorch_mll
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    bounds = torch.tensor([[0.0] * dimensions, [1.0] * dimensions], dtype=torch.double)
    x = torch.rand(2 * dimensions + 2, dimensions, dtype=torch.double)
    y = torch.tensor([[-function(point)] for point in x.numpy()], dtype=torch.double)
    while len(x) < evaluations:
        model = SingleTaskGP(x, y, outcome_transform=Standardize(1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=y.max())
        new, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=8, raw_samples=256)
        x = torch.cat([x, new.detach()])
        y = torch.cat([y, torch.tensor([[-function(new[0].detach().numpy())]], dtype=torch.double)])


def measured(minimise: Callable[..., None], name: str, evaluations: int, seed: int) -> tuple[float, float]:
    """The regret of a run, and its processor time in seconds."""
    function, dimensions, noise = FUNCTIONS[name]
    rng, values = np.random.default_rng(seed), []

    def noisy(u: Floats) -> float:
        values.append(function(u, seed))
        return values[-1] + noise * float(rng.standard_normal())

    start = time.process_time()
    minimise(noisy, dimensions, evaluations, seed)
    return min(values), time.process_time() - start


def main() -> None:
    """Print a line per function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--functions", type=lambda text: text.split(","), default=list(FUNCTIONS))
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    methods: dict[str, Callable[..., None]] = {"BO_auto": of_auto, "LogEI": of_log_ei}
    if options.once:
        methods = {"BO_auto": of_auto, "1,000": of_drawn_once, "10,000": partial(of_drawn_once, count=10_000)}
    print(
        "mean (median) regret    "
        + "".join(f"{name:20s}" for name in methods)
        + "share of the last one's time"
    )
    for name in options.functions:
        measured(of_auto, name, 5, 0)  # compiles
        found = np.array(
            [
                [measured(method, name, options.evaluations, seed) for method in methods.values()]
                for seed in range(options.trials)
            ]
        )
        means, medians, times = found[..., 0].mean(0), np.median(found[..., 0], axis=0), found[..., 1].sum(0)
        cells = "".join(f"{f'{a:.4f} ({b:.4f})':20s}" for a, b in zip(means, medians, strict=True))
        print(f"{name:24s}{cells}{times[0] / times[-1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
