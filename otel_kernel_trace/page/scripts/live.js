// Following a running pipeline.

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

function switchFollowing() {
  if (!isServed) return;
  isFollowing = !isFollowing;
  $("follow").setAttribute("aria-pressed", String(isFollowing));
  if (isFollowing && view instanceof TaskView && view.steps.length)
    view.goTo(view.steps[view.steps.length - 1].number, false);
}
