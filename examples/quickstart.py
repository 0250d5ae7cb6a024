"""The shortest way in: a program that has texts, and wants them kept.

    python examples/quickstart.py

Needs no OpenTelemetry set-up. Replace the texts with those of your own agents.
"""

from __future__ import annotations

import json

from otel_kernel_trace import ActionType, Trace

designer_response = json.dumps({"code": "out[i] = x[i] / (1 + exp(-x[i]))", "description": "One pass."})
coder_response = (
    "```json\n" + json.dumps({"code": "@triton.jit\ndef swish(): ...", "description": ""}) + "\n```"
)

trace = Trace(op_name="swish", task_id="123", log_dir="./kernel_trace_logs")

trace.insert_designer_or_coder_record(
    res=designer_response,
    prompt="Sketch a kernel for swish.",
    reasoning="Elementwise, so one pass is enough.",
    action_type=ActionType.DO_DESIGNER,
)
trace.insert_conductor_record(
    res='{"result": 0}', prompt="Is the sketch right?", reasoning="", action_type=ActionType.DO_DESIGNER
)
trace.insert_designer_or_coder_record(
    res=coder_response,
    prompt="Write it in Triton.",
    reasoning="",
    action_type=ActionType.DO_CODER,
)
trace.insert_verifier_record(
    verify_res="False",
    verify_log="AssertionError: Tensor-likes are not close!\n",
    profile="",
    framework="torch",
    impl_type="triton",
    reference="def swish(x): return x * x.sigmoid()\n",
    implementation="@triton.jit\ndef swish(): ...\n",
)

for record in trace.trace_list:
    print(record.action_type.name, "->", (record.error_log or record.result).splitlines()[0])
print("Written below ./kernel_trace_logs/swish")
