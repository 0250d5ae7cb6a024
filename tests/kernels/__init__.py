"""Kernels for tests of :mod:`otel_kernel_trace.suspicion`: honest ones, and one for each known trick."""
