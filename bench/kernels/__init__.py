"""The benchmark of the kernels: `python -m bench.kernels --help`."""
