"""A GPU: a million points and ten million, beside the same machine's CPU, the exact process and GPyTorch.

    python benchmarks/gpu.py [--device cuda] [--size 1e6] [--large 1e7]
    python benchmarks/gpu.py --exact-mean  # that alone, which needs PyTorch, NumPy, SciPy and scikit-learn

Everything is run once to warm up, then repeated and the median taken, with the device synchronised before each reading
of the clock. GPyTorch takes part where it is installed.
"""

import importlib.util
import time

import numpy as np
import torch

import _common as common
import nearfield as nf
from nearfield.kernels import Kernel
from nearfield.tensors import exact_mean
from nearfield.tensors.grid_products import TensorGrid

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.1, "n_scales": 1}
LOCAL = {"spacing": 2.0, "radius": 3.5, "features": nf.TaylorFeatures(12)}
DENSITY = 15.0


def timed(function, device, repeats=5):
    """Result, and the median of the seconds of a few calls after one to warm up."""
    laps = []
    for _ in range(repeats + 1):
        synchronize(device)
        began = time.perf_counter()
        result = function()
        synchronize(device)
        laps.append(time.perf_counter() - began)
    return result, float(np.median(laps[1:]))


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def uniform(n, device, dtype=torch.float64, seed=0):
    """Points of even density, half of them for testing, and a sum of waves; made where they are needed."""
    generator = torch.Generator(device).manual_seed(seed)
    X = torch.rand((n, 2), generator=generator, device=device, dtype=torch.float64) * (n / 2 / DENSITY) ** 0.5
    return X.to(dtype), waves(X, generator).to(dtype)


def clustered(n, device, dtype=torch.float64, seed=0):
    """Nine points of ten in tight clusters, the others over a wide background."""
    generator = torch.Generator(device).manual_seed(seed)
    options = {"generator": generator, "device": device, "dtype": torch.float64}
    side = (n / 2 / DENSITY) ** 0.5
    n_clusters = max(n // 2000, 10)
    middles = torch.rand((n_clusters, 2), **options) * side
    spread = 0.05 + torch.rand((n_clusters, 1), **options)
    member = torch.randint(n_clusters, (n,), generator=generator, device=device)
    X = middles[member] + spread[member] * torch.randn((n, 2), **options)
    background = torch.rand(n, generator=generator, device=device) < 0.1
    X[background] = torch.rand((int(background.sum()), 2), **options) * side
    return X.to(dtype), waves(X, generator).to(dtype)


def waves(X, generator, n_waves=64, noise=0.1):
    options = {"generator": generator, "device": X.device, "dtype": X.dtype}
    frequencies, phases = torch.randn((2, n_waves), **options), 2 * torch.pi * torch.rand(n_waves, **options)
    y = torch.cat([torch.cos(part @ frequencies + phases).sum(dim=1) for part in X.split(1 << 20)])
    return y * (2 / n_waves) ** 0.5 + noise**0.5 * torch.randn(len(X), **options)


def rates(device):
    """Bytes a second of a copy, operations a second of matrix products in double and single precision."""
    a = torch.empty(1 << 28 if device.type == "cuda" else 1 << 24, device=device)
    b = torch.empty_like(a)
    _, seconds = timed(lambda: b.copy_(a), device)
    result = {"copy": 2 * a.nbytes / seconds}
    for dtype in (torch.float64, torch.float32):
        n = 8192 if device.type == "cuda" else 1024
        A = torch.randn((n, n), device=device, dtype=dtype)
        _, seconds = timed(lambda: A @ A, device)  # noqa: B023
        result[dtype] = 2 * n**3 / seconds
    return result


def fit_and_predict(X, y, X_test, parameters=LOCAL):
    model = nf.LocalGPRegressor(**FIXED, **parameters).fit(X, y)
    return (model, *model.predict(X_test, return_std=True, include_noise=True))


def whole(n, device, dtype, make=uniform):
    X, y = make(2 * n, device, dtype)
    X, y, X_test, y_test = X[:n].contiguous(), y[:n].contiguous(), X[n:].contiguous(), y[n:]
    (model, mean, std), seconds = timed(lambda: fit_and_predict(X, y, X_test), device)
    rmse = float((mean - y_test).square().mean().sqrt())
    covered = float(((mean - y_test).abs() <= 1.96 * std).double().mean())
    return seconds, rmse, covered, model


def stages(n, device, rate):
    """Where the device's time goes, by its own clock, beside the floors of sums, solutions and answers.

    A floor is what a stage's operations take at the rate of a large product, and its bytes at that of a copy.
    """
    X, y = uniform(2 * n, device)
    X, y, X_test = X[:n].contiguous(), y[:n].contiguous(), X[n:].contiguous()
    model, seconds = timed(lambda: nf.LocalGPRegressor(**FIXED, **LOCAL).fit(X, y), device)
    _, to_predict = timed(lambda: model.predict(X_test, return_std=True), device)
    D, C, near = 91, model.report_.n_centers, model.report_.median_neighbours
    per_point = 2.0 * (25**2 + 2 * 13**2)  # moments of degree 24 and products of degree 12 with two targets
    operations = {"sums": C * near * per_point, "invert": C * D**3, "predict": n * per_point}
    n_bytes = {"sums": 8.0 * 5 * n, "invert": 8.0 * C * 2 * D**2, "predict": 8.0 * n * 8, "share_out": 8.0 * n * 10}
    calls = {"fit": lambda: nf.LocalGPRegressor(**FIXED, **LOCAL).fit(X, y), "predict": lambda: model.predict(X_test)}
    rows = []
    for name, call in calls.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            synchronize(device)
        kernels = [each for each in profile.key_averages() if each.self_device_time_total > 0]
        for each in sorted(kernels, key=lambda each: -each.self_device_time_total)[:6]:
            floor = max(n_bytes.get(each.key, 0.0) / rate["copy"], operations.get(each.key, 0.0) / rate[torch.float64])
            ms = each.self_device_time_total / 1e3
            rows.append([name, each.key[:60], f"{ms:.2f}", f"{1e3 * floor:.2f}" if floor else ""])
        busy = sum(each.self_device_time_total for each in kernels) / 1e3
        wall = 1e3 * (seconds if name == "fit" else to_predict)
        rows.append([name, f"all kernels, of {wall:.1f} ms", f"{busy:.2f}", ""])
    common.table([f"N = {n:.0e}", "kernel", "ms", "floor ms"], rows)


def agreement(device):
    """Against the exact process and the CPU, on ten thousand points."""
    n = 10_000
    X, y = uniform(2 * n, device)
    X, y, X_test = X[:n].contiguous(), y[:n].contiguous(), X[n:].contiguous()
    exact = nf.ExactGPRegressor(**FIXED)
    (mean_ref, std_ref), seconds = timed(
        lambda: exact.fit(X, y).predict(X_test, return_std=True, include_noise=True), device, 2
    )
    rows = [["exact GP, float64", "", "", "", f"{seconds:.3f}"]]
    on_cpu = fit_and_predict(*(a.cpu().numpy() for a in (X, y, X_test)))[1:]

    def add(name, mean, std, seconds):
        mean, std = (torch.as_tensor(a, device=device, dtype=torch.float64) for a in (mean, std))
        kl = torch.log(std_ref / std) + 0.5 * ((std**2 + (mean - mean_ref) ** 2) / std_ref**2 - 1)
        cpu = [torch.as_tensor(a, device=device) for a in on_cpu]
        shift = float(((mean - cpu[0]).abs() / cpu[1]).max())
        relative = float((std / cpu[1] - 1).abs().max())
        rows.append([name, f"{float(kl.mean()):.2e}", f"{shift:.1e}", f"{relative:.1e}", f"{seconds:.4f}"])

    for dtype in (torch.float64, torch.float32):
        parts = [a.to(dtype) for a in (X, y, X_test)]
        (_, mean, std), seconds = timed(lambda: fit_and_predict(*parts), device)  # noqa: B023
        add(f"local, {str(dtype)[6:]}", mean, std, seconds)
    (_, mean, std), seconds = timed(lambda: fit_and_predict(*(a.cpu().numpy() for a in (X, y, X_test))), device)
    add("local, NumPy on the CPU", mean, std, seconds)
    if importlib.util.find_spec("gpytorch"):
        (mean, std), seconds = timed(lambda: gpytorch_exact(X, y, X_test), device, 2)
        add("GPyTorch, exact (Cholesky)", mean, std, seconds)
    header = ["10 000 and 10 000 points", "KL to exact", "mean from CPU (std)", "std from CPU (relative)", "s"]
    common.table(header, rows)


def gpytorch_exact(X, y, X_test):
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y - y.mean(), likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(X)
    model = Model(likelihood).to(X)
    model.initialize(**{"covar_module.base_kernel.lengthscale": 1.0, "covar_module.outputscale": 1.0})
    likelihood.initialize(noise=0.1)
    model.eval()
    likelihood.eval()
    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),
        gpytorch.settings.max_cholesky_size(10**6),
    ):
        found = likelihood(model(X_test))
        return found.mean + y.mean(), found.variance.sqrt()


def exact_means(sizes, device):
    """The exact mean, to a relative residual of 1e-8; ten thousand points beside a dense solution."""
    rows = [row_of_exact_mean(n, device) for n in [10_000, *sizes]]
    header = ["exact mean, N", "s", "grid ms", "product ms", "iterations", "residual", "from dense", "peak GiB"]
    common.table(header, rows)
    slope = np.polyfit(np.log(sizes), np.log([float(row[1]) for row in rows[1:]]), 1)[0]
    print(f"time grows like N^{slope:.2f}\n")


def row_of_exact_mean(n, device):
    kernel = Kernel.gaussian(1.0)
    X, y = uniform(2 * n, device)
    X, y = X[:n].contiguous(), y[:n, None].contiguous()
    noise = torch.full((n,), 0.1, dtype=X.dtype, device=device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    solution, seconds = timed(lambda: exact_mean.solve(kernel, X, y, noise, 1e-8), device, 3)
    if solution is None:
        return [f"{n:.0e}", "nan", "", "", "", "out of reach", "", ""]
    memory = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else float("nan")
    grid, of_grid = timed(lambda: TensorGrid.of(X, np.ones(1), exact_mean.CUTOFF), device, 3)
    _, of_product = timed(lambda: grid.interpolate(grid.spread(y[:, 0])), device)
    difference = ""
    if n <= 10_000:
        K = kernel(X, X)
        expected = torch.linalg.solve(K + torch.diag(noise), y)
        difference = f"{float((K @ (solution.x - expected)).abs().max()):.1e}"
    laps = [f"{seconds:.4f}", f"{1e3 * of_grid:.1f}", f"{1e3 * of_product:.2f}"]
    residual = f"{solution.relative_residuals[0]:.1e}"
    return [f"{n:.0e}", *laps, solution.n_iterations, residual, difference, f"{memory:.1f}"]


def main():
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", type=float, default=1e6)
    parser.add_argument("--large", type=float, default=1e7)
    parser.add_argument("--exact-mean", action="store_true", help="the exact mean by iteration, and nothing else")
    parser.add_argument("--no-cpu", action="store_true", help="leave out the comparison with the CPU")
    arguments = parser.parse_args()
    device, n = torch.device(arguments.device), int(arguments.size)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    rate = rates(device)
    print(f"{name}, PyTorch {torch.__version__}: copy {rate['copy'] / 1e9:.0f} GB/s, ", end="")
    print(f"products {rate[torch.float64] / 1e12:.1f} (double) and {rate[torch.float32] / 1e12:.1f} TFLOP/s (single)\n")

    if arguments.exact_mean:
        sizes = [n // 10, n, *([int(arguments.large)] if arguments.large else [])]
        exact_means(sizes, device)
        return

    rows = []

    def add(label, size, dtype, make=uniform):
        seconds, rmse, covered, model = whole(size, device, dtype, make)
        report = model.report_
        memory = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else float("nan")
        rows.append(
            [label, f"{size:.0e}", f"{seconds:.4f}", f"{rmse:.4f}", f"{covered:.3f}", report.n_centers, f"{memory:.1f}"]
        )
        del model
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        return seconds

    even = add("even, double", n, torch.float64)
    add("even, single", n, torch.float32)
    uneven = add("clusters, double", n, torch.float64, clustered)
    add("even, double", n // 10, torch.float64)
    if arguments.large:
        add("even, double", int(arguments.large), torch.float64)
        add("even, single", int(arguments.large), torch.float32)
    common.table(["fit and predict with std", "N and as many", "s", "RMSE", "95 %", "centres", "peak GiB"], rows)
    print(f"clusters take {uneven / even:.2f} times as long as even points\n")

    stages(n, device, rate)
    agreement(device)

    X, y = uniform(n, device)
    for n_scales in (1, "auto"):
        model = nf.LocalGPRegressor(n_scales=n_scales, random_state=0, **LOCAL)
        _, seconds = timed(lambda: model.fit(X, y), device, 1)  # noqa: B023
        learnt = model.report_.seconds["learning"]
        print(
            f"learning on {n:.0e} rows, n_scales={n_scales!r}: {learnt:.2f} s ({seconds:.2f} s with the fit), ", end=""
        )
        print(f"{model.learned_.n_evaluations} evaluations; length scale {model.length_scale_}")
    model = nf.LocalGPRegressor(**FIXED, random_state=0)
    _, seconds = timed(lambda: model.fit(X, y), device, 1)
    print(f"choosing and fitting by tolerance, fixed hyperparameters: {seconds:.2f} s ({model.report_.method})")
    if not arguments.no_cpu:
        X, y = (a.cpu().numpy() for a in uniform(2 * n, device))
        began = time.perf_counter()
        fit_and_predict(X[:n], y[:n], X[n:])
        seconds = time.perf_counter() - began
        print(f"the same on this machine's CPU, NumPy: {seconds:.2f} s, {seconds / even:.0f} times as long")


if __name__ == "__main__":
    main()
