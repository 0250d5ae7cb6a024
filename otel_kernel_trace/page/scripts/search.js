// Search in all texts.

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
