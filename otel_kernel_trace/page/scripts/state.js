// What is known of the tree, and what is shown of it.

const rows = new Map(); // number → row
const byKey = new Map(); // op/task as in hashes → number
const errors = new Map(); // number → [row, first error], from a server
let view = null; // the Overview or TaskView that is shown
let isFollowing = false;
let going = 0; // counts what was gone to, so that what comes late is left

function take(changed) {
  for (const [index, row] of changed) {
    rows.set(index, row);
    byKey.set(`${enc(row.op)}/${enc(row.task)}`, index);
  }
}

function errorOf(index, row) {
  if (row.error !== undefined) return row.error;
  const known = errors.get(index);
  if (known && known[0] === row) return known[1];
  return row.firstFailed === undefined ? "" : `step ${row.firstFailed} failed`;
}

/** A function that says whether somebody went elsewhere since. */
function staleness() {
  const own = going;
  return () => own !== going;
}
