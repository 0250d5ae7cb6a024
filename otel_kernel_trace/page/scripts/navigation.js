// Going from one view to the other.

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
      next = await TaskView.open(index, isStale, route);
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
