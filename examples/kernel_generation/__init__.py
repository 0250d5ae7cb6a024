"""The parts of examples/generate_kernel.py: a small pipeline in which agents write kernels."""
