// Where a task's time went, and when who was at work.

const SPENT = [
  ["model", "model"],
  ["compile", "compile"],
  ["verify", "verify"],
  ["unaccounted", "unaccounted"],
  ["waiting", "waiting"],
];
const EXPLAINED = {
  model: "a model was asked",
  compile: "a stage compiled, by its name or its program's",
  verify: "a Verifier was at work, and no compiler",
  waiting: "no action was at work, and no stage",
  unaccounted: "another agent was at work, and no model call tells on what",
};

function drawTimeline(view, panel) {
  const { task } = view;
  const total = SPENT.reduce((sum, [name]) => sum + task.spent[name], 0);
  if (!total) {
    panel.append(el("p", { class: "notice", text: "No times are recorded." }));
    return null;
  }
  const share = el("div", { class: "share", "aria-hidden": "true" });
  const legend = el("ul", { class: "legend" });
  for (const [name, label] of SPENT) {
    const piece = el("i", { class: name, title: EXPLAINED[name] });
    piece.style.flexGrow = String(task.spent[name]);
    if (task.spent[name]) share.append(piece);
    const percent = (task.spent[name] / total) * 100;
    legend.append(
      el(
        "li",
        { title: EXPLAINED[name] },
        el("i", { class: name }),
        label,
        " ",
        el("b", { text: task.spent[name] ? duration(task.spent[name]) : "0" }),
        el("small", { text: task.spent[name] ? `${percent < 1 ? "<1" : Math.round(percent)} %` : "" }),
      ),
    );
  }
  panel.append(share, legend);
  return new Timeline(view, panel);
}

const LANES = [
  ["designer", "Designer"],
  ["coder", "Coder"],
  ["own", "Other"],
  ["verifier", "Verifier"],
  ["stage", "Stages"],
  ["conductor", "Conductor"],
  ["model", "Model calls"],
];

/** When who was at work, on a canvas: there may be thousands of bars. */
class Timeline {
  constructor(view, panel) {
    this.view = view;
    const bars = [];
    const add = (lane, from, isError, step, name) => {
      if (from.start !== undefined && from.end !== undefined)
        bars.push({ lane, start: from.start, end: from.end, isError, step, name });
    };
    for (const action of view.task.actions) {
      add(
        action.agent ?? "own",
        action,
        Boolean(action.error) || action.passed === false,
        action.step,
        labelOf(action),
      );
      for (const call of action.calls ?? [])
        add("model", call, Boolean(call.error), action.step, call.model || call.name);
    }
    for (const stage of view.task.stages)
      add("stage", stage, Boolean(stage.error), view.task.actions[stage.action]?.step ?? 0, stage.name);
    for (const call of view.task.calls) add("model", call, Boolean(call.error), 0, call.model || call.name);
    this.bars = bars;
    this.lanes = LANES.filter(([lane]) => bars.some((bar) => bar.lane === lane));
    this.toX = squeezed(bars);
    this.canvas = el("canvas", {
      class: "timeline",
      role: "img",
      "aria-label": `Timeline of ${count(bars.length, "action and model call")}`,
    });
    panel.append(this.canvas);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", hideTip);
    this.canvas.addEventListener("click", (event) => {
      const bar = this.at(event);
      if (bar?.step) view.goTo(bar.step);
    });
    this.draw();
  }

  draw() {
    const ratio = devicePixelRatio || 1;
    const width = Math.max(200, this.canvas.clientWidth);
    const lane = 19;
    const height = this.lanes.length * lane + 4;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    const left = 82;
    this.box = { left, width: width - left - 4, lane };
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    const [ink, line, bad, accent] = ["ink-2", "line", "fail", "accent"].map(colour);
    for (const [at, [name, label]] of this.lanes.entries()) {
      const middle = at * lane + lane / 2 + 1;
      ctx.fillStyle = ink;
      ctx.fillText(label, 0, middle);
      ctx.fillStyle = line;
      ctx.fillRect(left, middle + lane / 2 - 1, width - left, 1);
      const own = colour(name === "stage" ? "compile" : name);
      for (const bar of this.bars) {
        if (bar.lane !== name) continue;
        const [from, to] = [this.x(bar.start), this.x(bar.end)];
        ctx.fillStyle = bar.isError ? bad : own;
        ctx.fillRect(from, middle - 5, Math.max(1.5, to - from), 10);
      }
    }
    const step = this.view.step;
    if (step) {
      const own = this.bars.filter((bar) => bar.step === step.number);
      if (own.length) {
        const from = this.x(Math.min(...own.map((bar) => bar.start)));
        const to = this.x(Math.max(...own.map((bar) => bar.end)));
        ctx.strokeStyle = accent;
        ctx.lineWidth = 1.5;
        ctx.strokeRect(from - 2, 1, Math.max(5, to - from + 4), height - 3);
      }
    }
  }

  x = (time) => this.box.left + this.toX(time) * this.box.width;
  mark = () => this.draw();

  at(event) {
    const [x, y] = [event.offsetX, event.offsetY];
    const lane = this.lanes[Math.floor(y / this.box.lane)]?.[0];
    let best;
    for (const bar of this.bars) {
      if (bar.lane !== lane) continue;
      const [from, to] = [this.x(bar.start) - 2, Math.max(this.x(bar.end), this.x(bar.start) + 2) + 2];
      if (x >= from && x <= to && (!best || bar.end - bar.start < best.end - best.start)) best = bar;
    }
    return best;
  }

  hover(event) {
    const bar = this.at(event);
    this.canvas.classList.toggle("on-bar", Boolean(bar?.step));
    if (bar)
      showTip(event.clientX, event.clientY, [
        `${bar.step ? `Step ${bar.step}: ` : ""}${bar.name}`,
        `${duration(bar.end - bar.start)}${bar.isError ? ", failed" : ""}, at ${when(bar.start)}`,
      ]);
    else hideTip();
  }
}

/** Time to 0 … 1; hours in which nothing went on, as between two runs, take little of it. */
function squeezed(bars) {
  const merged = [];
  for (const { start, end } of [...bars].sort((a, b) => a.start - b.start)) {
    const last = merged[merged.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  const busy = merged.reduce((sum, [start, end]) => sum + end - start, 0) || 1;
  const knots = []; // [time, place]
  let place = 0;
  for (const [at, [start, end]] of merged.entries()) {
    if (at) place += Math.min(start - merged[at - 1][1], busy * 0.1);
    knots.push([start, place]);
    place += end - start;
    knots.push([end, place]);
  }
  return (time) => {
    let [low, high] = [0, knots.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (knots[middle][0] < time) low = middle + 1;
      else high = middle;
    }
    const [after, before] = [knots[low], knots[Math.max(0, low - 1)]];
    const part = after[0] > before[0] ? (time - before[0]) / (after[0] - before[0]) : 0;
    return (before[1] + (after[1] - before[1]) * Math.max(0, Math.min(1, part))) / (place || 1);
  };
}
