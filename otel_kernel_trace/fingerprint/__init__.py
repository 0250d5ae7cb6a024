"""What a task came to, and what it was made with, as a value and as JSON."""

from otel_kernel_trace.fingerprint.document import fingerprints_in, of_fingerprint, text_of
from otel_kernel_trace.fingerprint.fingerprint import Fingerprint, fingerprint_of

__all__ = ["Fingerprint", "fingerprint_of", "fingerprints_in", "of_fingerprint", "text_of"]
