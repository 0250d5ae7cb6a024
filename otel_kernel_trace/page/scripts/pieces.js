// Pieces of several views.

const badge = (outcome) => el("span", { class: `badge ${outcome}`, text: outcome });
const labelOf = (action) => `${action.type}${action.copy ? ` (${action.copy})` : ""}`;

const stat = (name, value, note) =>
  el(
    "div",
    {},
    el("dt", { text: name }),
    el("dd", {}, el("b", { text: value }), note ? el("small", { text: note }) : null),
  );

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
