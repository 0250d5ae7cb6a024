// What pictures have in common: the style's colours, and tips.

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
