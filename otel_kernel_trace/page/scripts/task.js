// A task: its numbers and pictures, the list of its steps, and one step or all of them.

class TaskView {
  /** The view of a task, unless it is stale by then; `onGone` is called when it went to a step by itself. */
  static async open(index, isStale, onGone) {
    const row = rows.get(index);
    const task = await source.task(index, row);
    return isStale() ? null : new TaskView(index, row, task, onGone);
  }

  constructor(index, row, task, onGone) {
    this.index = index;
    this.onGone = onGone;
    this.head = el("header", { class: "task-head" });
    this.panels = el("div", { class: "panels" });
    this.list = el("ol", { class: "steps", "aria-label": "Steps", tabindex: "-1" });
    this.pane = el("article", { class: "pane", "aria-live": "off" });
    this.all = el("a", {
      class: "all",
      href: `${hashOf(row)}/all`,
      text: "all on one page",
      title: "All steps on one page, to read or to print (a)",
    });
    this.list.addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
        event.preventDefault();
        this.goTo(Number(link.dataset.step));
      }
    });
    this.take(row, task);
    $("main").replaceChildren(
      el(
        "div",
        { class: "task-view" },
        this.head,
        this.panels,
        el(
          "div",
          { class: "story" },
          el(
            "nav",
            { class: "rail", "aria-label": "Steps" },
            el("p", { class: "rail-head" }, "Steps ", this.all),
            this.list,
          ),
          this.pane,
        ),
      ),
    );
    this.draw();
    this.watch = new ResizeObserver(() => this.drawPanels());
    this.watch.observe(this.panels);
  }

  leave() {
    this.watch.disconnect();
    this.chart?.destroy();
    hideTip();
  }

  take(row, task) {
    this.row = row;
    this.task = task;
    const steps = new Map();
    for (const [at, action] of task.actions.entries()) {
      action.at = at;
      let step = steps.get(action.step);
      if (!step) steps.set(action.step, (step = { number: action.step, actions: [], judgements: [] }));
      (action.agent === "conductor" ? step.judgements : step.actions).push(action);
    }
    this.steps = [...steps.values()];
    this.stepByNumber = steps;
    // A judgement whose step was never recorded stands for itself.
    for (const step of this.steps) if (!step.actions.length) step.actions.push(step.judgements.shift());
    this.attemptOf = new Map(task.attempts.map((attempt, at) => [attempt.action, at]));
    this.stagesOf = Map.groupBy(task.stages, (stage) => stage.action);
    this.verifiedOf = new Map(
      task.attempts.filter((a) => a.verification !== undefined).map((a) => [a.verification, a]),
    );
  }

  // What stands above the steps

  draw() {
    const { row, task } = this;
    document.title = plain(`${row.op} ${row.task} · kernel trace`);
    crumbs(row);
    const models = task.models.map(([name]) => name).filter(Boolean);
    const error = row.error === undefined && row.outcome !== "failed" ? "" : errorOf(this.index, row);
    this.head.replaceChildren(
      el(
        "div",
        { class: "title" },
        el("h1", {}, el("bdi", { text: row.op })),
        el("bdi", { class: "id", text: row.task }),
        badge(row.outcome),
        row.pending ? el("span", { class: "running", text: `${row.last} is at work or was cut off` }) : null,
      ),
      el(
        "dl",
        { class: "stats" },
        stat(
          "Best speedup",
          row.speedup === undefined ? "–" : speedup(row.speedup),
          row.firstPass === undefined ? "" : `first pass in step ${row.firstPass}`,
        ),
        stat("Steps", number(row.steps), `${count(task.attempts.length, "attempt")}`),
        stat(
          "Verified",
          row.verified ? `${row.passed} / ${row.verified}` : "–",
          row.verified ? "passed" : "",
        ),
        stat(
          "Tokens",
          row.tokensIn === undefined ? "–" : short(row.tokensIn + row.tokensOut),
          row.tokensIn === undefined ? "" : `${short(row.tokensIn)} in, ${short(row.tokensOut)} out`,
        ),
        stat("Wall time", row.wall === undefined ? "–" : duration(row.wall), when(row.start)),
        models.length
          ? el(
              "div",
              { class: "models" },
              el("dt", { text: models.length > 1 ? "Models" : "Model" }),
              el(
                "dd",
                {},
                models.slice(0, 4).map((name) => el("span", { text: name, title: name })),
              ),
            )
          : null,
      ),
      ...(error
        ? [
            el(
              "p",
              { class: "first-error" },
              el("b", {
                text: `First error${row.firstFailed === undefined ? "" : `, step ${row.firstFailed}`}`,
              }),
              el("code", { text: error }),
            ),
          ]
        : []),
      ...(row.stalled
        ? [
            el("p", {
              class: "again",
              text: `Stalled: the last ${row.stalled} attempts failed with the same error.`,
            }),
          ]
        : []),
    );
    this.drawPanels(true);
    this.drawList();
  }

  drawPanels(isNew = false) {
    const width = this.panels.clientWidth;
    if (!isNew && width === this.width) return;
    this.width = width;
    this.chart?.destroy();
    this.chart = null;
    this.panels.replaceChildren();
    const speedups = el("section", { class: "panel" }, el("h2", { text: "Speedup over attempts" }));
    const times = el("section", { class: "panel" }, el("h2", { text: "Where the time went" }));
    this.panels.append(speedups, times);
    this.chart = drawSpeedups(this, speedups);
    this.timeline = drawTimeline(this, times);
  }

  drawList() {
    this.links = new Map();
    this.list.replaceChildren(
      ...this.steps.map((step) => {
        const action = step.actions[0];
        const bad = [...step.actions, ...step.judgements].some(
          (one) => one.passed === false || (one.error && one.passed !== true),
        );
        const verdict = action.passed === true ? "pass" : bad ? "fail" : action.pending ? "pending" : "";
        const note =
          action.speedup !== undefined && action.passed
            ? speedup(action.speedup)
            : action.end > action.start
              ? duration(action.end - action.start)
              : "";
        const link = el(
          "a",
          {
            href: hashOf(this.row, step.number),
            "data-step": step.number,
            class: `${action.agent ?? "own"} ${verdict}`,
          },
          el("span", { class: "no", text: step.number }),
          el(
            "span",
            { class: "type" },
            el("bdi", { text: labelOf(action) }),
            step.judgements.length
              ? el("small", {
                  text: "◆".repeat(Math.min(3, step.judgements.length)),
                  title: `judged: ${step.judgements.map(labelOf).join(", ")}`,
                })
              : null,
          ),
          el("span", { class: "note", text: note }),
        );
        this.links.set(step.number, link);
        return el("li", {}, link);
      }),
    );
    this.markList();
  }

  markList() {
    for (const [step, link] of this.links) {
      if (step === this.step?.number) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
  }

  // Steps

  show({ step, part, query, nth, isAll }) {
    this.isAll = isAll;
    this.all.toggleAttribute("aria-current", Boolean(isAll));
    if (isAll) return this.drawAll();
    const wanted = this.stepByNumber.get(step);
    if (step !== undefined && !wanted) {
      this.step = null;
      this.markList();
      this.pane.replaceChildren(
        el("p", {
          class: "notice",
          text: `There is no step ${Number.isNaN(step) ? "of that name" : step} in this task.`,
        }),
      );
      return;
    }
    const isOther = this.step !== (wanted ?? this.steps[0]) || query || this.query;
    this.step = wanted ?? (isFollowing ? this.steps[this.steps.length - 1] : this.steps[0]);
    this.query = query;
    if (isOther) this.drawStep(part, query, nth);
    else if (part) this.reveal(part);
    const link = this.step && this.links.get(this.step.number);
    this.markList();
    if (link) {
      const [box, outer] = [link.getBoundingClientRect(), this.list.parentElement.getBoundingClientRect()];
      if (box.top < outer.top || box.bottom > outer.bottom) link.scrollIntoView({ block: "center" });
    }
    this.timeline?.mark();
  }

  goTo(step, isNew = true) {
    const hash = hashOf(this.row, step);
    if (hash === location.hash) return;
    history[isNew ? "pushState" : "replaceState"](null, "", hash);
    this.onGone();
    const top = this.pane.getBoundingClientRect().top;
    if (top < 0 || top > innerHeight * 0.6) this.pane.scrollIntoView({ block: "start" });
  }

  move(by) {
    const at = this.steps.indexOf(this.step);
    const to = this.steps[Math.max(0, Math.min(this.steps.length - 1, at + by))];
    if (to && to !== this.step) this.goTo(to.number, false);
  }

  drawStep(part, query, nth) {
    const { step } = this;
    this.sections = new Map();
    if (!step) {
      this.pane.replaceChildren(el("p", { class: "notice", text: "No step is recorded yet." }));
      return;
    }
    const at = this.steps.indexOf(step);
    const nav = el(
      "div",
      { class: "step-nav" },
      button("‹", () => this.move(-1), {
        title: "Step before (k)",
        "aria-label": "Step before",
        disabled: at === 0,
      }),
      el("span", { text: `${at + 1} of ${this.steps.length}` }),
      button("›", () => this.move(1), {
        title: "Next step (j)",
        "aria-label": "Next step",
        disabled: at === this.steps.length - 1,
      }),
    );
    const nodes = [];
    for (const [index, action] of step.actions.entries())
      nodes.push(actionNode(this, step, action, index ? null : nav, "h2"));
    for (const action of step.judgements) nodes.push(actionNode(this, step, action, null, "h3"));
    const outside = this.stagesOf.get(undefined);
    if (at === this.steps.length - 1 && outside)
      nodes.push(
        el(
          "section",
          { class: "action" },
          el("h3", { text: "Stages outside of any action" }),
          stagesNode(outside),
        ),
      );
    if (at === this.steps.length - 1 && this.task.calls.length)
      nodes.push(
        el(
          "section",
          { class: "action" },
          el("h3", { text: "Model calls outside of any action" }),
          callsNode(this.task.calls),
        ),
      );
    this.pane.replaceChildren(...nodes);
    for (const [id, section] of this.sections) {
      const isWanted = id === part;
      if (section.isOpen || isWanted) section.open(isWanted ? query : "", isWanted ? nth : 0);
    }
    if (part) this.reveal(part);
  }

  /** Every step, one below the other; texts come as they are read. */
  async drawAll() {
    const isStale = staleness();
    const most = 400;
    this.step = null;
    this.markList();
    this.timeline?.mark();
    const sections = [];
    const nodes = [];
    for (const step of this.steps.slice(0, most)) {
      this.sections = new Map();
      for (const [index, action] of step.actions.entries())
        nodes.push(actionNode(this, step, action, null, index ? "h3" : "h2"));
      for (const action of step.judgements) nodes.push(actionNode(this, step, action, null, "h3"));
      sections.push(...this.sections.values());
    }
    if (this.steps.length > most)
      nodes.push(
        el("p", {
          class: "notice",
          text: `The first ${number(most)} of ${number(this.steps.length)} steps are here.`,
        }),
      );
    this.pane.replaceChildren(el("div", { class: "all-steps" }, nodes));
    this.pane.setAttribute("aria-busy", "true");
    for (const section of sections) {
      if (section.isOpen) await section.open();
      if (isStale()) return;
    }
    this.pane.removeAttribute("aria-busy");
  }

  reveal(part) {
    const section = this.sections.get(part);
    if (!section) return;
    if (!section.node.classList.contains("open")) section.open();
    section.node.classList.remove("flash");
    requestAnimationFrame(() => {
      section.node.classList.add("flash");
      if (!this.query) section.node.scrollIntoView({ block: "start" });
    });
  }

  /** The attempts before one that have code, the last first. */
  before(at) {
    return this.task.attempts
      .slice(0, at)
      .filter((attempt) => attempt.code)
      .reverse();
  }

  async codeOf(attempt) {
    const [action, name] = attempt.code;
    const part = this.task.actions[action].parts.find((one) => one.name === name);
    return splitCode((await source.text(part)).text).code;
  }

  // Following

  async changed() {
    const isStale = staleness();
    const row = rows.get(this.index);
    let task;
    try {
      task = await source.task(this.index, row);
    } catch {
      return;
    }
    if (isStale() || view !== this) return;
    const before = JSON.stringify(this.step && [this.step.actions, this.step.judgements]);
    const wasLast = this.step === this.steps[this.steps.length - 1];
    const scrolled = this.list.parentElement.scrollTop;
    this.take(row, task);
    this.draw();
    this.list.parentElement.scrollTop = scrolled;
    if (this.isAll) return;
    const current = parsedHash();
    if (isFollowing && wasLast && this.steps.length) {
      const last = this.steps[this.steps.length - 1];
      if (last.number !== this.step?.number) return this.goTo(last.number, false);
    }
    const same = this.stepByNumber.get(this.step?.number);
    if (same && JSON.stringify([same.actions, same.judgements]) === before) {
      this.step = same;
      this.markList();
      this.timeline?.mark();
    } else {
      this.step = null;
      this.show({ ...current, step: same?.number ?? current.step, part: undefined, query: "" });
    }
  }

  themed() {
    this.drawPanels(true);
  }
}
