// Numbers, durations, sizes and times, as a person reads them.

const grouped = new Intl.NumberFormat("en");
const number = (value) => grouped.format(value);
const count = (value, what) => `${number(value)} ${what}${value === 1 ? "" : "s"}`;

function short(value) {
  if (value < 10_000) return number(value);
  const [divisor, unit] = value < 1e6 ? [1e3, "k"] : value < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${(value / divisor).toFixed(value / divisor < 100 ? 1 : 0)} ${unit}`;
}

function duration(ms) {
  if (ms === undefined || ms === null) return "";
  if (ms <= 0) return "0";
  if (ms < 0.001) return `${Math.max(1, Math.round(ms * 1e6))} ns`;
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

function size(bytes) {
  if (bytes === undefined) return "";
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6
    ? `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} kB`
    : `${(bytes / 1e6).toFixed(1)} MB`;
}

const speedup = (value) =>
  value === undefined
    ? ""
    : `${value >= 100 ? number(Math.round(value)) : value >= 10 ? value.toFixed(1) : value.toFixed(2)}×`;

const clock = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const dated = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
});
const when = (ms, format = clock) => (ms === undefined ? "" : format.format(new Date(ms)));
