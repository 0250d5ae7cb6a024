// What logs tell: what is wrong, what kernels need, and the stages that they came through.

const plainly = (name) => name.replaceAll("_", " ");
const MOST_ROWS = 200;

/** Diagnostics, the first error first; the others open on demand. */
function diagnosticsNode(diagnostics) {
  const [first, ...others] = diagnostics;
  const counts = ["error", "warning", "note"]
    .map((severity) => [severity, others.filter((one) => one.severity === severity).length])
    .filter(([, times]) => times)
    .map(([severity, times]) => count(times, severity));
  return el(
    "div",
    { class: "diagnostics" },
    el("ul", {}, diagnosticNode(first)),
    others.length
      ? el(
          "details",
          {},
          el("summary", { text: `and ${counts.join(", ")}` }),
          el("ul", {}, others.map(diagnosticNode)),
        )
      : null,
  );
}

function diagnosticNode(one) {
  const figures = (one.figures ?? []).map(([name, value]) => `${plainly(name)} ${shortNumber(value)}`);
  return el(
    "li",
    { class: one.severity },
    el("span", { class: "tool", text: one.tool }),
    el("span", { class: "kind", text: plainly(one.category) }),
    el("code", { text: one.text }),
    one.logLine ? el("small", { text: `line ${number(one.logLine)} of the log` }) : null,
    figures.length ? el("small", { class: "figures", text: figures.join(", ") }) : null,
    one.notes?.length
      ? el(
          "details",
          { class: "notes" },
          el("summary", { text: count(one.notes.length, "note") }),
          el(
            "ul",
            {},
            one.notes.map((note) => el("li", {}, el("code", { text: note }))),
          ),
        )
      : null,
  );
}

const shortNumber = (value) =>
  Number.isInteger(value) && Math.abs(value) < 1e15 ? number(value) : String(Number(value.toPrecision(4)));

/** That an action failed as earlier steps did. */
function againNode(view, again) {
  const links = again.steps.flatMap((step, at) => [
    at ? ", " : "",
    el("a", { href: hashOf(view.row, step), text: String(step) }),
  ]);
  const more = again.times - again.steps.length;
  return el(
    "p",
    { class: "again" },
    `The same error as in step${again.times === 1 ? "" : "s"} `,
    links,
    more ? ` and ${number(more)} before` : "",
  );
}

/** How fast a kernel was, and by what method. */
function measuredNode(measured) {
  const times = [
    ["reference", measured.base],
    ["kernel", measured.kernel],
  ].filter(([, time]) => time !== undefined);
  return el(
    "p",
    { class: "measured" },
    "Measured: ",
    times.length ? `${times.map(([name, time]) => `${name} ${duration(time)}`).join(", ")}; ` : "",
    el("span", { class: "how", text: measured.how }),
  );
}

/** What hints at a measurement or a kernel that is not what it seems. */
function suspicionsNode(suspicions) {
  return el(
    "ul",
    { class: "suspicions" },
    suspicions.map((one) =>
      el(
        "li",
        {},
        el("b", { text: plainly(one.kind) }),
        el("span", { text: one.reason }),
        one.evidence ? el("code", { text: one.line ? `${one.line}: ${one.evidence}` : one.evidence }) : null,
      ),
    ),
  );
}

const KERNEL_COLUMNS = [
  ["Registers", (kernel) => kernel.registers],
  ["Spill stores", (kernel) => kernel.spillStores, size],
  ["Spill loads", (kernel) => kernel.spillLoads, size],
  ["Shared memory", (kernel) => kernel.shared, size],
  ["Stack", (kernel) => kernel.stack, size],
  ["Barriers", (kernel) => kernel.barriers],
  ["Compiled in", (kernel) => kernel.compile, duration],
];

/** What each entry function needs; columns that none of them tells are not there. */
function kernelsNode(kernels) {
  const columns = KERNEL_COLUMNS.filter(([, of]) => kernels.some((kernel) => of(kernel) !== undefined));
  return el(
    "div",
    { class: "wide-table" },
    el(
      "table",
      { class: "figures" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { text: "Kernel" }),
          columns.map(([name]) => el("th", { class: "num", text: name })),
        ),
      ),
      el(
        "tbody",
        {},
        kernels.slice(0, MOST_ROWS).map((kernel) =>
          el(
            "tr",
            {},
            el(
              "th",
              {},
              el("code", { text: kernel.entry }),
              kernel.arch ? el("small", { text: kernel.arch }) : null,
            ),
            columns.map(([name, of, format = number]) =>
              el("td", {
                class: `num ${name.startsWith("Spill") && of(kernel) ? "bad" : ""}`,
                text: of(kernel) === undefined ? "–" : format(of(kernel)),
              }),
            ),
          ),
        ),
      ),
    ),
  );
}

/** Stages as a table: how long, how much of the whole, what they took and gave. */
function stagesNode(stages) {
  const took = (stage) => (stage.end >= stage.start ? stage.end - stage.start : undefined);
  const rows = stages.slice(0, MOST_ROWS).flatMap((stage) => {
    const { share } = stage;
    const name = el("th", {}, el("bdi", { text: stage.name }));
    name.style.paddingLeft = `${8 + 16 * Math.min(stage.depth, 12)}px`;
    const bar = el("i", { class: "bar" });
    bar.style.width = `${Math.round(Math.min(1, share ?? 0) * 100)}%`;
    const end = stage.signal || (stage.exit === undefined ? "" : String(stage.exit));
    const row = el(
      "tr",
      { class: stage.error ? "fail" : "" },
      name,
      el("td", { class: "num", text: took(stage) === undefined ? "–" : duration(took(stage)) }),
      el(
        "td",
        { class: "share-of" },
        bar,
        el("small", { text: share === undefined ? "" : `${(share * 100).toFixed(1)} %` }),
      ),
      el("td", { class: "num", text: stage.cpu === undefined ? "–" : duration(stage.cpu) }),
      el("td", { class: "num", text: stage.childrenCpu === undefined ? "–" : duration(stage.childrenCpu) }),
      el("td", { class: "num", text: stage.memory === undefined ? "–" : size(stage.memory) }),
      el("td", {
        class: "num",
        text:
          stage.input === undefined && stage.output === undefined
            ? "–"
            : `${size(stage.input) || "?"} → ${size(stage.output) || "?"}`,
      }),
      el("td", { class: "num", text: end }),
    );
    const told = toldOf(stage);
    return told.length ? [row, el("tr", { class: "told" }, el("td", { colspan: 8 }, told))] : [row];
  });
  const head = ["Stage", "Time", "Share", "CPU", "CPU of children", "Peak memory", "In → out", "Exit"];
  return el(
    "details",
    { class: "stages", open: stages.length <= 12 },
    el("summary", { text: count(stages.length, "stage") }),
    el(
      "div",
      { class: "wide-table" },
      el(
        "table",
        { class: "figures" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            head.map((text, at) => el("th", { class: at && text !== "Share" ? "num" : "", text })),
          ),
        ),
        el("tbody", {}, rows),
      ),
    ),
    stages.length > MOST_ROWS
      ? el("p", { class: "notice", text: `The first ${MOST_ROWS} of ${number(stages.length)} are here.` })
      : null,
  );
}

/** What a stage tells besides its numbers. */
function toldOf(stage) {
  const told = [];
  if (stage.command) told.push(el("code", { class: "command", text: stage.command.join(" ") }));
  if (stage.macros?.length)
    told.push(
      el("p", { class: "macros" }, "Macros in force: ", el("code", { text: stage.macros.join(" ") })),
    );
  if (stage.error) told.push(el("p", { class: "why", text: stage.error }));
  if (stage.diagnostics?.length) told.push(diagnosticsNode(stage.diagnostics));
  if (stage.kernels?.length) told.push(kernelsNode(stage.kernels));
  if (stage.builder?.length)
    told.push(
      el(
        "dl",
        { class: "profile" },
        stage.builder.map(([name, value]) =>
          el(
            "div",
            {},
            el("dt", { text: plainly(name) }),
            el("dd", { text: typeof value === "number" ? shortNumber(value) : value }),
          ),
        ),
      ),
    );
  return told;
}
