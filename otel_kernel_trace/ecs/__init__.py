"""A tree as JSON lines in the Elastic Common Schema, for Elasticsearch and what reads its documents.

https://www.elastic.co/guide/en/ecs/current/index.html . ``docs/ecs.md`` says how to take them in.
"""

from otel_kernel_trace.ecs.fields import ECS_VERSION, FIELDS, index_template
from otel_kernel_trace.ecs.writing import EcsLines, write_ecs

__all__ = ["ECS_VERSION", "FIELDS", "EcsLines", "index_template", "write_ecs"]
