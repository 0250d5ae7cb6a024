// Where data come from: this document, or a server.

const config = JSON.parse($("config").textContent);
const isServed = config.mode === "serve";
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const isRead = new Promise((done) => {
  if (document.readyState !== "loading") done();
  else document.addEventListener("DOMContentLoaded", done, { once: true });
});

/** All of it is in this document, in blocks. */
class Report {
  blocks = new Map(); // number → promise of its bytes, those used last at the end

  async block(index) {
    let bytes = this.blocks.get(index);
    this.blocks.delete(index);
    this.blocks.set(index, (bytes ??= this.inflate(index)));
    while (this.blocks.size > 16) this.blocks.delete(this.blocks.keys().next().value);
    return bytes;
  }

  async inflate(index) {
    const id = `b${index}`;
    // The last block may still be arriving: it is whole when there is something behind it.
    if (!$(id)?.nextElementSibling) await isRead;
    const packed = $(id).textContent;
    let bytes;
    if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(packed);
    else {
      const binary = atob(packed);
      bytes = new Uint8Array(binary.length);
      for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
    }
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async read([block, offset, length]) {
    if (!length) return "";
    return decoder.decode((await this.block(block)).subarray(offset, offset + length));
  }

  async overview() {
    const rows = JSON.parse(await this.read(config.overview));
    return rows.map((row, index) => [index, row]);
  }

  async task(index, row) {
    return JSON.parse(await this.read(row.ref));
  }

  async text(part) {
    if (part.gone) throw new Error(part.gone);
    return { text: await this.read(part.ref), isCut: Boolean(part.cut) };
  }

  async errors() {
    return {};
  }

  /** What is found in a task; `isOver` says whether it still matters. */
  async search(index, row, query, isOver) {
    const task = await this.task(index, row);
    const needle = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
    const found = { hits: [], more: false, texts: 0 };
    let rested = performance.now();
    for (const [action, { parts }] of task.actions.entries()) {
      for (const part of parts) {
        if (!part.ref) continue;
        if (performance.now() - rested > 20) {
          await later(0);
          if (isOver()) return found;
          rested = performance.now();
        }
        const text = await this.read(part.ref);
        found.texts++;
        needle.lastIndex = 0;
        for (let nth = 0, match; nth < 5 && (match = needle.exec(text)); nth++) {
          if (found.hits.length >= 200) return { ...found, more: true };
          found.hits.push({
            action,
            part: part.name,
            nth,
            before: text.slice(Math.max(0, match.index - 80), match.index),
            found: match[0],
            after: text.slice(match.index + match[0].length, match.index + match[0].length + 80),
          });
          if (!match[0]) break;
        }
      }
    }
    return found;
  }
}

/** A server has it, of a tree that may be being written to. */
class Server {
  run = "";
  revision = 0;

  async get(path) {
    const answer = await fetch(path, { cache: "no-store", credentials: "omit" });
    if (!answer.ok)
      throw new Error(answer.status === 404 ? await answer.text() : `the server says ${answer.status}`);
    return answer;
  }

  async overview() {
    const said = await (await this.get(`api/overview?run=${this.run}&since=${this.revision}`)).json();
    if (this.run && said.run !== this.run) location.reload(); // another server, with other numbers
    this.run = said.run;
    this.revision = said.revision;
    return Object.entries(said.rows).map(([index, row]) => [Number(index), row]);
  }

  task = async (index) => (await this.get(`api/task/${index}`)).json();

  async text(part) {
    const answer = await this.get(`api/text/${part.ref}`);
    return { text: decoder.decode(await answer.arrayBuffer()), isCut: answer.headers.has("X-Cut") };
  }

  errors = async (indexes) => (await this.get(`api/errors?tasks=${indexes.join(",")}`)).json();

  search = async (index, row, query) =>
    (await this.get(`api/search/${index}?q=${encodeURIComponent(wellFormed(query))}`)).json();
}

const source = isServed ? new Server() : new Report();
