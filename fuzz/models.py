"""Altered model files: refused in a sentence, or a model that can be used."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import struct
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import nearfield as nf
from nearfield import io, webpage
from nearfield.cli.summary import account
from nearfield.local.engine import RaggedEngine
from nearfield.local.predictor import LocalPredictor
from nearfield.persistence import container

from . import mutations, runner

_START = struct.Struct("<16sIIQQ")
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.01, "random_state": 0}
TAGS = (
    *({"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"array": 0}, {"array": 1}, {"array": 2}, {"array": -1}),
    *({"array": 1e3}, {"array": True}, {"array": [0]}, {"names": ["a", "b"]}, {"names": "ab"}, {"names": [1, None]}),
    *({"tuple": []}, {"tuple": 5}, {"tuple": [1.0]}, {"dict": {}}, {"dict": []}, {"object": "Kernel", "fields": {}}),
    *(
        {"object": "os.system", "fields": {"command": "true"}},
        {"object": "Lattice", "fields": {"origin": 0, "side": 0.0}},
    ),
    *({"estimator": "FourierFeatures", "parameters": {}, "state": {}}, {"estimator": "Pipeline"}, {"object": "Report"}),
)


@dataclass
class Parts:
    """A model file taken apart: the header with its list of arrays, and the bytes of each array."""

    header: Any
    arrays: list[bytes]

    @classmethod
    def of(cls, data: bytes) -> Parts:
        """Take a proper file apart."""
        length = _START.unpack(data[: _START.size])[4]
        header = json.loads(data[_START.size : _START.size + length])
        spans = container._spans(length, header["arrays"])
        return cls(header, [data[start:end] for start, end in spans])

    def sealed(self, text: bytes | None = None) -> bytes:
        """The file again, with lengths and checksum that are right whatever else it says."""
        if text is None:
            text = json.dumps(self.header, separators=(",", ":")).encode("utf-8", "surrogatepass")
        body = bytearray(text)
        for raw in self.arrays:
            body += bytes(-(_START.size + len(body)) % 64) + raw
        return resealed(_START.pack(container.MAGIC, 1, 0, 0, len(text)) + bytes(body) + bytes(32))


def resealed(data: bytes) -> bytes:
    """The same with the right length and checksum."""
    if len(data) < _START.size + 32:
        return data
    magic, version, zero, _, length = _START.unpack(data[: _START.size])
    data = _START.pack(magic, version, zero, len(data), length) + data[_START.size : -32]
    return data + hashlib.sha256(data).digest()


def sources() -> dict[str, Any]:
    """Small models of every kind, fitted."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, (60, 2))
    wide, grouped = np.tile(X, 3), np.column_stack([X, np.arange(60) % 4])
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(60)
    local = {**FIXED, "spacing": 1.5, "radius": 3.0, "features": nf.TaylorFeatures(4)}
    two = {**FIXED, "length_scale": [1.0, 4.0], "signal_variance": [0.6, 0.4], "n_scales": 2}
    sketches, drawn = nf.MaclaurinFeatures(20, random_state=0), nf.FourierFeatures(20, random_state=0)
    srht = nf.MaclaurinFeatures(20, sampling="tensor_srht", random_state=0)
    feature, both = nf.FeatureGPRegressor, np.column_stack([y, 1000 - 2 * y])
    return {
        "local": nf.LocalGPRegressor(**local).fit(X, y),
        "updated": nf.LocalGPRegressor(**local).fit(X[:45], y[:45]).partial_fit(X[45:], y[45:]),
        "nearest": by_number(nf.LocalGPRegressor(**local).fit(X, y)),
        "kernel": nf.LocalGPRegressor(**{**local, "features": "kernel", "n_jobs": 1}).fit(X, y),
        "chosen": nf.LocalGPRegressor(**FIXED).fit(X, y),
        "measured": measured(nf.LocalGPRegressor(**FIXED).fit(X, y)),
        "blend": nf.LocalGPRegressor(**local, blend=True).fit(X, both),
        "own": nf.LocalGPRegressor(**{**local, "length_scale": [1.0, 2.0]}, centers=X[:5]).fit(X, y),
        "test": nf.LocalGPRegressor(**local, centers="test").fit(X, y),
        "sketches": nf.LocalGPRegressor(**{**local, "features": sketches, "radius": None}).fit(wide, y),
        "scales": nf.LocalGPRegressor(**two).fit(X, y),
        "paper": nf.LocalGPRegressor.from_paper(16, sampling="tensor_srht", **FIXED).fit(X, y),
        "sphere": nf.LocalGPRegressor(**local, metric="sphere").fit(X, y),
        "rotated": nf.LocalGPRegressor(**{**local, "length_scale": [1.0, 2.0]}, anisotropy="rotated").fit(X, y),
        "exact": nf.ExactGPRegressor(**FIXED).fit(X, y),
        "learnt": nf.ExactGPRegressor(random_state=0, n_restarts=0, ard=True).fit(X[:30], y[:30]),
        "targets": nf.ExactGPRegressor(**two).fit(X, both),
        "Fourier": feature(drawn, **FIXED).fit(X, y),
        "odd": feature(nf.FourierFeatures(21, sampling="structured", random_state=0), **FIXED).fit(wide, y),
        "Taylor": feature(nf.TaylorFeatures(4), **{**FIXED, "length_scale": 6.0}).fit(X, both),
        "Maclaurin": feature(srht, **FIXED).fit(wide, y),
        "sketch": feature(nf.PolynomialSketch(10, random_state=0), random_state=0).fit(X, y),
        "maps": feature(drawn, **two).fit(X, y),
        "drift": nf.LocalGPRegressor(**local, drift="quadratic").fit(X, y),
        "roles": nf.ExactGPRegressor(**FIXED, coordinates=[0], drift=[1]).fit(X, both),
        "groups": nf.LocalGPRegressor(**FIXED, coordinates=[0, 1], groups=[2]).fit(grouped, y),
        "effects": nf.ExactGPRegressor(**FIXED, coordinates=[0, 1], groups=[2]).fit(grouped, y),
        "further": feature(drawn, **FIXED, drift="linear").fit(X, y),
    }


def by_number(model: Any) -> Any:
    """The model with neighbourhoods of so many points, in cells of several sizes, which only large data have."""
    p = model._predictor
    placement = replace(
        p.placement, reach=np.full(len(p.placement.centers), 1.0), cells=None, lattice=None, spacing=None
    )
    plan = replace(p.plan, radius=None, features=None, count=8)
    predictor = LocalPredictor.fit(plan, p.data, placement, True, RaggedEngine(1))
    model._store(replace(model._fitted, predictor=predictor, spacing=None))
    return model


def measured(model: Any) -> Any:
    """The model with a report of measured candidates, as only large data have."""
    trials = (("degree 4", 0.02, 1e6), ("degree 6", 3e-4, 3e6), ("kernel space", 0.0, float("inf")))
    found = {"divergence": 3e-4, "divergence_error": 1e-4, "tolerance": 1e-3, "tolerance_met": True, "n_probes": 40}
    model.report_ = replace(model.report_, **found, trials=trials, method="degree 6", n_components=28, degrees=(6,))
    return model


class Models:
    """See `runner.Target`."""

    name = "models"

    def prepare(self, folder: Path) -> None:
        """Save the models."""
        metadata = {"target": "z", "columns": [{"name": "a", "kind": "number"}, {"name": "b", "kind": "number"}]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, model in sources().items():
                nf.save(model, folder / f"{name}.nf", metadata)

    def load(self, folder: Path) -> None:
        """Read the files, and use each as it is."""
        self.whole = [path.read_bytes() for path in sorted(folder.glob("*.nf"))]
        self.parts = [Parts.of(data) for data in self.whole]
        self.headers = [parts.header for parts in self.parts]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path in sorted(folder.glob("*.nf")):
                if not self.attempt(path, random.Random(0), page=path.stem in ("measured", "odd")):
                    raise RuntimeError(f"{path} should be taken")

    def write(self, rng: random.Random, folder: Path) -> Path:
        """An altered file."""
        path = folder / "altered.nf"
        kind, which = rng.randrange(20), rng.randrange(len(self.whole))
        whole, parts = self.whole[which], copy.deepcopy(self.parts[which])
        if kind < 2:
            data = mutations.bytes_altered(whole, rng, self.whole)
        elif kind == 2:
            data = resealed(mutations.bytes_altered(whole, rng, self.whole))
        elif kind < 12:
            parts.header = mutations.tree_altered(parts.header, rng, value, self.headers)
            data = parts.sealed()
        elif kind == 12:
            text = json.dumps(parts.header).encode()
            data = parts.sealed(mutations.bytes_altered(text, rng))
        elif kind == 13:
            data = parts.sealed(rare_header(parts.header, rng))
        elif kind < 16:
            alter_entry(parts, rng)
            data = parts.sealed()
        elif kind < 19:
            alter_numbers(parts, rng)
            data = parts.sealed()
        else:
            other = copy.deepcopy(rng.choice(self.parts))
            i, j = rng.randrange(len(parts.arrays)), rng.randrange(len(other.arrays))
            parts.arrays[i] = other.arrays[j]
            if rng.random() < 0.7:
                parts.header["arrays"][i] = other.header["arrays"][j]
            data = parts.sealed()
        path.write_bytes(data)
        return path

    def attempt(self, path: Path, rng: random.Random, page: bool = False) -> bool:
        """Load and use."""
        try:
            file = io.inspect(path)
            model = file.model()
        except (ValueError, OSError, MemoryError) as error:
            runner.require_sentence(error, path)
            return False
        use(model, rng, path, page or rng.random() < 0.02)
        return True


def use(model: Any, rng: random.Random, path: Path, page: bool) -> None:
    """What people do with a model; nothing of it may fail."""
    d = model.n_features_in_
    drawn = np.random.default_rng(rng.randrange(2**32))
    points = np.concatenate([drawn.uniform(0, 8, (6, d)), drawn.uniform(-100, 100, (2, d)), np.full((1, d), 1e6)])
    if model.metric_ == "sphere":
        points = np.clip(points, -90, 90)
    try:
        mean, std = model.predict(points, return_std=True, include_noise=rng.random() < 0.5)
    except ValueError as error:
        if "finite" in str(error) and "\n" not in str(error):
            return
        raise
    if mean.shape != std.shape or len(mean) != len(points):
        raise runner.Defect("predictions of another shape")
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(std)) and np.all(std >= 0)):
        raise runner.Defect("predictions that are not finite")
    account(vars(model))
    repr(model)
    if hasattr(model, "drift_coef_"):
        str(model.drift_coef_)
    if hasattr(model, "group_effects_"):
        str(model.group_effects_)
    if page and len(getattr(model, "centers_", points)):  # a model a test point takes its time over a map
        webpage.build(model, points)
    if rng.random() < 0.05:
        again = path.with_name("again.nf")
        nf.save(model, again)
        np.testing.assert_allclose(nf.load(again).predict(points), mean, rtol=1e-6, atol=1e-6 * np.abs(mean).max())


def value(rng: random.Random) -> Any:
    """Something odd, sometimes in the words of the format."""
    return copy.deepcopy(rng.choice(TAGS)) if rng.random() < 0.35 else mutations.odd_value(rng)


def rare_header(header: Any, rng: random.Random) -> bytes:
    """Headers that no tree of Python's makes: nested without end, keys that come twice, numbers without end."""
    text = json.dumps(header)
    middle = text.index(":") + 1
    odd = rng.choice(
        (
            *("[" * 200_000, "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, "9" * 5000, "1e999", "-1e999"),
            *(
                "NaN",
                "-Infinity",
                "[" + "[]," * 60_000 + "0]",
                "[" + "{}," * 60_000 + "0]",
                '"\\ud800"',
                "1." + "0" * 9000,
            ),
        )
    )
    if rng.random() < 0.5:
        return (text[:middle] + odd + "," + text[middle:]).encode()
    key = rng.choice(list(header))
    return (text[:-1] + f',"{key}":{odd}}}').encode()


def alter_entry(parts: Parts, rng: random.Random) -> None:
    """Another type, shape or order of an array; the bytes stay."""
    entry = rng.choice(parts.header["arrays"])
    kind = rng.randrange(4)
    if kind == 0:
        entry["dtype"] = rng.choice(
            (*container.DTYPES, "|O", "<U8", "|V8", "<M8[s]", "<f16", ">f8", "f8", "<c16", "", None, 3, ["<f8"], "|S0")
        )
    elif kind == 1:
        shape = entry["shape"]
        n = int(np.prod(shape))
        entry["shape"] = rng.choice(
            (
                *(
                    [],
                    [n],
                    [1, n],
                    [n, 1],
                    [1] * 20 + shape,
                    shape[::-1],
                    [*shape, 1],
                    [0],
                    [0, 3],
                    [0, 2**70],
                    [2**70, 0],
                ),
                *(
                    [2**40],
                    [2**62, 4],
                    [-1],
                    [-n, -1],
                    [1.5],
                    ["3"],
                    [True],
                    n,
                    None,
                    {},
                    [n // 2, 2],
                    [s - 1 for s in shape],
                ),
                *([1] * 100, [s // 2 for s in shape], [10**400]),
            )
        )
    elif kind == 2:
        entry["order"] = rng.choice(("C", "F", "A", "", None, 3, {}))
    else:
        mutated = mutations.tree_altered(parts.header["arrays"], rng)
        parts.header["arrays"] = mutated


def alter_numbers(parts: Parts, rng: random.Random) -> None:
    """Other numbers in an array, or its rows in another order or number."""
    i = rng.randrange(len(parts.arrays))
    entry, raw = parts.header["arrays"][i], parts.arrays[i]
    array = np.frombuffer(raw, entry["dtype"]).copy()
    if len(array) == 0:
        return
    kind = rng.randrange(6)
    if kind < 3:
        odd = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 1e200, 1e-310, 1e16, 2.0**63, 7.0, 1e150, 1e100)
        chosen = rng.choice(odd)
        with np.errstate(all="ignore"):
            number = np.array(chosen).astype(array.dtype)
        where = slice(None) if rng.random() < 0.3 else [rng.randrange(len(array)) for _ in range(rng.choice((1, 1, 5)))]
        array[where] = number
    elif kind == 3:
        array = array * (rng.choice((-1, 1e-8, 1e8, 1e160)) if array.dtype.kind == "f" else 1)
    elif kind == 4 and len(entry["shape"]) > 0 and entry["order"] == "C":
        rows = rng.choice((0, 1, entry["shape"][0] // 2, max(entry["shape"][0] - 1, 0)))
        array = array.reshape(entry["shape"])[:rows]
        entry["shape"] = list(array.shape)
    else:
        array = array[::-1]
    parts.arrays[i] = np.ascontiguousarray(array).tobytes()


TARGET = Models()

if __name__ == "__main__":
    sys.exit(runner.main(TARGET, 30_000))
