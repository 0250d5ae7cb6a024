// Where one is, as a hash: #/op/task/step/part?q=…&n=…

const wellFormed = (text) =>
  text.toWellFormed ? text.toWellFormed() : text.replace(/\p{Surrogate}/gu, "\ufffd");
const enc = (text) => encodeURIComponent(wellFormed(String(text)));

function hashOf(row, step, part, query, nth) {
  let hash = `#/${enc(row.op)}/${enc(row.task)}`;
  if (step !== undefined && step !== null) hash += `/${step}`;
  if (part) hash += `/${enc(part)}`;
  if (query) hash += `?q=${enc(query)}${nth ? `&n=${nth}` : ""}`;
  return hash;
}

function parsedHash() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const words = path
    ? path.split("/").map((word) => {
        try {
          return enc(decodeURIComponent(word));
        } catch {
          return word;
        }
      })
    : [];
  const asked = new URLSearchParams(query);
  let part;
  try {
    part = words[3] && decodeURIComponent(words[3]);
  } catch {
    part = undefined;
  }
  return {
    key: words.length > 1 ? `${words[0]}/${words[1]}` : "",
    step: words[2] === undefined || words[2] === "all" ? undefined : Number(words[2]),
    isAll: words[2] === "all",
    part,
    query: asked.get("q") ?? "",
    nth: Number(asked.get("n") ?? 0),
  };
}
