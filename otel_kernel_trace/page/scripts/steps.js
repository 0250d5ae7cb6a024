// What a step's page has: its actions, their verdicts and their model calls.

const AGENTS = { designer: "Designer", coder: "Coder", verifier: "Verifier", conductor: "Conductor" };

function verdictNode(action) {
  const isGood = action.passed === true;
  const word = isGood ? "Passed" : action.passed === false ? "Failed" : "Error";
  return el(
    "p",
    { class: `verdict ${isGood ? "pass" : "fail"}` },
    svg(isGood ? "M3 8.5l3.2 3.2L13 5" : "M4 4l8 8M12 4l-8 8"),
    el("b", { text: word }),
    isGood && action.speedup !== undefined
      ? el("span", { class: "speedup", text: `${speedup(action.speedup)} as fast as the reference` })
      : null,
    action.error && action.error !== "verification failed"
      ? el("span", { class: "why", text: action.error })
      : null,
  );
}

const callsNode = (calls) =>
  el(
    "ul",
    { class: "calls" },
    calls.slice(0, 200).map((call) =>
      el(
        "li",
        { class: call.error ? "fail" : "" },
        el("span", { class: "what", text: "model call" }),
        el("bdi", { text: call.model || call.name, title: call.name }),
        call.start !== undefined && call.end !== undefined
          ? el("span", {
              text: duration(call.end - call.start),
              title: `${when(call.start)} – ${when(call.end)}`,
            })
          : null,
        call.tokensIn !== undefined
          ? el("span", { text: `${short(call.tokensIn)} → ${short(call.tokensOut)} tokens` })
          : null,
        call.error ? el("span", { class: "why", text: call.error }) : null,
      ),
    ),
    calls.length > 200 ? el("li", { text: `and ${calls.length - 200} more` }) : null,
  );

function verdictLink(view, attempt) {
  const to = view.task.actions[attempt.verification];
  const text =
    attempt.passed === true
      ? `passed${attempt.speedup === undefined ? "" : `, ${speedup(attempt.speedup)}`}`
      : attempt.passed === false
        ? "failed"
        : "no verdict";
  return el(
    "p",
    { class: "turn" },
    "Verified in ",
    el("a", { href: hashOf(view.row, to.step), text: `step ${to.step}` }),
    ": ",
    el("b", { class: attempt.passed ? "pass" : attempt.passed === false ? "fail" : "", text }),
  );
}

function attemptLink(view, attempt) {
  return el(
    "p",
    { class: "turn" },
    "What ",
    el("a", { href: hashOf(view.row, attempt.step, "result"), text: `step ${attempt.step}` }),
    " wrote",
  );
}

/** A step's action with its texts, which become sections of the task's view. */
function actionNode(view, step, action, nav, level) {
  const facts = el("p", { class: "facts" });
  const fact = (text, title) => text && facts.append(el("span", { text, title }));
  if (action.model) fact(action.model, "Model");
  if (action.end > action.start)
    fact(duration(action.end - action.start), `${when(action.start)} – ${when(action.end)}`);
  else if (action.start !== undefined) fact(when(action.start), "Begin");
  if (action.tokensIn !== undefined)
    fact(`${short(action.tokensIn)} → ${short(action.tokensOut)} tokens`, "Tokens read and written");
  const impl = [action.framework, action.impl].filter(Boolean).join(" → ");
  if (impl) fact(impl, "Reference and kernel are written in");
  const attempt = view.task.attempts[view.attemptOf.get(action.at)];
  const children = [];
  if (attempt?.verification !== undefined) children.push(verdictLink(view, attempt));
  if (view.verifiedOf.has(action.at)) children.push(attemptLink(view, view.verifiedOf.get(action.at)));
  if (action.passed !== undefined || action.error) children.push(verdictNode(action));
  if (action.diagnostics) children.push(diagnosticsNode(action.diagnostics));
  if (action.again) children.push(againNode(view, action.again));
  if (action.measured) children.push(measuredNode(action.measured));
  if (action.suspicions) children.push(suspicionsNode(action.suspicions));
  if (action.pending)
    children.push(
      el("p", {
        class: "notice",
        text: "It has begun and not ended: it is at work, or its process died.",
      }),
    );
  if (action.incomplete)
    children.push(el("p", { class: "notice", text: `Incomplete: ${action.incomplete}` }));
  if (action.profile)
    children.push(
      el(
        "dl",
        { class: "profile" },
        action.profile.map(([name, value]) =>
          el("div", {}, el("dt", { text: name }), el("dd", { text: value })),
        ),
      ),
    );
  if (action.kernels) children.push(kernelsNode(action.kernels));
  const stages = view.stagesOf.get(action.at);
  if (stages) children.push(stagesNode(stages));
  if (action.calls) children.push(callsNode(action.calls));
  for (const part of [...action.parts].sort((a, b) => orderOf(a.name) - orderOf(b.name))) {
    const id = partId(step, action, part.name);
    const section = new Section(view, action, part, id);
    view.sections.set(id, section);
    children.push(section.node);
  }
  if (!action.parts.length && !action.pending)
    children.push(el("p", { class: "notice", text: "It left no texts." }));
  const isJudgement = action.agent === "conductor" && step.actions[0] !== action;
  return el(
    "section",
    { class: `action ${action.agent ?? "own"}${isJudgement ? " judgement" : ""}` },
    el(
      "header",
      {},
      el(
        "div",
        { class: "title" },
        isJudgement ? null : el("span", { class: "no", text: `Step ${action.step}` }),
        el(level, {}, el("bdi", { text: labelOf(action) })),
        action.agent ? el("span", { class: "agent", text: AGENTS[action.agent] }) : null,
        facts,
      ),
      nav,
    ),
    children,
  );
}
