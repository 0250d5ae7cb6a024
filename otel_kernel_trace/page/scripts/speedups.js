// Speedups over attempts.

function drawSpeedups(view, panel) {
  const attempts = view.task.attempts;
  const measured = attempts.filter((attempt) => attempt.speedup !== undefined);
  const judged = attempts.filter((attempt) => attempt.passed !== undefined);
  if (!judged.length) {
    panel.append(
      el("p", {
        class: "notice",
        text: attempts.length ? "No attempt has a verdict." : "No attempt is recorded.",
      }),
    );
    return null;
  }
  const note = [
    `${count(judged.length, "attempt")} verified`,
    `${judged.filter((a) => a.passed).length} passed`,
    measured.length ? `best ${speedup(Math.max(...measured.map((a) => a.speedup)))}` : "none measured",
  ].join(", ");
  panel.append(el("p", { class: "panel-note", text: note }));
  const x = judged.map((_, at) => at + 1);
  const y = judged.map((attempt) => attempt.speedup ?? null);
  let best = null;
  const bests = y.map((value) => (best = value === null ? best : Math.max(best ?? 0, value)));
  const failed = judged.map((attempt) => attempt.passed === false);
  const values = measured.map((attempt) => attempt.speedup).filter((value) => value > 0);
  const isLog = values.length > 1 && Math.max(...values) / Math.min(...values) > 30;
  const [ink, line, good, bad, accent] = ["ink-2", "line", "pass", "fail", "accent"].map(colour);
  const font = "11px system-ui, sans-serif";
  const holder = el("div", { class: "chart", role: "img", "aria-label": `Speedup over attempts: ${note}` });
  panel.append(holder);
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const top = values.length ? Math.max(...values, 1) : 1;
  const bottom = values.length ? Math.min(...values, 1) : 0;
  return new uPlot(
    {
      width: Math.max(200, holder.clientWidth),
      height: 168,
      legend: { show: false },
      padding: [10, 12, 0, 0],
      cursor: { y: false, drag: { setScale: false }, points: { size: 8 } },
      scales: {
        x: { time: false, range: [0.5, judged.length + 0.5] },
        y: isLog ? { distr: 3, range: [bottom / 1.5, top * 1.5] } : { range: [0, top * 1.1] },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          size: 28,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
          values: (_, at) =>
            at.map((value) =>
              Number.isInteger(value) && value >= 1 && value <= judged.length ? `${value}` : "",
            ),
        },
        {
          ...axis,
          size: 46,
          values: (_, at) =>
            at.map((value) =>
              value === null || (isLog && !/^[125]/.test(value.toExponential()))
                ? ""
                : `${+value.toPrecision(3)}×`,
            ),
        },
      ],
      series: [
        {},
        {
          label: "best so far",
          stroke: good,
          width: 1,
          dash: [4, 3],
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: false },
        },
        {
          label: "speedup",
          stroke: accent,
          width: 1.5,
          spanGaps: true,
          points: { show: true, size: judged.length > 200 ? 3 : 6, fill: accent },
        },
      ],
      hooks: {
        draw: [
          (plot) => {
            const { ctx, bbox } = plot;
            const ratio = devicePixelRatio;
            ctx.save();
            const one = plot.valToPos(1, "y", true);
            if (values.length && one >= bbox.top && one <= bbox.top + bbox.height) {
              ctx.strokeStyle = ink;
              ctx.setLineDash([2 * ratio, 3 * ratio]);
              ctx.beginPath();
              ctx.moveTo(bbox.left, one);
              ctx.lineTo(bbox.left + bbox.width, one);
              ctx.stroke();
              ctx.setLineDash([]);
            }
            // Attempts that failed have no speedup: a cross at the bottom; those that passed unmeasured, a dot.
            const size = (judged.length > 200 ? 2 : 3.5) * ratio;
            const foot = bbox.top + bbox.height - 8 * ratio;
            for (const [at, attempt] of judged.entries()) {
              if (attempt.speedup !== undefined) continue;
              const here = plot.valToPos(at + 1, "x", true);
              ctx.strokeStyle = ctx.fillStyle = failed[at] ? bad : good;
              ctx.lineWidth = 1.5 * ratio;
              ctx.beginPath();
              if (failed[at]) {
                ctx.moveTo(here - size, foot - size);
                ctx.lineTo(here + size, foot + size);
                ctx.moveTo(here + size, foot - size);
                ctx.lineTo(here - size, foot + size);
                ctx.stroke();
              } else {
                ctx.arc(here, foot, size, 0, 7);
                ctx.fill();
              }
            }
            ctx.restore();
          },
        ],
        ready: [
          (plot) => {
            const at = () => judged[Math.round(plot.posToVal(plot.cursor.left, "x")) - 1];
            plot.over.addEventListener("mousemove", (event) => {
              const attempt = at();
              if (!attempt) return hideTip();
              showTip(event.clientX, event.clientY, [
                `Attempt ${judged.indexOf(attempt) + 1}, step ${attempt.step}`,
                attempt.passed
                  ? attempt.speedup === undefined
                    ? "passed, not measured"
                    : `passed, ${speedup(attempt.speedup)}`
                  : "failed",
              ]);
            });
            plot.over.addEventListener("mouseleave", hideTip);
            plot.over.addEventListener("click", () => {
              const attempt = at();
              if (attempt) view.goTo(attempt.step);
            });
          },
        ],
      },
    },
    [x, bests, y],
    holder,
  );
}
