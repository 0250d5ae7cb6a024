"""Findings as JUnit XML: a suite for every task, a case for every finding.

The form is the one that Jenkins, GitLab and others read:
https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from otel_kernel_trace.checking.health import Finding, Health

_NO_CHAR = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold, not even as a reference: https://www.w3.org/TR/xml/#charsets."""


def junit_of(health: Health) -> bytes:
    """A document, in UTF-8. What XML can't hold stands there as an escape, as ``\\x1b``."""
    suites: dict[str, list[Finding]] = {}
    for finding in health.findings:
        suites.setdefault(finding.where, []).append(finding)
    root = ElementTree.Element("testsuites", _counts("otel-kernel-trace check", health.findings))
    for name, findings in suites.items():
        skipped = str(sum(finding.status == "skipped" for finding in findings))
        suite = ElementTree.SubElement(root, "testsuite", {**_counts(name, findings), "skipped": skipped})
        for finding in findings:
            _add(suite, finding)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _counts(name: str, findings: Sequence[Finding]) -> dict[str, str]:
    return {
        "name": _held(name),
        "tests": str(len(findings)),
        "failures": str(sum(finding.is_failure for finding in findings)),
        "errors": "0",
    }


def _add(suite: ElementTree.Element, finding: Finding) -> None:
    name = f"{finding.rule} {finding.subject}".rstrip()
    case = ElementTree.SubElement(suite, "testcase", {"name": _held(name), "classname": _held(finding.where)})
    message = _held(finding.message)
    if finding.status == "skipped":
        ElementTree.SubElement(case, "skipped", {"message": message})
    elif finding.is_failure:
        failure = ElementTree.SubElement(case, "failure", {"message": message, "type": finding.status})
        place = f"{finding.file}:{finding.line}" if finding.file else ""
        failure.text = _held("\n".join(filter(None, (finding.message, place))))


def _held(text: str) -> str:
    return _NO_CHAR.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
