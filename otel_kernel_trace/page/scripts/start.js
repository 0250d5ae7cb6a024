// Begin.

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
