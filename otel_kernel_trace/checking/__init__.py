"""Whether a tree, or a builder's log, is as a team's rules want it; docs/check.md has every rule.

>>> from otel_kernel_trace.checking import check_log_health
>>> check_log_health("./kernel_trace_logs", "rules.toml", baseline="./before").raise_for_failures()

Rules and fingerprints in, findings out: what decides is pure. Files are read in ``check`` alone.
"""

from otel_kernel_trace.checking.check import check_log_health
from otel_kernel_trace.checking.health import Finding, Health, UnhealthyError
from otel_kernel_trace.checking.rules import RulesError

__all__ = ["Finding", "Health", "RulesError", "UnhealthyError", "check_log_health"]
