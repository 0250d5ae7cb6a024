"""The fields that documents have, and the one type of each.

A document has no field but these: what programs, models and strangers name is a value, never a key,
so that no two documents can want another mapping of one field.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

ECS_VERSION: Final = "8.17.0"

FieldType = Literal[
    "boolean",
    "date",
    "double",
    "flattened",
    "integer",
    "keyword",
    "long",
    "match_only_text",
    "nested",
    "wildcard",
]
"""https://www.elastic.co/guide/en/elasticsearch/reference/current/mapping-types.html"""

_ECS: Final[Mapping[str, FieldType]] = MappingProxyType(
    {
        "@timestamp": "date",
        "ecs.version": "keyword",
        "error.message": "match_only_text",
        "error.stack_trace": "wildcard",
        "error.type": "keyword",
        "event.action": "keyword",
        "event.category": "keyword",
        "event.dataset": "keyword",
        "event.duration": "long",
        "event.end": "date",
        "event.id": "keyword",
        "event.kind": "keyword",
        "event.module": "keyword",
        "event.outcome": "keyword",
        "event.start": "date",
        "event.type": "keyword",
        "gen_ai.agent.name": "keyword",
        "gen_ai.operation.name": "keyword",
        "gen_ai.response.model": "keyword",
        "gen_ai.usage.input_tokens": "integer",
        "gen_ai.usage.output_tokens": "integer",
        "labels.op_name": "keyword",
        "labels.task_id": "keyword",
        "log.level": "keyword",
        "log.origin.file.line": "long",
        "log.origin.file.name": "keyword",
        "log.origin.function": "keyword",
        "message": "match_only_text",
        "process.args": "keyword",
        "process.args_count": "long",
        "process.command_line": "wildcard",
        "process.exit_code": "long",
        "service.name": "keyword",
        "span.id": "keyword",
        "trace.id": "keyword",
    }
)
"""https://github.com/elastic/ecs/tree/main/schemas"""

_APM: Final[Mapping[str, FieldType]] = MappingProxyType({"parent.id": "keyword"})
"""Elastic APM's name beside those of ECS, which has none for a span's parent.
https://www.elastic.co/guide/en/observability/current/apm-data-model-spans.html"""

_OWN: Final[Mapping[str, FieldType]] = MappingProxyType(
    {
        "kernel_trace.op_name": "keyword",
        "kernel_trace.task_id": "keyword",
        "kernel_trace.step": "long",
        "kernel_trace.action_type": "keyword",
        "kernel_trace.agent": "keyword",
        "kernel_trace.copy": "long",
        "kernel_trace.pending": "boolean",
        "kernel_trace.passed": "boolean",
        "kernel_trace.framework": "keyword",
        "kernel_trace.impl_type": "keyword",
        "kernel_trace.judges": "keyword",
        "kernel_trace.incomplete": "match_only_text",
        "kernel_trace.time_is_of_file": "boolean",
        "kernel_trace.speedup": "double",
        "kernel_trace.measurement.base_time": "double",
        "kernel_trace.measurement.generated_time": "double",
        "kernel_trace.measurement.unit_is_assumed": "boolean",
        "kernel_trace.measurement.method": "keyword",
        "kernel_trace.measurement.contradiction": "match_only_text",
        "kernel_trace.part": "nested",
        "kernel_trace.part.name": "keyword",
        "kernel_trace.part.path": "keyword",
        "kernel_trace.part.sha256": "keyword",
        "kernel_trace.part.size": "long",
        "kernel_trace.part.excerpt": "match_only_text",
        "kernel_trace.resources": "nested",
        "kernel_trace.resources.entry": "keyword",
        "kernel_trace.resources.arch": "keyword",
        "kernel_trace.resources.registers": "long",
        "kernel_trace.resources.spill_stores": "long",
        "kernel_trace.resources.spill_loads": "long",
        "kernel_trace.resources.stack_frame": "long",
        "kernel_trace.resources.shared_memory": "long",
        "kernel_trace.resources.constant_memory": "long",
        "kernel_trace.resources.barriers": "long",
        "kernel_trace.resources.compile_time": "double",
        "kernel_trace.suspicion": "nested",
        "kernel_trace.suspicion.kind": "keyword",
        "kernel_trace.suspicion.reason": "match_only_text",
        "kernel_trace.suspicion.line": "long",
        "kernel_trace.suspicion.evidence": "match_only_text",
        "kernel_trace.suspicion.confidence": "keyword",
        "kernel_trace.stage.name": "keyword",
        "kernel_trace.stage.cpu_time": "double",
        "kernel_trace.stage.children_cpu_time": "double",
        "kernel_trace.stage.peak_memory": "long",
        "kernel_trace.stage.input_size": "long",
        "kernel_trace.stage.output_size": "long",
        "kernel_trace.stage.signal": "keyword",
        "kernel_trace.stage.macros": "keyword",
        "kernel_trace.diagnostic.tool": "keyword",
        "kernel_trace.diagnostic.severity": "keyword",
        "kernel_trace.diagnostic.category": "keyword",
        "kernel_trace.diagnostic.identifier": "keyword",
        "kernel_trace.diagnostic.signature": "keyword",
        "kernel_trace.diagnostic.code": "keyword",
        "kernel_trace.diagnostic.column": "long",
        "kernel_trace.diagnostic.log_line": "long",
        "kernel_trace.diagnostic.notes": "match_only_text",
        "kernel_trace.diagnostic.figures": "flattened",
        "kernel_trace.builder.severity": "keyword",
        "kernel_trace.builder.kind": "keyword",
        "kernel_trace.builder.facts": "flattened",
        "kernel_trace.builder.totals": "flattened",
    }
)

FIELDS: Final[Mapping[str, FieldType]] = MappingProxyType({**_ECS, **_APM, **_OWN})
"""Type by name. A ``nested`` field is a list of objects, a ``flattened`` one has texts by name."""


def index_template() -> dict[str, object]:
    """An index template for a data stream of these documents, to be given to ``PUT _index_template/…``."""
    properties: dict[str, object] = {}
    for name, kind in FIELDS.items():
        *parents, last = name.split(".")
        here = properties
        for parent in parents:
            inner = here.setdefault(parent, {"properties": {}})
            assert isinstance(inner, dict)
            here = inner.setdefault("properties", {})
        known = here.setdefault(last, {})
        assert isinstance(known, dict)
        known["type"] = kind
    return {
        "index_patterns": ["logs-kernel_trace.*-*"],
        "data_stream": {},
        "priority": 200,
        "template": {"mappings": {"dynamic": False, "properties": properties}},
    }
