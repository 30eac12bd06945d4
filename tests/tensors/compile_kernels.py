"""Compile the kernels of `nearfield.tensors.compiled` for a GPU, which need not be there."""

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nearfield.tensors import compiled

SIZES = {"COLUMNS": 2, "P": 32, "F": 16, "K": 2}
# Of each kernel: types of its arguments (pointers to doubles, integers of two sizes and booleans, and integers), sizes.
KERNELS = {
    "sums": ("fffnfiiifffffi" + "f" + "n" * 7, {**SIZES, "BLOCK": 32}),
    "invert": ("fnjffffnn", {"TILE": 16}),
    "polynomials": ("fjfifnnnnn", {"MATRICES": 4, "BLOCK": 128}),
    "nearest": ("fnifffiifi", {"COLUMNS": 2, "OFFSETS": 16, "BLOCK": 128}),
    "share_out": ("fnifffiiiliiif", {"COLUMNS": 2, "OFFSETS": 16, "BLOCK": 128, "BLEND": True, "FILL": True}),
    "predict": ("fiiiiffffffff" + "f" + "n" * 6, {**SIZES, "IS_CORRECTED": True, "BLOCK": 32}),
    "combine": ("iifffnnff", {"K": 2, "BLOCK": 128}),
}
TYPES = {"f": "*fp64", "i": "*i64", "j": "*i32", "l": "*i1", "n": "i32"}


def main():
    for name, (types, sizes) in KERNELS.items():
        kernel = getattr(compiled, name)
        free = [argument for argument in kernel.arg_names if argument not in sizes]
        signature = {argument: TYPES[letter] for argument, letter in zip(free, types, strict=True)}
        signature = {argument: signature.get(argument, "constexpr") for argument in kernel.arg_names}
        made = triton.compile(ASTSource(kernel, signature, sizes), target=GPUTarget("cuda", 90, 32))
        assert "ptx" in made.asm


if __name__ == "__main__":
    main()
