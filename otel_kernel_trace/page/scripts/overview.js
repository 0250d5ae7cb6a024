// All tasks: a table of which only the rows that can be seen are in the document.

const collator = new Intl.Collator("en", { numeric: true });
const OUTCOMES = ["passed", "failed", "unfinished", "unverified", "unknown"];
const ROW_HEIGHT = 34;
const PRINTED_ROWS = 1000; // some 25 sheets of paper, and seconds of work for a browser
const COLUMNS = [
  {
    name: "Op",
    class: "op",
    key: (row) => row.op,
    cell: (row) => el("bdi", { text: row.op, title: row.op }),
  },
  {
    name: "Task",
    class: "task",
    key: (row) => row.task,
    cell: (row) => el("bdi", { text: row.task, title: row.task }),
  },
  {
    name: "Outcome",
    class: "outcome",
    key: (row) => -OUTCOMES.indexOf(row.outcome),
    cell: (row) =>
      row.stalled
        ? el(
            "span",
            { title: `The last ${row.stalled} attempts failed with the same error` },
            badge(row.outcome),
            el("small", { class: "stalled", text: "stalled" }),
          )
        : badge(row.outcome),
  },
  { name: "Steps", class: "num", key: (row) => row.steps, cell: (row) => number(row.steps) },
  {
    name: "First pass",
    class: "num",
    key: (row) => row.firstPass,
    cell: (row) => (row.firstPass === undefined ? "" : `step ${row.firstPass}`),
  },
  { name: "Best speedup", class: "num best", key: (row) => row.speedup, cell: speedupCell },
  {
    name: "Tokens",
    class: "num",
    key: (row) => (row.tokensIn ?? 0) + (row.tokensOut ?? 0) || undefined,
    cell: (row) => (row.tokensIn === undefined ? "" : short(row.tokensIn + row.tokensOut)),
  },
  { name: "Wall time", class: "num", key: (row) => row.wall, cell: (row) => duration(row.wall) },
  { name: "Started", class: "num started", key: (row) => row.start, cell: (row) => when(row.start, dated) },
  {
    name: "First error",
    class: "error",
    key: (row, index) => errorOf(index, row),
    cell: (row, index) => el("span", { text: errorOf(index, row), title: errorOf(index, row) }),
  },
];

function speedupCell(row) {
  if (row.speedup === undefined) return "";
  const bar = el("i", { class: "bar" });
  // A logarithmic bar: as fast as the reference is in the middle, 64 times as fast fills it.
  bar.style.width = `${Math.max(2, Math.min(100, 50 + (Math.log2(Math.max(row.speedup, 1e-9)) / 6) * 50))}%`;
  bar.classList.toggle("slow", row.speedup < 1);
  return el("span", { class: "with-bar" }, el("b", { text: speedup(row.speedup) }), bar);
}

class Overview {
  static sorted = { column: 0, isUp: true };
  static filter = "";
  static outcomes = new Set();
  static selected = -1; // number of a task
  static top = 0;

  constructor() {
    document.title = plain(`${config.title} · kernel trace`);
    this.drawn = new Map();
    this.head = el("div", { class: "overview-head" });
    this.filter = el("input", {
      type: "search",
      placeholder: "Filter by op, task or error",
      "aria-label": "Filter tasks",
      value: Overview.filter,
      spellcheck: "false",
      autocomplete: "off",
      id: "filter",
    });
    this.filter.addEventListener("input", () => {
      Overview.filter = this.filter.value;
      this.update();
    });
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "Outcomes" });
    this.columns = el("div", { class: "columns", role: "row" });
    this.space = el("div", { class: "space", role: "presentation" });
    this.grid = el(
      "div",
      { class: "grid", role: "grid", tabindex: "0", "aria-label": "Tasks" },
      this.columns,
      this.space,
    );
    this.grid.addEventListener("scroll", () => this.draw(), { passive: true });
    this.space.addEventListener("mousedown", (event) => {
      const row = event.target.closest(".row");
      if (row) this.select(Number(row.dataset.index), false);
    });
    const node = el(
      "section",
      { class: "overview" },
      this.head,
      el("div", { class: "bar-line" }, this.filter, this.chips),
      this.grid,
    );
    $("main").replaceChildren(node);
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.grid);
    this.update();
    this.grid.scrollTop = Overview.top;
    this.draw();
  }

  leave() {
    this.watch.disconnect();
    Overview.top = this.grid.scrollTop;
  }

  update() {
    crumbs();
    this.updateHead();
    const words = Overview.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const { column, isUp } = Overview.sorted;
    const key = COLUMNS[column].key;
    this.shown = [...rows]
      .filter(([index, row]) => !Overview.outcomes.size || Overview.outcomes.has(row.outcome))
      .filter(([index, row]) => {
        if (!words.length) return true;
        const text = `${row.op} ${row.task} ${errorOf(index, row)}`.toLowerCase();
        return words.every((word) => text.includes(word));
      })
      .map(([index, row]) => [key(row, index), index, row])
      .sort(([a, , one], [b, , other]) => {
        const isLast = (a === undefined || a === "") - (b === undefined || b === "");
        const order = isLast || (typeof a === "string" ? collator.compare(a, b) : a - b) * (isUp ? 1 : -1);
        return order || collator.compare(one.op, other.op) || collator.compare(one.task, other.task);
      })
      .map(([, index]) => index);
    this.columns.replaceChildren(
      ...COLUMNS.map((of, at) => {
        const order = at === column ? (isUp ? "ascending" : "descending") : "none";
        return el(
          "button",
          {
            type: "button",
            class: of.class,
            role: "columnheader",
            "aria-sort": order,
            on: () => this.sort(at),
          },
          of.name,
        );
      }),
    );
    this.space.style.height = `${Math.max(1, this.shown.length) * ROW_HEIGHT}px`;
    this.grid.style.height = `${(Math.max(1, this.shown.length) + 1) * ROW_HEIGHT + 4}px`; // at most: it shrinks
    this.drawn.clear();
    this.space.replaceChildren();
    if (!this.shown.length)
      this.space.append(
        el("p", { class: "notice", text: rows.size ? "No task is like that." : "There is no task yet." }),
      );
    this.draw();
  }

  updateHead() {
    const all = [...rows.values()];
    const of = (outcome) => all.filter((row) => row.outcome === outcome).length;
    const passed = of("passed");
    const judged = passed + of("failed");
    const best = all
      .map((row) => row.speedup)
      .filter((value) => value !== undefined)
      .sort((a, b) => a - b);
    const sum = (name) => all.reduce((total, row) => total + (row[name] ?? 0), 0);
    const tokens = sum("tokensIn") + sum("tokensOut");
    const ops = new Set(all.map((row) => row.op)).size;
    const share = el("div", {
      class: "share",
      role: "img",
      "aria-label": OUTCOMES.map((o) => `${of(o)} ${o}`).join(", "),
    });
    for (const outcome of OUTCOMES) {
      const piece = el("i", { class: outcome });
      piece.style.flexGrow = String(of(outcome));
      if (of(outcome)) share.append(piece);
    }
    this.head.replaceChildren(
      el("div", { class: "title" }, el("h1", {}, el("bdi", { text: config.title })), share),
      el(
        "dl",
        { class: "stats" },
        stat("Tasks", number(all.length), count(ops, "op")),
        stat(
          "Passed",
          judged ? `${Math.round((passed / judged) * 100)} %` : "–",
          judged ? `${number(passed)} of ${number(judged)} judged` : "",
        ),
        stat(
          "Median best speedup",
          best.length ? speedup(best[Math.floor((best.length - 1) / 2)]) : "–",
          best.length ? `up to ${speedup(best[best.length - 1])}` : "",
        ),
        stat("Tokens", tokens ? short(tokens) : "–", tokens ? `${short(sum("tokensOut"))} written` : ""),
        stat("Time of all", sum("wall") ? duration(sum("wall")) : "–", count(sum("steps"), "step")),
      ),
    );
    this.chips.replaceChildren(
      ...OUTCOMES.filter(of).map((outcome) =>
        el(
          "button",
          {
            type: "button",
            class: `chip ${outcome}`,
            "aria-pressed": String(Overview.outcomes.has(outcome)),
            on: () => {
              if (!Overview.outcomes.delete(outcome)) Overview.outcomes.add(outcome);
              this.update();
            },
          },
          outcome,
          el("span", { text: number(of(outcome)) }),
        ),
      ),
    );
  }

  sort(column) {
    const { sorted } = Overview;
    Overview.sorted = { column, isUp: sorted.column === column ? !sorted.isUp : column < 3 || column > 7 };
    this.update();
  }

  /** Draw the rows that can be seen, and some around them; all of them for a printer. */
  draw(isAll = false) {
    const from = isAll ? 0 : Math.max(0, Math.floor(this.grid.scrollTop / ROW_HEIGHT) - 8);
    const height = this.grid.clientHeight || innerHeight;
    const to = isAll
      ? Math.min(this.shown.length, PRINTED_ROWS)
      : Math.min(this.shown.length, from + Math.ceil(height / ROW_HEIGHT) + 18);
    for (const [at, node] of this.drawn) {
      if (at < from || at >= to) {
        node.remove();
        this.drawn.delete(at);
      }
    }
    const unknown = [];
    for (let at = from; at < to; at++) {
      if (this.drawn.has(at)) continue;
      const index = this.shown[at];
      const row = rows.get(index);
      if (isServed && row.firstFailed !== undefined && errors.get(index)?.[0] !== row) unknown.push(index);
      const node = el(
        "a",
        {
          class: "row",
          role: "row",
          href: hashOf(row),
          "data-index": index,
          "aria-rowindex": at + 1,
          draggable: "false",
          tabindex: "-1",
        },
        COLUMNS.map((column) =>
          el("span", { class: column.class, role: "gridcell" }, column.cell(row, index)),
        ),
      );
      node.style.top = `${at * ROW_HEIGHT}px`;
      node.classList.toggle("selected", index === Overview.selected);
      this.drawn.set(at, node);
      this.space.append(node);
    }
    this.space.querySelector(".unprinted")?.remove();
    if (isAll && to < this.shown.length)
      this.space.append(
        el("p", { class: "notice unprinted", text: `and ${count(this.shown.length - to, "task")} more` }),
      );
    if (unknown.length) this.askErrors(unknown.slice(0, 100));
  }

  async askErrors(indexes) {
    const asked = indexes.map((index) => [index, rows.get(index)]);
    for (const [index, row] of asked) errors.set(index, [row, `step ${row.firstFailed} failed`]);
    let said;
    try {
      said = await source.errors(indexes);
    } catch {
      return;
    }
    for (const [index, row] of asked) errors.set(index, [row, said[index] ?? ""]);
    for (const [at, node] of this.drawn) {
      const index = this.shown[at];
      if (said[index])
        node
          .querySelector(".error")
          .replaceChildren(COLUMNS[COLUMNS.length - 1].cell(rows.get(index), index));
    }
  }

  select(index, isSeen = true) {
    Overview.selected = index;
    const at = this.shown.indexOf(index);
    if (isSeen && at >= 0) {
      const top = at * ROW_HEIGHT;
      const head = this.columns.offsetHeight;
      const height = this.grid.clientHeight - head;
      if (top < this.grid.scrollTop) this.grid.scrollTop = top;
      else if (top + ROW_HEIGHT > this.grid.scrollTop + height)
        this.grid.scrollTop = top + ROW_HEIGHT - height;
      this.draw();
    }
    for (const node of this.drawn.values())
      node.classList.toggle("selected", Number(node.dataset.index) === index);
  }

  move(by) {
    const at = this.shown.indexOf(Overview.selected);
    const to = Math.max(0, Math.min(this.shown.length - 1, at + by)); // from before the first, if none is
    if (this.shown.length) this.select(this.shown[to]);
  }

  open() {
    const row = rows.get(Overview.selected);
    if (row) location.hash = hashOf(row);
  }

  changed() {
    this.update();
  }

  themed() {}
}
