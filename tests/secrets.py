"""Secrets for tests, of the right form and of nobody; in pieces, as scanners for real ones look here, too."""

from __future__ import annotations

_KEY = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4f"

BY_KIND: dict[str, tuple[str, ...]] = {
    "openai_key": ("sk-" + _KEY, "sk-proj-" + _KEY + "_x-9", "sk-" + "a" * 48),
    "anthropic_key": ("sk-ant-" + "api03-" + _KEY,),
    "aws_key": ("AKIA" + "IOSFODNN7EXAMPLE", "ASIA" + "Y34FZKBOKMUTVV7A"),
    "github_token": (
        "ghp_" + _KEY + "wxyz",
        "gho_" + _KEY + "wxyz",
        "github_pat_" + "11ABCDEFG0" + "_" + _KEY,
    ),
    "gitlab_token": ("glpat-" + "x9Yz-8Wv_7Ut6Sr5Qp4O",),
    "huggingface_token": ("hf_" + _KEY + "gh",),
    "slack_token": ("xoxb-" + "123456789012-abcdefABCDEF", "xapp-" + "1-A012-345-" + "abcdef" * 4),
    "google_key": ("AIza" + "SyA-1234567890abcdefghijklmnopqrstu",),
    "nvidia_key": ("nvapi-" + _KEY,),
    "groq_key": ("gsk_" + _KEY,),
    "stripe_key": ("sk_" + "live_" + _KEY,),
    "package_token": ("npm_" + _KEY + "wxyz", "pypi-" + "AgEIcHlwaS5vcmc" + _KEY),
    "jwt": ("eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "s1gn_ature-0",),
    "email": ("ada.lovelace+k@example.co.uk", "ADA_L@EXAMPLE.COM"),
}
"""Secrets that are known by their own form."""

PEM = (
    "-----BEGIN RSA " + "PRIVATE KEY-----\n"
    "MIIEpAIBAAKCAQEAx1f0ZkQw9v3bN5xM2yT8uR4eW6qL0pJ7hG5dS3aF1zXcVbNm\n"
    "q8w7e6r5t4y3u2i1o0pLkJhGfDsAzXcVbNmQwErTyUiOpAsDfGhJkL1234567890\n"
    "-----END RSA " + "PRIVATE KEY-----"
)
