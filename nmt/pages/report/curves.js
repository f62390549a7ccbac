// The learning curves of the report. page.js has the `runs`, their colours, and which runs are hidden.
let axis = "step", zoom = null, cursor = null;  // zoom: [from, to] on the x axis; cursor: a position on it
let smoothing = 0;  // of the training curves, from 0 to 1

// Data of the charts

const CHARTS = [
  {title: "Loss", note: "−log P per subword; line: training, marks: validation", lines: [["training", "nll"], ["validation", "validation_loss"]]},
  ...Object.entries(data.metrics).map(([name, title]) => ({title, note: "on the validation set", lines: [["validation", name]]})),
  {title: "Training loss", note: "with label smoothing", lines: [["training", "loss"]]},
  {title: "Learning rate", lines: [["training", "learning_rate"]], zero: true},
  {title: "Gradient norm", lines: [["training", "gradient_norm"]], zero: true},
  {title: "Speed", note: "target subwords per second", lines: [["training", "target_tokens_per_second"]], zero: true},
  {title: "Padding", note: "share of all tokens in the batch", lines: [["training", "padding"]], zero: true, percent: true},
  {title: "Arithmetic", note: "TFLOP/s", lines: [["training", "tflops"]], zero: true},
  {title: "Waiting for data", note: "share of the time", lines: [["training", "data_wait"]], zero: true, percent: true},
  {title: "Peak memory", note: "GPU, GiB", lines: [["training", "peak_memory_gib"]], zero: true},
  {title: "Loss scale", note: "float16", lines: [["training", "loss_scale"]], zero: true},
  {title: "Overflows", note: "skipped steps, float16", lines: [["training", "overflows"]], zero: true},
];
const AXES = {step: "steps", tokens: "target subwords", hours: "hours of training"};

/** The charts for which a run has values: each chart of CHARTS, followed by the charts of single validation sets, and a
 * chart for each other metric. Differences from the start are only in the tables, because their curves would be the
 * curves of the scores, shifted. */
function chartsThereAre() {
  const metrics = new Map();  // kind and name, by both in one string
  for (const run of runs) for (const kind of ["training", "validation"]) for (const name of Object.keys(run[kind].values))
    if (!name.includes("_since_start")) metrics.set(String([kind, name]), [kind, name]);
  const known = CHARTS.flatMap(chart => {
    const metric = `${chart.lines.at(-1)[1]}, `, ofSets = [...metrics.values()].filter(([kind, name]) => kind === "validation" && name.startsWith(metric));
    return [chart, ...ofSets.map(line => ({title: `${chart.title}, ${line[1].slice(metric.length)}`, note: "on this validation set", lines: [line]}))];
  });
  const drawn = new Set(known.flatMap(({lines}) => lines.map(String)));
  const others = [...metrics.values()].filter(line => !drawn.has(String(line))).map(([kind, name]) => ({title: name, note: kind, lines: [[kind, name]]}));
  return [...known, ...others].filter(({lines}) => lines.some(line => metrics.has(String(line))));
}

/** The exponential moving average of the points with decay `smoothing` (Kingma and Ba 2015, section 3, for the bias
 * correction). */
function smoothed(points) {
  let total = 0, weight = 0;
  return points.map(point => {
    [total, weight] = [smoothing * total + point.y, smoothing * weight + 1];
    return {...point, y: total / weight};
  });
}

/** The lines of a chart over the current axis: {run, kind, points: [{x, y, step}]}. Training lines are smoothed;
 * `measured` lines are not. */
function linesOf(chart) {
  return chart.lines.flatMap(([kind, name], i) => runs.flatMap((run, number) => {
    const {step, values} = run[kind], column = values[name];
    if (hidden.has(number) || !column) return [];
    const measured = column.map((y, j) => ({x: run[kind][axis][j], y, step: step[j]})).filter(({x, y}) => x !== null && y !== null);
    const points = kind === "training" ? smoothed(measured) : measured;
    return points.length ? [{run: number, kind, beside: chart.lines.length > 1 && !i, points, measured}] : [];
  }));
}

function exact(value, percent) {
  if (percent) return `${(100 * value).toFixed(2)} %`;
  if (value && Math.abs(value) < 1e-3) return value.toExponential(3).replace("e-", "e−");
  return value.toLocaleString("en", Math.abs(value) < 1000 ? {maximumSignificantDigits: 5} : {maximumFractionDigits: 0});
}

/** The smallest and the largest number, made different if they are equal. */
function extent(numbers) {
  const [low, high] = numbers.reduce(([a, b], number) => [Math.min(a, number), Math.max(b, number)], [Infinity, -Infinity]);
  return low < high ? [low, high] : low === high ? [low - (Math.abs(low) || 1) / 10, high + (Math.abs(high) || 1) / 10] : [0, 1];
}

// On the page

const HEIGHT = 230, TOP = 10, RIGHT = 14, BOTTOM = 40;
let charts = [];

function drawCharts() {
  cursor = null;
  const all = charts.flatMap(chart => chart.lines.flatMap(([kind]) => runs.flatMap((run, number) =>
    hidden.has(number) ? [] : run[kind][axis].filter(x => x !== null))));
  const whole = [0, extent([0, ...all])[1]];
  for (const chart of charts) drawChart(chart, zoom ?? whole);
  at("whole").disabled = !zoom;
  showCursor(null);
}

function drawChart(chart, [from, to]) {
  const {svg} = chart, width = svg.clientWidth || 600;
  chart.drawn = linesOf(chart);
  const seen = chart.drawn.flatMap(({measured}) => measured.filter(({x}) => x >= from && x <= to).map(({y}) => y));
  let [low, high] = extent(chart.zero ? [0, ...seen] : seen);
  const room = (high - low) * .05;
  [low, high] = [chart.zero && low === 0 ? 0 : low - room, high + room];
  const rows = ticks(low, high, 5), labels = written(rows, chart.percent);
  const left = 12 + 6.6 * Math.max(...labels.map(label => label.length)), bottom = HEIGHT - BOTTOM;
  const [w, h] = [width - left - RIGHT, bottom - TOP];
  chart.x = value => (value - from) / (to - from) * w;
  chart.y = value => h - (value - low) / (high - low) * h;
  chart.value = pixel => from + Math.min(1, Math.max(0, (pixel - left) / w)) * (to - from);
  chart.box = {left, w, h};
  const columns = ticks(from, to, Math.max(2, Math.floor(w / 75))), places = written(columns);
  const plot = draw("svg", {x: left, y: TOP, width: w, height: h, overflow: zoom ? "hidden" : "visible"},
    ...chart.drawn.map(line => drawLine(chart, line)));
  chart.over = draw("g", {transform: `translate(${left},${TOP})`});
  svg.replaceChildren(
    ...rows.flatMap((value, i) => [
      draw("line", {class: "grid", x1: left, x2: width - RIGHT, y1: TOP + chart.y(value), y2: TOP + chart.y(value)}),
      draw("text", {x: left - 7, y: TOP + chart.y(value) + 4, "text-anchor": "end"}, labels[i])]),
    ...columns.flatMap((value, i) => [
      draw("line", {class: "frame", x1: left + chart.x(value), x2: left + chart.x(value), y1: bottom, y2: bottom + 4}),
      draw("text", {x: left + chart.x(value), y: bottom + 16, "text-anchor": "middle"}, places[i])]),
    draw("path", {class: "frame", d: `M${left},${TOP}V${bottom}H${width - RIGHT}`}),
    draw("text", {x: left + w / 2, y: HEIGHT - 6, "text-anchor": "middle"},
      seen.length ? AXES[axis] : chart.drawn.length ? "no values in this part" : `no values by ${AXES[axis]}`),
    ...stageMarks(chart, from, to, left), plot, chart.over);
}

/** Lines where stages of the mix began, except at the start of a run. */
function stageMarks(chart, from, to, left) {
  return runs.flatMap(({stages}, run) => hidden.has(run) ? [] : stages[axis].flatMap((place, i) => {
    if (place === null || !stages.step[i] || place < from || place > to) return [];
    const x = left + chart.x(place), label = `stage ${stages.values.number[i]}`;
    return [draw("g", {class: `stage ${colour(run)}`, "data-of": run},
      draw("line", {x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM}),
      place > (from + to) / 2 ? draw("text", {x: x - 4, y: TOP + 10, "text-anchor": "end"}, label)
        : draw("text", {x: x + 4, y: TOP + 10}, label))];
  }));
}

function drawLine(chart, {run, kind, beside, points, measured}) {
  const path = places => places.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  const placed = list => list.map(({x, y}) => [chart.x(x), chart.y(y)]), places = placed(points);
  const apart = (places.at(-1)[0] - places[0][0]) / places.length > 9 || places.length === 1;
  const marked = kind === "validation" && apart ? places : [places.at(-1)];
  return draw("g", {class: colour(run), "data-of": run},
    ...(smoothing && kind === "training" ? [draw("path", {class: "measured", d: path(placed(measured))})] : []),
    draw("path", {class: `curve ${kind}${beside ? " beside" : ""}`, d: path(places), "stroke-dasharray": dash(run)}),
    ...(beside ? [] : marked.map(([x, y]) =>
      draw("path", {class: "mark", d: MARKS[run % COLOURS], transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`}))));
}

/** The point of a line that is nearest to a position on the x axis. */
function nearest(points, x) {
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle].x < x) low = middle; else high = middle;
  }
  return Math.abs(points[high].x - x) < Math.abs(points[low].x - x) ? points[high] : points[low];
}

/** Draw a line through all charts at the cursor, and show the values of the chart under the pointer. */
function showCursor(pointed) {
  for (const chart of charts) {
    const near = cursor === null ? [] : chart.drawn.map(line => ({...line, point: nearest(line.points, cursor)}));
    chart.over.replaceChildren(...(near.length ? [draw("line", {class: "cross", x1: chart.x(cursor), x2: chart.x(cursor), y1: 0, y2: chart.box.h})] : []),
      ...near.filter(({point}) => !zoom || (point.x >= zoom[0] && point.x <= zoom[1])).map(({run, point}) => draw("path", {class: `mark ${colour(run)}`,
        d: MARKS[run % COLOURS], transform: `translate(${chart.x(point.x)},${chart.y(point.y)})`})));
    if (chart === pointed) showTip(chart, near);
  }
  at("tip").hidden = !pointed || cursor === null || !pointed.drawn.length;
}

function showTip(chart, near) {
  const both = chart.lines.length > 1;
  const head = axis === "hours" ? `${exact(cursor)} hours` : `${axis === "step" ? "step " : ""}${count(Math.round(cursor))}${axis === "step" ? "" : " target subwords"}`;
  at("tip").replaceChildren(make("div", {className: "head", textContent: head}), ...near.map(({run, kind, point}) =>
    make("div", {className: "line"}, swatch(run), make("span", {}, named(run)),
      make("small", {textContent: [both ? kind : "", smoothing && kind === "training" ? "smoothed" : "", point.x === cursor ? "" : `at ${count(point.step)}`].filter(Boolean).join(" ")}),
      make("b", {textContent: exact(point.y, chart.percent)}))));
  const figure = chart.svg.parentElement, x = chart.box.left + chart.x(cursor);
  figure.append(at("tip"));
  at("tip").hidden = false;
  const wide = at("tip").offsetWidth, after = x + 14 + wide <= figure.clientWidth;
  at("tip").style.left = `${Math.max(0, after ? x + 14 : x - 14 - wide)}px`;
  at("tip").style.top = `${chart.svg.previousElementSibling.offsetHeight + TOP}px`;
}

function listen(chart) {
  const {svg} = chart;
  let from = null;  // where a drag began, in pixels
  const pixel = event => event.clientX - svg.getBoundingClientRect().left;
  const snapped = x => chart.drawn.map(({points}) => nearest(points, x).x).reduce((best, each) => Math.abs(each - x) < Math.abs(best - x) ? each : best, Infinity);
  svg.addEventListener("pointermove", event => {
    if (!chart.drawn.length) return;
    cursor = snapped(chart.value(pixel(event)));
    showCursor(chart);
    if (from !== null) {
      const [a, b] = [from, pixel(event)].map(x => chart.x(chart.value(x))).sort((a, b) => a - b);
      chart.over.append(draw("rect", {class: "select", x: a, width: b - a, y: 0, height: chart.box.h}));
    }
  });
  svg.addEventListener("pointerdown", event => {
    from = pixel(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointerup", event => {
    const [a, b] = [from ?? 0, pixel(event)].sort((a, b) => a - b);
    if (from !== null && b - a > 8) zoom = [chart.value(a), chart.value(b)];
    from = null;
    if (b - a > 8) drawCharts();
  });
  svg.addEventListener("pointercancel", () => { from = null; });
  for (const kind of ["pointerleave", "blur"]) svg.addEventListener(kind, () => { cursor = null; showCursor(null); });
  svg.addEventListener("dblclick", wholeAgain);
  svg.addEventListener("keydown", event => {
    const direction = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!direction || !chart.drawn.length) return;
    event.preventDefault();
    const places = [...new Set(chart.drawn.flatMap(({points}) => points.map(({x}) => x)))].sort((a, b) => a - b);
    const beyond = direction > 0 ? places.find(x => x > (cursor ?? -Infinity)) : places.findLast(x => x < (cursor ?? Infinity));
    cursor = beyond ?? cursor;
    showCursor(chart);
  });
}

function wholeAgain() {
  zoom = null;
  drawCharts();
}

function showCharts() {
  charts = chartsThereAre().map(chart => ({...chart, svg: draw("svg", {
    class: "chart", tabindex: 0, role: "img", "aria-label": `${chart.title}. Arrow keys show values.`})}));
  at("charts").append(...charts.map(chart =>
    make("figure", {}, make("figcaption", {}, chart.title, make("small", {textContent: chart.note ?? ""})), chart.svg)));
  charts.forEach(listen);
  at("axes").append(...Object.entries(AXES).map(([value, name]) => {
    const radio = make("input", {type: "radio", name: "axis", value, checked: value === axis});
    radio.addEventListener("change", () => { axis = value; wholeAgain(); });
    return make("label", {}, radio, ` ${name}`);
  }));
  const means = runs.filter(run => run.training.rows_a_point > 1).map(run => `${run.name}: each point is the mean of ${run.training.rows_a_point} logged values.`);
  at("axes").parentElement.hidden = !charts.length;
  at("curves-note").textContent = charts.length
    ? ["Move the pointer over a chart to see values; drag to zoom in.", ...means, data.unlike].join(" ")
    : "No values have been logged yet.";
  at("whole").addEventListener("click", wholeAgain);
  at("smoothing").addEventListener("input", () => {
    smoothing = Number(at("smoothing").value);
    drawCharts();
  });
  new ResizeObserver(drawCharts).observe(at("charts"));
}
