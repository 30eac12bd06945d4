"""TensorSRHT, O(log d) a feature, against the dense Rademacher sketch, O(d) a feature, and their growth with d."""

from time import perf_counter

import numpy as np
from threadpoolctl import threadpool_limits

from nearfield.features import sketch

DEGREE, POINTS, D = 3, 1000, 4096


def milliseconds(drawn, x, repeats=5):
    sketch.apply(drawn, x[:10])
    times = []
    for _ in range(repeats):
        start = perf_counter()
        sketch.apply(drawn, x)
        times.append(perf_counter() - start)
    return 1e3 * float(np.median(times))


def main():
    rng = np.random.RandomState(0)
    print(f"degree {DEGREE}, D = {D}, {POINTS} points, one thread; times in ms\n")
    print("|    d | TensorSRHT | Rademacher | ratio |")
    print("|-----:|-----------:|-----------:|------:|")
    for d in (64, 128, 256, 512, 1024, 2048, 4096):
        x = rng.standard_normal((POINTS, d)) / d**0.5
        srht, dense = (
            milliseconds(sketch.sample(d, DEGREE, D, sampling, rng), x) for sampling in ("tensor_srht", "rademacher")
        )
        print(f"| {d:4} | {srht:10.0f} | {dense:10.0f} | {dense / srht:5.1f} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
