"""What compilers, runs and comparisons say is wrong: logs in, values out."""

from otel_kernel_trace.diagnostics.model import CATEGORIES, Category, Diagnostic, Severity

__all__ = ["CATEGORIES", "Category", "Diagnostic", "Severity"]
