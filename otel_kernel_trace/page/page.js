// The page of a tree of kernel traces. It is in one file with its data (a report), or asks a server
// (serve) for them; the values are those of shown.py.
//
// Everything in a trace is somebody else's text. It gets into the document as text nodes alone:
// there is no innerHTML here, and the page's policy (Trusted Types) lets nobody use it.

(() => {
  "use strict";

  // ── Small things ────────────────────────────────────────────────────────────────────────────────

  const $ = (id) => document.getElementById(id);

  /** An element: class, text, title and data as options, `on` for its click, the rest are attributes. */
  function el(tag, options = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (value === undefined || value === null || value === false) continue;
      if (name === "class") node.className = value;
      else if (name === "text") appendText(node, String(value));
      else if (name === "on") node.addEventListener("click", value);
      else if (name === "title") node.title = plain(String(value));
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined && child !== false) node.append(child);
    }
    return node;
  }

  const button = (text, on, options = {}) => el("button", { type: "button", on, text, ...options });
  const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

  function svg(...paths) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    node.setAttribute("viewBox", "0 0 16 16");
    node.setAttribute("aria-hidden", "true");
    for (const d of paths) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", d);
      node.append(path);
    }
    return node;
  }

  // ── Text that is somebody else's ────────────────────────────────────────────────────────────────

  // Colours of terminals; other control sequences; what changes the direction of text, is invisible
  // or is no character at all.
  const STRANGE = new RegExp(
    "\\x1b\\[([0-9;]*)m|\\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\x07\\x1b]{0,200}(?:\\x07|\\x1b\\\\)|[@-Z\\\\^_])?|" +
      "\\r(?!\\n)|[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e" +
      "\\u2060-\\u2069\\ufeff\\u{e0000}-\\u{e007f}]",
    "gu",
  );

  const MOST_MARKS = 2000; // in a text; what is behind them is shown as no character at all

  /** Append text; characters that would deceive are shown as what they are. */
  function appendText(parent, text) {
    STRANGE.lastIndex = 0;
    if (!STRANGE.test(text)) {
      parent.append(text);
      return;
    }
    let at = 0;
    let style = "";
    const put = (piece) => {
      if (!piece) return;
      if (!style) return parent.append(piece);
      const span = document.createElement("span");
      span.className = style;
      span.append(piece);
      parent.append(span);
    };
    STRANGE.lastIndex = 0;
    let pieces = 0;
    for (let found; (found = STRANGE.exec(text));) {
      if (++pieces > MOST_MARKS) {
        style = "";
        return put(plain(text.slice(at)));
      }
      put(text.slice(at, found.index));
      at = found.index + found[0].length;
      if (found[1] !== undefined) style = styleAfter(style, found[1]);
      else {
        const mark = document.createElement("span");
        mark.className = "mark";
        mark.append(nameOf(found[0]));
        parent.append(mark);
      }
    }
    put(text.slice(at));
  }

  /** The classes that a terminal's colour codes amount to. */
  function styleAfter(style, codes) {
    let names = style ? style.split(" ") : [];
    const numbers = codes.split(";").map(Number);
    for (let index = 0; index < numbers.length; index++) {
      const code = numbers[index];
      if (code === 0) names = [];
      else if (code === 1) names.push("ansi-bold");
      else if (code === 22) names = names.filter((name) => name !== "ansi-bold");
      else if (code === 38 || code === 48) index += numbers[index + 1] === 5 ? 2 : 4;
      else if ((code >= 30 && code <= 39) || (code >= 90 && code <= 97)) {
        names = names.filter((name) => name === "ansi-bold");
        if (code !== 39) names.push(`ansi-${code % 10}`);
      }
    }
    return [...new Set(names)].join(" ");
  }

  function nameOf(strange) {
    if (strange.startsWith("\x1b")) return `ESC${strange.slice(1, 12).replace(/[\x00-\x1f]/g, "·")}`;
    return `U+${strange.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  }

  /** Text for places that show nothing but text, such as titles. */
  function plain(text) {
    STRANGE.lastIndex = 0;
    return text.replace(STRANGE, "\ufffd").replace(/\ufffd{3,}/g, "\ufffd…");
  }

  // ── Numbers ─────────────────────────────────────────────────────────────────────────────────────

  const grouped = new Intl.NumberFormat("en");
  const number = (value) => grouped.format(value);
  const count = (value, what) => `${number(value)} ${what}${value === 1 ? "" : "s"}`;

  function short(value) {
    if (value < 10_000) return number(value);
    const [divisor, unit] = value < 1e6 ? [1e3, "k"] : value < 1e9 ? [1e6, "M"] : [1e9, "G"];
    return `${(value / divisor).toFixed(value / divisor < 100 ? 1 : 0)} ${unit}`;
  }

  function duration(ms) {
    if (ms === undefined || ms === null) return "";
    if (ms < 0.0005) return "0";
    if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
    if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    const s = ms / 1000;
    if (s < 60) return `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
    return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  }

  function size(bytes) {
    if (bytes === undefined) return "";
    if (bytes < 1000) return `${bytes} B`;
    return bytes < 1e6
      ? `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} kB`
      : `${(bytes / 1e6).toFixed(1)} MB`;
  }

  const speedup = (value) =>
    value === undefined
      ? ""
      : `${value >= 100 ? number(Math.round(value)) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`;

  const clock = new Intl.DateTimeFormat(undefined, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  const dated = new Intl.DateTimeFormat(undefined, {
    month: "short",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  });
  const when = (ms, format = clock) => (ms === undefined ? "" : format.format(new Date(ms)));

  // ── Where data come from ────────────────────────────────────────────────────────────────────────

  const config = JSON.parse($("config").textContent);
  const isServed = config.mode === "serve";
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const isRead = new Promise((done) => {
    if (document.readyState !== "loading") done();
    else document.addEventListener("DOMContentLoaded", done, { once: true });
  });

  /** All of it is in this document, in blocks. */
  class Report {
    blocks = new Map(); // number → promise of its bytes, those used last at the end

    async block(index) {
      let bytes = this.blocks.get(index);
      this.blocks.delete(index);
      this.blocks.set(index, (bytes ??= this.inflate(index)));
      while (this.blocks.size > 16) this.blocks.delete(this.blocks.keys().next().value);
      return bytes;
    }

    async inflate(index) {
      const id = `b${index}`;
      // The last block may still be arriving: it is whole when there is something behind it.
      if (!$(id)?.nextElementSibling) await isRead;
      const packed = $(id).textContent;
      let bytes;
      if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(packed);
      else {
        const binary = atob(packed);
        bytes = new Uint8Array(binary.length);
        for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
      }
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      return new Uint8Array(await new Response(stream).arrayBuffer());
    }

    async read([block, offset, length]) {
      if (!length) return "";
      return decoder.decode((await this.block(block)).subarray(offset, offset + length));
    }

    async overview() {
      const rows = JSON.parse(await this.read(config.overview));
      return rows.map((row, index) => [index, row]);
    }

    async task(index, row) {
      return JSON.parse(await this.read(row.ref));
    }

    async text(part) {
      if (part.gone) throw new Error(part.gone);
      return { text: await this.read(part.ref), isCut: Boolean(part.cut) };
    }

    async errors() {
      return {};
    }

    /** What is found in a task; `isOver` says whether it still matters. */
    async search(index, row, query, isOver) {
      const task = await this.task(index, row);
      const needle = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
      const found = { hits: [], more: false, texts: 0 };
      let rested = performance.now();
      for (const [action, { parts }] of task.actions.entries()) {
        for (const part of parts) {
          if (!part.ref) continue;
          if (performance.now() - rested > 20) {
            await later(0);
            if (isOver()) return found;
            rested = performance.now();
          }
          const text = await this.read(part.ref);
          found.texts++;
          needle.lastIndex = 0;
          for (let nth = 0, match; nth < 5 && (match = needle.exec(text)); nth++) {
            if (found.hits.length >= 200) return { ...found, more: true };
            found.hits.push({
              action,
              part: part.name,
              nth,
              before: text.slice(Math.max(0, match.index - 80), match.index),
              found: match[0],
              after: text.slice(match.index + match[0].length, match.index + match[0].length + 80),
            });
            if (!match[0]) break;
          }
        }
      }
      return found;
    }
  }

  /** A server has it, of a tree that may be being written to. */
  class Server {
    run = "";
    revision = 0;

    async get(path) {
      const answer = await fetch(path, { cache: "no-store", credentials: "omit" });
      if (!answer.ok)
        throw new Error(answer.status === 404 ? await answer.text() : `the server says ${answer.status}`);
      return answer;
    }

    async overview() {
      const said = await (await this.get(`api/overview?run=${this.run}&since=${this.revision}`)).json();
      if (this.run && said.run !== this.run) location.reload(); // another server, with other numbers
      this.run = said.run;
      this.revision = said.revision;
      return Object.entries(said.rows).map(([index, row]) => [Number(index), row]);
    }

    task = async (index) => (await this.get(`api/task/${index}`)).json();

    async text(part) {
      const answer = await this.get(`api/text/${part.ref}`);
      return { text: decoder.decode(await answer.arrayBuffer()), isCut: answer.headers.has("X-Cut") };
    }

    errors = async (indexes) => (await this.get(`api/errors?tasks=${indexes.join(",")}`)).json();

    search = async (index, row, query) =>
      (await this.get(`api/search/${index}?q=${encodeURIComponent(wellFormed(query))}`)).json();
  }

  const source = isServed ? new Server() : new Report();

  // ── Where one is: #/op/task/step/part?q=…&n=… ──────────────────────────────────────────────────

  const wellFormed = (text) =>
    text.toWellFormed ? text.toWellFormed() : text.replace(/\p{Surrogate}/gu, "\ufffd");
  const enc = (text) => encodeURIComponent(wellFormed(String(text)));

  function hashOf(row, step, part, query, nth) {
    let hash = `#/${enc(row.op)}/${enc(row.task)}`;
    if (step !== undefined && step !== null) hash += `/${step}`;
    if (part) hash += `/${enc(part)}`;
    if (query) hash += `?q=${enc(query)}${nth ? `&n=${nth}` : ""}`;
    return hash;
  }

  function parsedHash() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const words = path
      ? path.split("/").map((word) => {
          try {
            return enc(decodeURIComponent(word));
          } catch {
            return word;
          }
        })
      : [];
    const asked = new URLSearchParams(query);
    let part;
    try {
      part = words[3] && decodeURIComponent(words[3]);
    } catch {
      part = undefined;
    }
    return {
      key: words.length > 1 ? `${words[0]}/${words[1]}` : "",
      step: words[2] === undefined || words[2] === "all" ? undefined : Number(words[2]),
      isAll: words[2] === "all",
      part,
      query: asked.get("q") ?? "",
      nth: Number(asked.get("n") ?? 0),
    };
  }

  // ── State ───────────────────────────────────────────────────────────────────────────────────────

  const rows = new Map(); // number → row
  const byKey = new Map(); // op/task as in hashes → number
  const errors = new Map(); // number → [row, first error], from a server
  let view = null; // the Overview or TaskView that is shown
  let isFollowing = false;
  let going = 0; // counts what was gone to, so that what comes late is left

  function take(changed) {
    for (const [index, row] of changed) {
      rows.set(index, row);
      byKey.set(`${enc(row.op)}/${enc(row.task)}`, index);
    }
  }

  const collator = new Intl.Collator("en", { numeric: true });
  const OUTCOMES = ["passed", "failed", "unfinished", "unverified", "unknown"];
  const AGENTS = { designer: "Designer", coder: "Coder", verifier: "Verifier", conductor: "Conductor" };

  const badge = (outcome) => el("span", { class: `badge ${outcome}`, text: outcome });

  // ── All tasks ───────────────────────────────────────────────────────────────────────────────────

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
      cell: (row) => badge(row.outcome),
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

  function errorOf(index, row) {
    if (row.error !== undefined) return row.error;
    const known = errors.get(index);
    if (known && known[0] === row) return known[1];
    return row.firstFailed === undefined ? "" : `step ${row.firstFailed} failed`;
  }

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

  const stat = (name, value, note) =>
    el(
      "div",
      {},
      el("dt", { text: name }),
      el("dd", {}, el("b", { text: value }), note ? el("small", { text: note }) : null),
    );

  // ── A task ──────────────────────────────────────────────────────────────────────────────────────

  const PARTS = ["prompt", "reasoning", "result", "error_log"];
  const LAST = ["reply", "source.reference", "source.implementation", "source.script"];
  const TITLES = {
    prompt: "Prompt",
    reasoning: "Reasoning",
    result: "Result",
    error_log: "Error log",
    reply: "Reply as it came",
    "source.reference": "Reference",
    "source.implementation": "Kernel as verified",
    "source.script": "Comparison script",
  };
  const CLOSED = new Set(LAST);
  const PREVIEW_LINES = { prompt: 10, reasoning: 16, result: 80, error_log: 60 };
  const PREVIEW_CHARS = 12_000;
  const CHUNK_CHARS = 300_000; // shown at once of a text that is opened; there is a button for more
  const HIGHLIGHT_CHARS = 150_000;
  const opened = new Map(); // kind of part → whether its readers want it open

  const orderOf = (name) => {
    const first = PARTS.indexOf(name);
    const last = LAST.indexOf(name);
    return first >= 0 ? first : last >= 0 ? 100 + last : 50;
  };

  /** A name for a part in hashes: alone for those of a step's own action, else behind its action. */
  function partId(step, action, name) {
    if (action === step.actions[0]) return name;
    return `${action.type}${action.copy ? `~${action.copy}` : ""}:${name}`;
  }

  class TaskView {
    static async open(index, isStale) {
      const row = rows.get(index);
      const task = await source.task(index, row);
      return isStale() ? null : new TaskView(index, row, task);
    }

    constructor(index, row, task) {
      this.index = index;
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
          row.pending
            ? el("span", { class: "running", text: `${row.last} is at work or was cut off` })
            : null,
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
      route();
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
        nodes.push(this.actionNode(step, action, index ? null : nav, "h2"));
      for (const action of step.judgements) nodes.push(this.actionNode(step, action, null, "h3"));
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
          nodes.push(this.actionNode(step, action, null, index ? "h3" : "h2"));
        for (const action of step.judgements) nodes.push(this.actionNode(step, action, null, "h3"));
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

    actionNode(step, action, nav, level) {
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
      const attempt = this.task.attempts[this.attemptOf.get(action.at)];
      const children = [];
      if (attempt?.verification !== undefined) children.push(this.verdictLink(attempt));
      if (this.verifiedOf.has(action.at)) children.push(this.attemptLink(this.verifiedOf.get(action.at)));
      if (action.passed !== undefined || action.error) children.push(verdictNode(action));
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
      if (action.calls) children.push(callsNode(action.calls));
      for (const part of [...action.parts].sort((a, b) => orderOf(a.name) - orderOf(b.name))) {
        const id = partId(step, action, part.name);
        const section = new Section(this, action, part, id);
        this.sections.set(id, section);
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

    verdictLink(attempt) {
      const to = this.task.actions[attempt.verification];
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
        el("a", { href: hashOf(this.row, to.step), text: `step ${to.step}` }),
        ": ",
        el("b", { class: attempt.passed ? "pass" : attempt.passed === false ? "fail" : "", text }),
      );
    }

    attemptLink(attempt) {
      return el(
        "p",
        { class: "turn" },
        "What ",
        el("a", { href: hashOf(this.row, attempt.step, "result"), text: `step ${attempt.step}` }),
        " wrote",
      );
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

    async changed(index) {
      const isStale = staleness();
      const row = rows.get(this.index);
      if (index !== undefined && row === this.row) return;
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

  const labelOf = (action) => `${action.type}${action.copy ? ` (${action.copy})` : ""}`;

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
      calls
        .slice(0, 200)
        .map((call) =>
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

  // ── A text ──────────────────────────────────────────────────────────────────────────────────────

  const COMMENT = "\n\n\n'''\n";
  const COMMENT_END = "\n'''";

  /** A result's code, and the comment that stands behind it in its file. */
  function splitCode(text) {
    const at = text.lastIndexOf(COMMENT);
    if (at < 0 || !text.endsWith(COMMENT_END)) return { code: text, comment: "" };
    return { code: text.slice(0, at), comment: text.slice(at + COMMENT.length, -COMMENT_END.length) };
  }

  function languageOf(action, part, text) {
    const [name, path] = [part.name, part.path ?? ""];
    if (name === "prompt" || name === "reasoning" || name === "error_log") return "";
    const ending = name.startsWith("source.") ? (/\.([a-z]+)$/.exec(path)?.[1] ?? "") : "";
    if (/^(cu|cuh|cpp|cc|cxx|c|h|hpp)$/.test(ending)) return "cpp";
    if (ending === "py") return "python";
    const start = text.slice(0, 20_000);
    if (/^\s*[[{]/.test(start) && /"\s*:/.test(start)) return "json";
    if (/^\s*(#include|#pragma|template\s*<|__global__|extern "C")|__global__|\bvoid\s+\w+\s*\(/m.test(start))
      return "cpp";
    if (/^\s*(import \w|from [\w.]+ import |def \w+\(.*|class \w+.*:|@\w+)/m.test(start)) return "python";
    return "";
  }

  /** Code, with the classes of highlight.js; its tree is taken, not its HTML. */
  function appendCode(parent, text, language) {
    let root;
    if (language && text.length <= HIGHLIGHT_CHARS && !/[^\n]{5000}/.test(text)) {
      try {
        root = hljs.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode;
      } catch {
        root = null;
      }
    }
    if (!root) return appendText(parent, text);
    const walk = (node, into) => {
      for (const child of node.children) {
        if (typeof child === "string") appendText(into, child);
        else {
          const span = document.createElement("span");
          if (child.scope)
            span.className = child.scope
              .split(".")
              .map((word, at) => (at ? `${word}${"_".repeat(at)}` : `hljs-${word}`))
              .join(" ");
          walk(child, span);
          into.append(span);
        }
      }
    };
    walk(root, parent);
  }

  function linesOf(text) {
    let lines = 0;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
    return lines + (text && !text.endsWith("\n") ? 1 : 0);
  }

  /** Where a text's preview ends. */
  function previewEnd(text, lines) {
    let at = -1;
    for (let line = 0; line < lines; line++) {
      at = text.indexOf("\n", at + 1);
      if (at < 0 || at > PREVIEW_CHARS) return Math.min(text.length, PREVIEW_CHARS);
    }
    return at;
  }

  class Section {
    constructor(task, action, part, id) {
      Object.assign(this, { task, action, part, id });
      this.kind = part.name;
      this.isOpen = opened.get(this.kind) ?? !CLOSED.has(this.kind);
      if (this.kind === "source.implementation" && !task.verifiedOf.get(action.at)?.code) this.isOpen = true;
      this.attempt = task.task.attempts.findIndex(
        (attempt) => attempt.code && attempt.code[0] === action.at && attempt.code[1] === part.name,
      );
      const earlier = this.attempt > 0 ? task.before(this.attempt) : [];
      this.earlier = earlier;
      this.mode = earlier.length ? "diff" : "code";
      this.against = earlier[0];
      const isCode = this.attempt >= 0;
      const title =
        this.kind === "error_log" && action.passed
          ? "Log"
          : isCode
            ? "Code"
            : (TITLES[this.kind] ?? this.kind);
      this.note = el("span", { class: "note", text: size(part.size) });
      this.toggle = el(
        "button",
        { type: "button", class: "toggle", "aria-expanded": "false", on: () => this.flip() },
        svg("M6 4l4 4-4 4"),
        el("span", { class: "name", text: title }),
        this.note,
      );
      this.tools = el("span", { class: "part-tools" });
      this.body = el("div", { class: "body" });
      this.node = el(
        "section",
        {
          class: `part ${isCode || this.kind.startsWith("source.") ? "code" : ""} ${this.kind === "error_log" && action.passed === false ? "bad" : ""}`,
          "data-part": id,
        },
        el("div", { class: "part-head" }, this.toggle, this.tools),
        this.body,
      );
    }

    flip() {
      const isOpen = !this.node.classList.contains("open");
      opened.set(this.kind, isOpen);
      if (isOpen) this.open();
      else this.close();
    }

    close() {
      this.node.classList.remove("open");
      this.toggle.setAttribute("aria-expanded", "false");
      this.body.replaceChildren();
      this.tools.replaceChildren();
    }

    async open(query = "", nth = 0) {
      this.node.classList.add("open");
      this.toggle.setAttribute("aria-expanded", "true");
      if (query) this.mode = "code";
      if (this.text === undefined) {
        this.body.replaceChildren(el("p", { class: "notice", text: "Opening…" }));
        try {
          const { text, isCut } = await source.text(this.part);
          Object.assign(this, { text: isCut ? text.replace(/\ufffd+$/, "") : text, isCut });
        } catch (error) {
          this.body.replaceChildren(el("p", { class: "notice", text: `Not here: ${error.message}.` }));
          return;
        }
      }
      this.drawTools();
      const lines = linesOf(this.text);
      this.note.replaceChildren();
      appendText(
        this.note,
        [size(this.part.size), this.text ? count(lines, "line") : "empty"].filter(Boolean).join(", "),
      );
      await this.drawBody(query, nth);
    }

    drawTools() {
      const tools = [];
      if (this.earlier.length) {
        const choose = (mode) => () => {
          this.mode = mode;
          this.drawTools();
          this.drawBody();
        };
        tools.push(
          el(
            "span",
            { class: "choice", role: "group", "aria-label": "Diff or code" },
            button("Diff", choose("diff"), { "aria-pressed": String(this.mode === "diff") }),
            button("Code", choose("code"), { "aria-pressed": String(this.mode === "code") }),
          ),
        );
        if (this.mode === "diff") {
          const options = this.earlier.slice(0, 200).map((attempt, at) => {
            const verdict = attempt.passed
              ? ` passed${attempt.speedup === undefined ? "" : ` ${speedup(attempt.speedup)}`}`
              : attempt.passed === false
                ? " failed"
                : "";
            return el("option", {
              value: at,
              selected: attempt === this.against,
              text: `against step ${attempt.step}${verdict}`,
            });
          });
          const select = el("select", { "aria-label": "Attempt to compare with" }, options);
          select.addEventListener("change", () => {
            this.against = this.earlier[Number(select.value)];
            this.drawBody();
          });
          tools.push(select);
        }
      }
      const copy = button(
        "Copy",
        async () => {
          try {
            await navigator.clipboard.writeText(this.text);
            copy.textContent = "Copied";
          } catch {
            copy.textContent = "Not allowed";
          }
          await later(1200);
          copy.textContent = "Copy";
        },
        { title: "Copy the text" },
      );
      tools.push(
        copy,
        el("a", {
          href: hashOf(this.task.row, this.action.step, this.id),
          text: "#",
          title: this.part.path ? `Link to this text; its file is ${this.part.path}` : "Link to this text",
          "aria-label": "Link to this text",
        }),
      );
      this.tools.replaceChildren(...tools);
    }

    async drawBody(query = "", nth = 0) {
      if (this.mode === "diff") return this.drawDiff();
      const { code, comment } =
        this.kind === "result" ? splitCode(this.text) : { code: this.text, comment: "" };
      const language = languageOf(this.action, this.part, code);
      const hasNumbers =
        Boolean(language) && linesOf(code) > 1 && !/[^\n]{5000}/.test(code.slice(0, CHUNK_CHARS));
      const content = el("div", { class: "text" });
      this.body.replaceChildren(content);
      if (!this.text) {
        content.append(el("p", { class: "notice", text: "Empty." }));
        return;
      }
      const fill = (end) => {
        const shown = code.slice(0, end);
        const pre = el("pre", { class: hasNumbers ? "plain" : "wrapped", dir: "ltr" });
        appendCode(pre, shown, language);
        if (hasNumbers) {
          const lines = Math.max(1, linesOf(shown));
          const gutter = el("pre", { class: "gutter", "aria-hidden": "true" });
          gutter.append(Array.from({ length: lines }, (_, at) => at + 1).join("\n"));
          content.replaceChildren(el("div", { class: "numbered" }, gutter, pre));
        } else content.replaceChildren(pre);
        return pre;
      };
      const finish = () => {
        if (comment)
          content.append(
            el(
              "div",
              { class: "comment" },
              el("h4", { text: "Comment" }),
              (() => {
                const pre = el("pre", { class: "wrapped" });
                appendText(pre, comment);
                return pre;
              })(),
            ),
          );
        if (this.isCut)
          content.append(
            el("p", {
              class: "notice",
              text: `Here is only the beginning, ${size(config.maxText)} of ${this.part.size ? size(this.part.size) : "more"}.${this.part.path ? ` All of it is in the file ${this.part.path}.` : ""}`,
            }),
          );
      };
      const more = (end) => {
        if (end >= code.length) return finish();
        const next = button(
          `Show more (${number(code.length - end)} characters left)`,
          () => {
            next.remove();
            const pre = el("pre", { class: hasNumbers ? "plain" : "wrapped" });
            appendText(pre, code.slice(end, end + CHUNK_CHARS));
            content.append(pre);
            more(end + CHUNK_CHARS);
          },
          { class: "more" },
        );
        content.append(next);
      };
      const full = () => {
        fill(CHUNK_CHARS);
        more(CHUNK_CHARS);
      };
      const most = PREVIEW_LINES[this.kind] ?? 40;
      const end = previewEnd(code, most);
      if (
        query ||
        code.length - end < 200 ||
        (linesOf(code.slice(end, end + 20_000)) < 6 && code.length - end < 2000)
      ) {
        full();
        if (query) markFound(content, query, nth);
        return;
      }
      fill(end);
      content.classList.add("preview");
      content.append(
        button(
          `Show all ${count(linesOf(code), "line")}`,
          () => {
            content.classList.remove("preview");
            full();
          },
          { class: "more" },
        ),
      );
    }

    async drawDiff() {
      const asked = this.against;
      let before;
      try {
        before = await this.task.codeOf(asked);
      } catch (error) {
        this.body.replaceChildren(
          el("p", { class: "notice", text: `The code of step ${asked.step} is not here: ${error.message}.` }),
        );
        return;
      }
      if (this.against !== asked || this.mode !== "diff") return;
      const { code, comment } = splitCode(this.text);
      this.body.replaceChildren(diffNode(before, code));
      if (comment) {
        const pre = el("pre", { class: "wrapped" });
        appendText(pre, comment);
        this.body.append(el("div", { class: "comment" }, el("h4", { text: "Comment" }), pre));
      }
    }
  }

  // ── What changed ────────────────────────────────────────────────────────────────────────────────

  const DIFF_CHARS = 1_000_000;
  const DIFF_LINES = 1500;

  function diffNode(before, after) {
    const said = (text) => el("p", { class: "notice", text });
    if (before === after) return said("The same code as before.");
    if (before.length + after.length > DIFF_CHARS) return said("Too long to be compared here.");
    const ended = (text) => (text && !text.endsWith("\n") ? `${text}\n` : text);
    const patch = Diff.structuredPatch("", "", ended(before), ended(after), "", "", {
      context: 4,
      timeout: 2000,
    });
    if (!patch) return said("Too different to be compared here.");
    const table = el("div", { class: "diff", role: "table", "aria-label": "Changes" });
    let [added, removed, drawn] = [0, 0, 0];
    const row = (kind, left, right, fill) => {
      const text = el("code", { dir: "ltr" });
      fill(text);
      table.append(
        el(
          "div",
          { class: `line ${kind}`, role: "row" },
          el("span", { class: "n", text: left }),
          el("span", { class: "n", text: right }),
          el("span", { class: "sign", text: kind === "add" ? "+" : kind === "del" ? "−" : "" }),
          text,
        ),
      );
    };
    for (const hunk of patch.hunks) {
      let [left, right] = [hunk.oldStart, hunk.newStart];
      table.append(
        el("div", { class: "hunk", text: `lines ${right}–${Math.max(right, right + hunk.newLines - 1)}` }),
      );
      const lines = hunk.lines.filter((line) => !line.startsWith("\\"));
      for (let at = 0; at < lines.length;) {
        if (lines[at][0] === " ") {
          if (drawn++ < DIFF_LINES) row("", left, right, (into) => appendText(into, lines[at].slice(1)));
          (left++, right++, at++);
          continue;
        }
        const [gone, come] = [[], []];
        while (at < lines.length && lines[at][0] !== " ")
          (lines[at][0] === "-" ? gone : come).push(lines[at++].slice(1));
        removed += gone.length;
        added += come.length;
        // Lines that were changed one by one: say which words.
        const words =
          gone.length === come.length && gone.length <= 40
            ? gone.map((line, index) => wordsOf(line, come[index]))
            : null;
        for (const [index, line] of gone.entries()) {
          if (drawn++ < DIFF_LINES)
            row("del", left, "", (into) => put(into, line, words?.[index], "removed"));
          left++;
        }
        for (const [index, line] of come.entries()) {
          if (drawn++ < DIFF_LINES) row("add", "", right, (into) => put(into, line, words?.[index], "added"));
          right++;
        }
      }
    }
    function put(into, line, words, kind) {
      if (!words) return appendText(into, line);
      for (const piece of words) {
        if (!piece.added && !piece.removed) appendText(into, piece.value);
        else if (piece[kind]) into.append(el("mark", { text: piece.value }));
      }
    }
    if (drawn > DIFF_LINES) table.append(said(`${number(drawn - DIFF_LINES)} more lines are not shown.`));
    const summary = el(
      "p",
      { class: "diff-summary" },
      el("b", { class: "pass", text: `+${added}` }),
      " ",
      el("b", { class: "fail", text: `−${removed}` }),
      patch.hunks.length ? "" : " only the last line's end",
    );
    return el("div", {}, summary, table);
  }

  function wordsOf(before, after) {
    if (before.length > 400 || after.length > 400) return null;
    const pieces = Diff.diffWordsWithSpace(before, after);
    const same = pieces.reduce(
      (total, piece) => total + (piece.added || piece.removed ? 0 : piece.value.trim().length),
      0,
    );
    return same * 3 > Math.max(before.trim().length, after.trim().length) ? pieces : null; // else all of it changed
  }

  // ── Found text ──────────────────────────────────────────────────────────────────────────────────

  /** Mark what was found, without changing the document, and scroll to one of it. */
  function markFound(node, query, nth) {
    const pieces = [];
    let length = 0;
    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) {
      if (walker.currentNode.parentElement.closest(".gutter, button, .notice")) continue;
      pieces.push([length, walker.currentNode]);
      texts.push(walker.currentNode.data);
      length += walker.currentNode.data.length;
    }
    const text = texts.join("");
    const needle = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
    const ranges = [];
    let piece = 0;
    const place = (at) => {
      while (piece + 1 < pieces.length && pieces[piece + 1][0] <= at) piece++;
      return [pieces[piece][1], at - pieces[piece][0]];
    };
    for (let match; ranges.length < 2000 && (match = needle.exec(text)) && match[0];) {
      const range = new Range();
      range.setStart(...place(match.index));
      range.setEnd(...place(match.index + match[0].length));
      ranges.push(range);
    }
    const wanted = ranges[Math.min(nth, ranges.length - 1)];
    if (window.Highlight && CSS.highlights) {
      CSS.highlights.set("found", new Highlight(...ranges));
      CSS.highlights.set("found-here", new Highlight(...(wanted ? [wanted] : [])));
    }
    requestAnimationFrame(() => {
      if (!wanted) return node.closest(".part").scrollIntoView({ block: "start" });
      const top = wanted.getBoundingClientRect().top;
      scrollTo({ top: scrollY + top - innerHeight / 3 });
    });
  }

  // ── Pictures ────────────────────────────────────────────────────────────────────────────────────

  function colour(name) {
    const probe = $("probe") ?? document.body.appendChild(el("i", { id: "probe", hidden: true }));
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }

  function showTip(x, y, lines) {
    const tip = $("tip") ?? document.body.appendChild(el("div", { id: "tip", role: "tooltip" }));
    tip.replaceChildren(...lines.map((line) => el("div", { text: line })));
    tip.hidden = false;
    tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, x + 12))}px`;
    tip.style.top = `${Math.max(8, Math.min(innerHeight - tip.offsetHeight - 8, y + 14))}px`;
  }

  const hideTip = () => {
    if ($("tip")) $("tip").hidden = true;
  };

  function drawSpeedups(view, panel) {
    const attempts = view.task.attempts;
    const measured = attempts.filter((attempt) => attempt.speedup !== undefined);
    const judged = attempts.filter((attempt) => attempt.passed !== undefined);
    if (!judged.length) {
      panel.append(
        el("p", {
          class: "notice",
          text: attempts.length ? "No attempt has a verdict." : "No attempt is recorded.",
        }),
      );
      return null;
    }
    const note = [
      `${count(judged.length, "attempt")} verified`,
      `${judged.filter((a) => a.passed).length} passed`,
      measured.length ? `best ${speedup(Math.max(...measured.map((a) => a.speedup)))}` : "none measured",
    ].join(", ");
    panel.append(el("p", { class: "panel-note", text: note }));
    const x = judged.map((_, at) => at + 1);
    const y = judged.map((attempt) => attempt.speedup ?? null);
    let best = null;
    const bests = y.map((value) => (best = value === null ? best : Math.max(best ?? 0, value)));
    const failed = judged.map((attempt) => attempt.passed === false);
    const values = measured.map((attempt) => attempt.speedup).filter((value) => value > 0);
    const isLog = values.length > 1 && Math.max(...values) / Math.min(...values) > 30;
    const [ink, line, good, bad, accent] = ["ink-2", "line", "pass", "fail", "accent"].map(colour);
    const font = "11px system-ui, sans-serif";
    const holder = el("div", { class: "chart", role: "img", "aria-label": `Speedup over attempts: ${note}` });
    panel.append(holder);
    const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
    const top = values.length ? Math.max(...values, 1) : 1;
    const bottom = values.length ? Math.min(...values, 1) : 0;
    return new uPlot(
      {
        width: Math.max(200, holder.clientWidth),
        height: 168,
        legend: { show: false },
        padding: [10, 12, 0, 0],
        cursor: { y: false, drag: { setScale: false }, points: { size: 8 } },
        scales: {
          x: { time: false, range: [0.5, judged.length + 0.5] },
          y: isLog ? { distr: 3, range: [bottom / 1.5, top * 1.5] } : { range: [0, top * 1.1] },
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 28,
            incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
            values: (_, at) =>
              at.map((value) =>
                Number.isInteger(value) && value >= 1 && value <= judged.length ? `${value}` : "",
              ),
          },
          {
            ...axis,
            size: 46,
            values: (_, at) =>
              at.map((value) =>
                value === null || (isLog && !/^[125]/.test(value.toExponential()))
                  ? ""
                  : `${+value.toPrecision(3)}×`,
              ),
          },
        ],
        series: [
          {},
          {
            label: "best so far",
            stroke: good,
            width: 1,
            dash: [4, 3],
            paths: uPlot.paths.stepped({ align: 1 }),
            points: { show: false },
          },
          {
            label: "speedup",
            stroke: accent,
            width: 1.5,
            spanGaps: true,
            points: { show: true, size: judged.length > 200 ? 3 : 6, fill: accent },
          },
        ],
        hooks: {
          draw: [
            (plot) => {
              const { ctx, bbox } = plot;
              const ratio = devicePixelRatio;
              ctx.save();
              const one = plot.valToPos(1, "y", true);
              if (values.length && one >= bbox.top && one <= bbox.top + bbox.height) {
                ctx.strokeStyle = ink;
                ctx.setLineDash([2 * ratio, 3 * ratio]);
                ctx.beginPath();
                ctx.moveTo(bbox.left, one);
                ctx.lineTo(bbox.left + bbox.width, one);
                ctx.stroke();
                ctx.setLineDash([]);
              }
              // Attempts that failed have no speedup: a cross at the bottom; those that passed unmeasured, a dot.
              const size = (judged.length > 200 ? 2 : 3.5) * ratio;
              const foot = bbox.top + bbox.height - 8 * ratio;
              for (const [at, attempt] of judged.entries()) {
                if (attempt.speedup !== undefined) continue;
                const here = plot.valToPos(at + 1, "x", true);
                ctx.strokeStyle = ctx.fillStyle = failed[at] ? bad : good;
                ctx.lineWidth = 1.5 * ratio;
                ctx.beginPath();
                if (failed[at]) {
                  ctx.moveTo(here - size, foot - size);
                  ctx.lineTo(here + size, foot + size);
                  ctx.moveTo(here + size, foot - size);
                  ctx.lineTo(here - size, foot + size);
                  ctx.stroke();
                } else {
                  ctx.arc(here, foot, size, 0, 7);
                  ctx.fill();
                }
              }
              ctx.restore();
            },
          ],
          ready: [
            (plot) => {
              const at = () => judged[Math.round(plot.posToVal(plot.cursor.left, "x")) - 1];
              plot.over.addEventListener("mousemove", (event) => {
                const attempt = at();
                if (!attempt) return hideTip();
                showTip(event.clientX, event.clientY, [
                  `Attempt ${judged.indexOf(attempt) + 1}, step ${attempt.step}`,
                  attempt.passed
                    ? attempt.speedup === undefined
                      ? "passed, not measured"
                      : `passed, ${speedup(attempt.speedup)}`
                    : "failed",
                ]);
              });
              plot.over.addEventListener("mouseleave", hideTip);
              plot.over.addEventListener("click", () => {
                const attempt = at();
                if (attempt) view.goTo(attempt.step);
              });
            },
          ],
        },
      },
      [x, bests, y],
      holder,
    );
  }

  const SPENT = [
    ["model", "model"],
    ["verify", "verify"],
    ["unaccounted", "unaccounted"],
    ["waiting", "waiting"],
  ];
  const EXPLAINED = {
    model: "a model was asked",
    verify: "a Verifier was at work",
    waiting: "no action was at work",
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
        const own = colour(name === "model" ? "model" : name);
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

  // ── Search in all texts ─────────────────────────────────────────────────────────────────────────

  let searching = 0;
  const MOST_HITS = 400;

  function closeSearch() {
    searching++;
    $("found").hidden = true;
    $("found").replaceChildren();
  }

  async function search(query) {
    const own = ++searching;
    const isOver = () => own !== searching;
    const box = $("found");
    if (query.trim().length < 2) {
      box.hidden = true;
      return;
    }
    const told = el("p", { class: "told", role: "status" });
    const list = el("div", { class: "hits" });
    box.replaceChildren(told, list);
    box.hidden = false;
    const here = view instanceof TaskView ? view.index : -1;
    const order = [...rows.keys()].sort((a, b) => (b === here) - (a === here) || a - b);
    let [hits, texts, tasks, isMore] = [0, 0, 0, false];
    let drawn = 0;
    for (const index of order) {
      const row = rows.get(index);
      if (tasks % 10 === 0 || performance.now() - drawn > 200) {
        drawn = performance.now();
        told.replaceChildren(
          `${count(hits, "hit")} so far, in task ${number(tasks + 1)} of ${number(order.length)}…`,
        );
      }
      let found;
      try {
        found = await source.search(index, row, query, isOver);
      } catch (error) {
        told.replaceChildren(`It failed: ${error.message}`);
        return;
      }
      if (isOver()) return;
      tasks++;
      texts += found.texts;
      if (found.hits.length) {
        hits += found.hits.length;
        isMore ||= found.more;
        const task = await source.task(index, row);
        if (isOver()) return;
        list.append(hitsNode(row, task, found, query));
      }
      if (hits >= MOST_HITS) {
        isMore ||= tasks < order.length;
        break;
      }
    }
    told.replaceChildren(
      hits
        ? `${isMore ? "The first " : ""}${count(hits, "hit")} in ${count(texts, "text")} of ${count(tasks, "task")}`
        : `Nothing like that in ${count(texts, "text")} of ${count(tasks, "task")}`,
    );
  }

  function hitsNode(row, task, found, query) {
    const first = new Map(); // of each step, the first action, whose parts have short names
    for (const action of task.actions) {
      const known = first.get(action.step);
      if (!known || (known.agent === "conductor" && action.agent !== "conductor"))
        first.set(action.step, action);
    }
    return el(
      "section",
      {},
      el("h3", {}, el("bdi", { text: row.op }), " ", el("small", { text: row.task })),
      [...found.hits]
        .sort((a, b) => a.action - b.action || orderOf(a.part) - orderOf(b.part) || a.nth - b.nth)
        .map((hit) => {
          const action = task.actions[hit.action];
          const id = partId({ actions: [first.get(action.step)] }, action, hit.part);
          return el(
            "a",
            { href: hashOf(row, action.step, id, query, hit.nth), class: "hit" },
            el("span", {
              class: "where",
              text: `${action.step} ${labelOf(action)} · ${TITLES[hit.part] ?? hit.part}`,
            }),
            el(
              "span",
              { class: "snippet", dir: "ltr" },
              el("span", { text: hit.before.slice(-60).replace(/\s+/g, " ") }),
              el("mark", { text: hit.found }),
              el("span", { text: hit.after.replace(/\s+/g, " ") }),
            ),
          );
        }),
      found.more ? el("p", { class: "notice", text: "There is more in this task." }) : null,
    );
  }

  // ── Going from one to the other ─────────────────────────────────────────────────────────────────

  function crumbs(row) {
    $("crumbs").replaceChildren(
      el(
        "a",
        { href: "#/", class: "home", title: "All tasks (g o)" },
        svg("M2.5 11l3.5-4.5 3 2.5 4.5-6"),
        el("bdi", { text: config.title }),
      ),
      ...(row
        ? [
            el("span", { class: "slash", text: "/" }),
            el("bdi", { class: "here", text: row.op }),
            el("bdi", { class: "here dim", text: row.task }),
          ]
        : []),
    );
  }

  function staleness() {
    const own = going;
    return () => own !== going;
  }

  async function route() {
    going++;
    const isStale = staleness();
    const asked = parsedHash();
    hideTip();
    if (!asked.key) {
      view?.leave();
      view = new Overview();
      return;
    }
    const index = byKey.get(asked.key);
    if (index === undefined) {
      view?.leave();
      view = null;
      crumbs();
      $("main").replaceChildren(
        el(
          "p",
          { class: "notice" },
          "There is no such task here. ",
          el("a", { href: "#/", text: "All tasks" }),
        ),
      );
      return;
    }
    if (!(view instanceof TaskView && view.index === index)) {
      let next;
      try {
        next = await TaskView.open(index, isStale);
      } catch (error) {
        $("main").replaceChildren(
          el("p", { class: "notice", text: `The task can't be read: ${error.message}.` }),
        );
        return;
      }
      if (!next) return;
      view?.leave();
      view = next;
      Overview.selected = index;
      scrollTo(0, 0);
    }
    view.show(asked);
  }

  // ── Following a running pipeline ────────────────────────────────────────────────────────────────

  async function follow() {
    const live = $("live");
    live.hidden = $("follow").hidden = false;
    const state = (name, text) => {
      live.className = `live ${name}`;
      live.textContent = text;
    };
    state("on", "live");
    for (;;) {
      await later(document.hidden ? 5000 : 1000);
      try {
        const changed = await source.overview();
        state("on", "live");
        if (!changed.length) continue;
        take(changed);
        if (view instanceof Overview) view.changed();
        else if (view instanceof TaskView && changed.some(([index]) => index === view.index))
          await view.changed();
        else if (!view) route();
      } catch {
        state("off", "not connected");
      }
    }
  }

  // ── Keys, theme ─────────────────────────────────────────────────────────────────────────────────

  const KEYS = [
    ["j / k", "next and previous step, or task"],
    ["Enter or o", "open the task"],
    ["g o", "all tasks"],
    ["g g / G", "first and last step, or task"],
    ["n / p", "next and previous attempt"],
    ["e", "next failed verification"],
    ["a", "all steps on one page"],
    ["/", "search all texts"],
    ["f", "follow new steps, while served"],
    ["t", "dark or light"],
    ["?", "these keys"],
    ["Esc", "close; back to all tasks"],
  ];

  function help() {
    const dialog = $("help");
    if (dialog.open) return dialog.close();
    dialog.replaceChildren(
      el("h2", { id: "help-title", text: "Keys" }),
      el(
        "dl",
        {},
        KEYS.map(([keys, what]) =>
          el(
            "div",
            {},
            el(
              "dt",
              {},
              keys
                .split(" ")
                .map((word) =>
                  /^(or|\/)$/.test(word) && keys !== "/" ? ` ${word} ` : el("kbd", { text: word }),
                ),
            ),
            el("dd", { text: what }),
          ),
        ),
      ),
      button("Close", () => dialog.close()),
    );
    dialog.showModal();
  }

  const isDark = () =>
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

  function switchTheme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("kernel-trace-theme", document.documentElement.dataset.theme);
    } catch {
      /* not for files of some browsers */
    }
    view?.themed();
  }

  let themeOfScreen = null; // while printing: [the theme that was chosen]

  /** Paper is light, and has every task. */
  function print(isBegin) {
    if (isBegin === Boolean(themeOfScreen)) return;
    const { dataset } = document.documentElement;
    if (isBegin) {
      themeOfScreen = [dataset.theme];
      dataset.theme = "light";
    } else {
      if (themeOfScreen[0]) dataset.theme = themeOfScreen[0];
      else delete dataset.theme;
      themeOfScreen = null;
    }
    if (view instanceof Overview) view.draw(isBegin);
    else view?.themed();
  }

  function switchFollowing() {
    if (!isServed) return;
    isFollowing = !isFollowing;
    $("follow").setAttribute("aria-pressed", String(isFollowing));
    if (isFollowing && view instanceof TaskView && view.steps.length)
      view.goTo(view.steps[view.steps.length - 1].number, false);
  }

  let pressed = ""; // the first of two keys

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    const key = event.key;
    if (key === "Escape") {
      if ($("help").open) return; // closes by itself
      if (!$("found").hidden) closeSearch();
      else if (isTyping) document.activeElement.blur();
      else if (view instanceof TaskView) location.hash = "#/";
      if (isTyping) document.activeElement.blur();
      return;
    }
    if (
      document.activeElement?.closest("#found, #search-form") &&
      (key === "ArrowDown" || key === "ArrowUp")
    ) {
      const hits = [...$("found").querySelectorAll("a.hit")];
      const at = hits.indexOf(document.activeElement);
      const to = key === "ArrowDown" ? hits[at + 1] : hits[at - 1];
      (to ?? (key === "ArrowUp" ? $("search") : null))?.focus();
      event.preventDefault();
      return;
    }
    if (isTyping || $("help").open) return;
    const both = pressed + key;
    pressed = "";
    const actions = {
      j: () => view?.move(1),
      k: () => view?.move(-1),
      "/": () => {
        $("search").focus();
        $("search").select();
      },
      "?": help,
      t: switchTheme,
      f: switchFollowing,
      g: () => {
        pressed = "g";
      },
      go: () => {
        location.hash = "#/";
      },
      gg: () => view?.move(-1e9),
      G: () => view?.move(1e9),
      o: () => view?.open?.(),
      Enter: document.activeElement?.closest("a, button") ? undefined : () => view?.open?.(),
      a: () => {
        if (view instanceof TaskView) location.hash = `${hashOf(view.row)}/all`;
      },
      n: () => jump(1, (step, task) => step.actions.some((action) => task.attemptOf.has(action.at))),
      p: () => jump(-1, (step, task) => step.actions.some((action) => task.attemptOf.has(action.at))),
      e: () => jump(1, (step) => step.actions.some((action) => action.passed === false)),
    };
    const action = actions[both] ?? actions[key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  function jump(by, isWanted) {
    if (!(view instanceof TaskView)) return;
    for (let at = view.steps.indexOf(view.step) + by; view.steps[at]; at += by) {
      if (isWanted(view.steps[at], view)) return view.goTo(view.steps[at].number, false);
    }
  }

  // ── Begin ───────────────────────────────────────────────────────────────────────────────────────

  async function begin() {
    try {
      const theme = localStorage.getItem("kernel-trace-theme");
      if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
    } catch {
      /* likewise */
    }
    document.addEventListener("keydown", onKey);
    $("theme").addEventListener("click", switchTheme);
    $("help-button").addEventListener("click", help);
    $("follow").addEventListener("click", switchFollowing);
    $("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      search($("search").value);
    });
    let waiting;
    $("search").addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => search($("search").value), 180);
    });
    $("search").addEventListener("focus", () => {
      if ($("search").value && $("found").hidden) search($("search").value);
    });
    document.addEventListener("click", (event) => {
      if (event.target.closest("a.hit") || !event.target.closest("#found, #search-form")) closeSearch();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.themed());
    matchMedia("print").addEventListener("change", (event) => print(event.matches));
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
    addEventListener("hashchange", route);
    if (!isServed && !window.DecompressionStream) {
      $("main").replaceChildren(
        el("p", {
          class: "notice",
          text: "This browser is too old for this page: it takes Chrome 123, Firefox 120, Safari 17.5 or later.",
        }),
      );
      return;
    }
    try {
      take(await source.overview());
    } catch (error) {
      $("main").replaceChildren(
        el("p", { class: "notice", text: `The overview can't be read: ${error.message}` }),
      );
      return;
    }
    if (!location.hash && !isServed && rows.size === 1)
      history.replaceState(null, "", hashOf([...rows.values()][0]));
    await route();
    document.documentElement.dataset.ready = "";
    if (isServed) follow();
  }

  begin();
})();
