// A part of an action: one of its texts, which opens and closes.

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
