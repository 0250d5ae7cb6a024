// Keys.

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
