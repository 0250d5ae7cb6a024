// Found text, marked where it stands.

/** Mark what was found, without changing the document, and scroll to one of it. */
function markFound(node, query, nth) {
  const pieces = [];
  let length = 0;
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.closest(".gutter, button, .notice")) continue;
    pieces.push([length, walker.currentNode]);
    texts.push(walker.currentNode.data);
    length += walker.currentNode.data.length;
  }
  const text = texts.join("");
  const needle = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
  const ranges = [];
  let piece = 0;
  const place = (at) => {
    while (piece + 1 < pieces.length && pieces[piece + 1][0] <= at) piece++;
    return [pieces[piece][1], at - pieces[piece][0]];
  };
  for (let match; ranges.length < 2000 && (match = needle.exec(text)) && match[0];) {
    const range = new Range();
    range.setStart(...place(match.index));
    range.setEnd(...place(match.index + match[0].length));
    ranges.push(range);
  }
  const wanted = ranges[Math.min(nth, ranges.length - 1)];
  if (window.Highlight && CSS.highlights) {
    CSS.highlights.set("found", new Highlight(...ranges));
    CSS.highlights.set("found-here", new Highlight(...(wanted ? [wanted] : [])));
  }
  requestAnimationFrame(() => {
    if (!wanted) return node.closest(".part").scrollIntoView({ block: "start" });
    const top = wanted.getBoundingClientRect().top;
    scrollTo({ top: scrollY + top - innerHeight / 3 });
  });
}
