// What changed between two attempts.

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
