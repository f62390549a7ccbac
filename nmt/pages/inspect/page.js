const {source, target, attention, alignment, beam, positions} = data;  // docs/looking-inside.md explains the fields
const EVERY = "mean";  // of layers or of heads
const FAINTEST = 0.02;  // smallest share of attention that is drawn as a line
let picked = null;  // {side: "from" or "to", index}

const percent = share => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const sum = numbers => numbers.reduce((total, number) => total + number, 0);
const language = code => {
  try {
    return new Intl.DisplayNames(["en"], {type: "language"}).of(code.replace("_", "-")) ?? code;
  } catch {
    return code;
  }
};

// Attention: numbers

const units = pieces => pieces.map((text, i) => ({text, start: i, end: i + 1}));

/** The words or subwords of a kind's rows and columns. The decoder's inputs are <s> and the target without its end. */
function labels(kind, unit) {
  const of = side => unit === "words" ? side.words : units(side.pieces);
  const inputs = () => [{text: "<s>", start: 0, end: 1},
    ...of(target).slice(0, -1).map(({text, start, end}) => ({text, start: start + 1, end: end + 1}))];
  if (kind === "encoder") return {rows: of(source), columns: of(source)};
  return {rows: of(target), columns: kind === "cross" ? of(source) : inputs()};
}

const chosen = (list, which) => which === EVERY ? list : [list[Number(which)]];

/** Rows of shares: the mean over the chosen heads; summed over a word's columns, averaged over its rows. */
function shares(kind, layer, head, {rows, columns}) {
  const tables = chosen(attention[kind], layer).flatMap(heads => chosen(heads, head));
  const cell = (y, column) => sum(tables.map(table => sum(table[y].slice(column.start, column.end)))) / tables.length;
  const places = row => Array.from({length: row.end - row.start}, (_, i) => row.start + i);
  return rows.map(row => columns.map(column => sum(places(row).map(y => cell(y, column))) / (row.end - row.start)));
}

// Attention: on the page

const TITLES = {
  encoder: ["source", "attends to (source)"], decoder: ["predicted", "attends to (before it)"],
  cross: ["predicted", "attends to (source)"],
};

function options(select, count, name, mean, value) {
  select.replaceChildren(make("option", {value: EVERY, textContent: mean}),
    ...Array.from({length: count}, (_, i) => make("option", {value: i, textContent: `${name} ${i + 1}`})));
  select.value = value !== EVERY && Number(value) >= count ? EVERY : value;
}

function chooseKind() {
  const [layers, heads] = [attention[at("kind").value].length, attention[at("kind").value][0].length];
  options(at("layer"), layers, "layer", "mean of all layers", at("layer").value || Math.max(0, layers - 2));
  options(at("head"), heads, "head", "mean of all heads", at("head").value || EVERY);
  picked = null;
  showHeads();
  showAttention();
}

let shown;  // {rows, columns, table}: what the viewer shows

function showAttention() {
  const [kind, layer, head, unit] = ["kind", "layer", "head", "unit"].map(id => at(id).value);
  const {rows, columns} = labels(kind, unit);
  shown = {rows, columns, table: shares(kind, layer, head, {rows, columns})};
  [at("from-title").textContent, at("to-title").textContent] = TITLES[kind];
  fill("from", rows);
  fill("to", columns);
  showHeat();
  for (const button of at("heads").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.dataset.layer === layer && button.dataset.head === head);
  }
  showPicked();
}

function fill(side, tokens) {
  at(side).replaceChildren(...tokens.map(({text}, index) => {
    const button = make("button", {type: "button"}, make("bdi", {textContent: text}), make("small"));
    if (side === "from") button.prepend(button.lastChild);
    button.addEventListener("click", () => {
      picked = picked?.side === side && picked.index === index ? null : {side, index};
      showPicked();
    });
    return make("li", {}, button);
  }));
}

/** The CSS classes of the cells of a row of attention to the source, if attention is limited to some positions. */
function marks(row, columns) {
  if (at("kind").value !== "cross") return columns.map(() => "");
  const places = list => (list ?? []).slice(row.start, row.end);
  const last = source.pieces.length - 1;
  const holds = (column, place) => column.start <= place && place < column.end;
  const middles = places(data.centers).map(center => Math.min(last, Math.round(center)));
  const near = ({start, end}) => places(data.centers).some(center => end - 1 >= center - data.window && start <= center + data.window);
  return columns.map(column => [
    near(column) && "near",
    middles.some(place => holds(column, place)) && "center",
    places(data.chosen).some(place => holds(column, place)) && "read",
  ].filter(Boolean).join(" "));
}

/** Draw the lines, and beside each word its share of the attention of the selected word. */
function showPicked() {
  const {rows, columns, table} = shown;
  const buttons = Object.fromEntries(["from", "to"].map(side => [side, [...at(side).querySelectorAll("button")]]));
  const share = (side, i) => {
    if (!picked || picked.side === side) return null;
    return side === "to" ? table[picked.index][i] : table[i][picked.index];
  };
  for (const [side, list] of Object.entries(buttons)) {
    list.forEach((button, i) => {
      const part = share(side, i);
      button.setAttribute("aria-pressed", picked?.side === side && picked.index === i);
      button.style.setProperty("--share", part ?? 0);
      button.querySelector("small").textContent = part === null ? "" : percent(part);
    });
  }
  [...at("heat").tBodies[0].rows].forEach((row, y) => row.classList.toggle("picked", picked?.side === "from" && picked.index === y));
  say(rows, columns, table);
  const between = [];
  table.forEach((row, y) => row.forEach((part, x) => {
    const hidden = picked && (picked.side === "from" ? picked.index !== y : picked.index !== x);
    if (!hidden && part >= FAINTEST) between.push([buttons.from[y], buttons.to[x], picked ? Math.sqrt(part) : part]);
  }));
  lines(at("lines"), between, false);
}

function say(rows, columns, table) {
  if (!picked) {
    at("says").textContent = "Select a word on the left to see what it attends to, or a word on the right to see what attends to it.";
    return;
  }
  const isRow = picked.side === "from";
  const others = (isRow ? table[picked.index] : table.map(row => row[picked.index]))
    .map((part, i) => [part, (isRow ? columns : rows)[i].text]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  at("says").replaceChildren("“", make("bdi", {textContent: (isRow ? rows : columns)[picked.index].text}),
    isRow ? "” attends to " : "” gets attention from ",
    ...others.flatMap(([part, text], i) => [i ? ", “" : "“", make("bdi", {textContent: text}), `” (${percent(part)})`]));
}

/** Curves from one element to another, sideways or downwards. Their opacity is their share. */
function lines(svg, between, down) {
  const box = svg.getBoundingClientRect();
  svg.replaceChildren(...between.map(([one, other, part]) => {
    const [a, b] = [one, other].map(element => element.getBoundingClientRect());
    const [ax, ay] = down ? [(a.left + a.right) / 2 - box.left, 0] : [0, (a.top + a.bottom) / 2 - box.top];
    const [bx, by] = down ? [(b.left + b.right) / 2 - box.left, box.height] : [box.width, (b.top + b.bottom) / 2 - box.top];
    const [mx, my] = [(ax + bx) / 2, (ay + by) / 2];
    const d = down ? `M${ax} ${ay}C${ax} ${my} ${bx} ${my} ${bx} ${by}` : `M${ax} ${ay}C${mx} ${ay} ${mx} ${by} ${bx} ${by}`;
    return draw("path", {d, "stroke-opacity": Math.min(1, part).toFixed(3)});
  }));
}

/** A picture of a heat map with one pixel for each cell. */
function picture(rows, colour) {
  const canvas = make("canvas", {width: rows[0].length, height: rows.length});
  const context = canvas.getContext("2d");
  rows.forEach((row, y) => row.forEach((value, x) => {
    context.fillStyle = colour(value);
    context.fillRect(x, y, 1, 1);
  }));
  return canvas;
}

function showHeads() {
  const kind = at("kind").value;
  const heat = getComputedStyle(document.documentElement).getPropertyValue("--heat");
  const layers = attention[kind];
  const single = layers.length * layers[0].length === 1;
  for (const part of [at("every"), at("layer").parentNode, at("head").parentNode]) part.hidden = single;
  at("heads").style.gridTemplateColumns = `repeat(${layers[0].length + 1}, max-content)`;
  at("heads").replaceChildren(make("span"), ...layers[0].map((_, head) => make("span", {textContent: `head ${head + 1}`})),
    ...layers.flatMap((heads, layer) => [make("span", {textContent: `layer ${layer + 1}`}), ...heads.map((table, head) => {
      const button = make("button", {type: "button", ariaLabel: `layer ${layer + 1}, head ${head + 1}`});
      Object.assign(button.dataset, {layer, head});
      button.append(picture(table, part => `rgb(${heat} / ${part})`));
      button.addEventListener("click", () => {
        [at("layer").value, at("head").value] = [layer, head];
        showAttention();
      });
      return button;
    })]));
}

function showHeat() {
  const {rows, columns, table} = shown;
  at("heat").tHead.replaceChildren(make("tr", {}, make("td"),
    ...columns.map(({text}) => make("th", {scope: "col"}, make("span", {dir: "auto", textContent: text})))));
  at("heat").tBodies[0].replaceChildren(...rows.map((row, y) => {
    const marked = marks(row, columns);
    return make("tr", {}, make("th", {scope: "row"}, make("bdi", {textContent: row.text})), ...table[y].map((part, x) => {
      const said = [percent(part), ...["center", "read"].filter(mark => marked[x].split(" ").includes(mark))].join(", ");
      const cell = make("td", {className: marked[x], title: `${row.text} → ${columns[x].text}: ${said}`},
        make("span", {className: "unseen", textContent: said}));
      cell.style.setProperty("--share", part);
      return cell;
    }));
  }));
  const cross = at("kind").value === "cross";
  at("marks").textContent = [
    cross && data.centers && `A dot marks the position around which the decoder looks, p; lines mark its window, p ± ${data.window} subwords.`,
    cross && data.chosen && "A frame marks the position that is read, the most probable one.",
  ].filter(Boolean).join(" ");
}

// Alignment, without the ends of sentences

function showAlignment() {
  at("alignment-note").textContent = `The attention of each word of the translation to each word of the source (${alignment.by}).`;
  const [sources, targets] = [source, target].map(side => side.words.slice(0, -1));
  for (const [id, list] of [["align-source", sources], ["align-target", targets]]) {
    at(id).replaceChildren(...list.map(({text}) => make("li", {textContent: text})));
  }
  at("align-table").tBodies[0].replaceChildren(...targets.map(({text}, y) => {
    const ranked = sources.map((word, x) => [alignment.weights[y][x], word.text]).sort((a, b) => b[0] - a[0]);
    const cells = ranked.slice(0, 2).map(([part, word]) => make("td", {}, make("bdi", {textContent: word}), ` ${percent(part)}`));
    return make("tr", {}, make("th", {scope: "row"}, make("bdi", {textContent: text})), ...cells);
  }));
}

function drawAlignment() {
  const [above, below] = ["align-source", "align-target"].map(id => [...at(id).children]);
  lines(at("align-lines"), below.flatMap((element, y) => above.map((other, x) => [other, element, alignment.weights[y][x]]))
    .filter(([, , part]) => part >= 0.05), true);
}

// The beam

const parents = place => place === null ? [] : [...parents(beam.nodes[place].parent), place];

function showBest() {
  at("beam-note").textContent = `A beam of ${beam.size} considered ${beam.nodes.length} hypotheses in ${beam.nodes.at(-1).step} steps. `
    + "A row is a step, a box one hypothesis: its last subword, log P of that subword and of the hypothesis. Select one to see its path.";
  at("best").tBodies[0].replaceChildren(...data.hypotheses.map((one, i) => {
    const button = make("button", {type: "button", dir: "auto", textContent: one.text || "\u00a0"});
    button.addEventListener("click", () => lightPath(beam.nodes.findIndex(node => node.rank === i + 1)));
    const number = value => make("td", {textContent: value.toFixed(3)});
    return make("tr", {}, number(one.score), number(one.log_probability), make("td", {}, button));
  }));
}

const BOX = 36, LEAST = 84, GAP = 10, BETWEEN = 30, STEP = 26;  // pixels: a box and its least width, the space around it, the numbers of the steps
const context = document.createElement("canvas").getContext("2d");

/** The subword in the middle of a box, condensed if it is wider than the box. */
function label(text, x, y, width) {
  context.font = "700 13px system-ui, sans-serif";
  const wide = context.measureText(text).width > width - 8;
  return draw("text", {x, y, ...(wide && {textLength: width - 8, lengthAdjust: "spacingAndGlyphs"})}, text);
}

/** Each step of the search is a row, so that the page stays narrow for long translations. */
function showTree() {
  const order = ["kept", "open", "finished", "dropped"];
  const steps = [];
  beam.nodes.forEach((node, place) => {
    if (node.fate !== "dropped" || at("dropped").checked) (steps[node.step - 1] ??= []).push(place);
  });
  const most = Math.max(...steps.map(places => places.length));
  const room = at("tree").parentElement.clientWidth - STEP - 4;
  const width = Math.max(LEAST, Math.min(180, Math.floor(room / most) - GAP));
  const where = new Map([[null, [STEP, 4]]]);
  steps.forEach((places, step) => {
    places.sort((a, b) => order.indexOf(beam.nodes[a].fate) - order.indexOf(beam.nodes[b].fate) || a - b);
    places.forEach((place, i) => where.set(place, [STEP + i * (width + GAP), 4 + (step + 1) * (BOX + BETWEEN)]));
  });
  const edges = [], boxes = [box(null, {piece: "<s>", fate: "kept"}, where.get(null), width)];
  for (const place of steps.flat()) {
    const node = beam.nodes[place], [x, y] = where.get(place), [px, py] = where.get(node.parent);
    const [from, to, middle] = [px + width / 2, x + width / 2, (py + BOX + y) / 2];
    edges.push(draw("path", {d: `M${from} ${py + BOX}C${from} ${middle} ${to} ${middle} ${to} ${y}`, "data-place": place}));
    boxes.push(box(place, node, [x, y], width));
  }
  const numbers = steps.map((_, step) => draw("text", {x: STEP / 2 - 4, y: 4 + (step + 1) * (BOX + BETWEEN) + BOX / 2 + 4, class: "number"}, step + 1));
  at("tree").setAttribute("width", STEP + most * (width + GAP));
  at("tree").setAttribute("height", 8 + (steps.length + 1) * (BOX + BETWEEN) - BETWEEN);
  at("tree").replaceChildren(...edges, ...boxes, ...numbers);
}

function box(place, node, [x, y], width) {
  const group = draw("g", {class: node.fate},
    draw("rect", {x, y, width, height: BOX}),
    label(node.piece, x + width / 2, y + 15, width));
  if (place === null) return group;
  const numbers = `${node.log_p.toFixed(2)} · ${node.total.toFixed(2)}`;
  const name = `${node.piece} ${numbers}, ${node.fate}`;  // the name begins with the visible text
  for (const [key, value] of Object.entries({tabindex: 0, role: "button", "aria-label": name, "data-place": place})) group.setAttribute(key, value);
  group.append(draw("text", {x: x + width / 2, y: y + 29, class: "number"}, numbers), draw("title", {}, name));
  group.addEventListener("click", () => lightPath(place));
  group.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    lightPath(place);
  });
  return group;
}

let lit = null;

function lightPath(place) {
  lit = place < 0 ? null : place;
  const nodes = parents(lit);
  for (const element of at("tree").querySelectorAll("[data-place]")) {
    element.classList.toggle("lit", nodes.includes(Number(element.dataset.place)));
  }
  at("best").querySelectorAll("button").forEach((button, i) => {
    button.setAttribute("aria-pressed", lit !== null && beam.nodes[lit].rank === i + 1);
  });
  if (lit === null) return;
  const node = beam.nodes[lit];
  at("path").replaceChildren(make("bdi", {textContent: nodes.map(i => beam.nodes[i].piece).join(" ")}),
    ` — ${node.fate === "open" ? "open at the end of the search" : node.fate} at step ${node.step}, log P ${node.total.toFixed(3)}`
    + (node.fate === "finished" ? `, score ${node.score.toFixed(3)}` : ""));
}

// Positions

function showPositions() {
  const most = Math.max(...Object.values(positions.tables).flat(2).map(Math.abs)) || 1;
  const [low, high] = [[103, 0, 31], [5, 48, 97]];
  const colour = value => {
    const end = value < 0 ? low : high, part = Math.abs(value) / most;
    return `rgb(${end.map(channel => 255 + (channel - 255) * part).join(" ")})`;
  };
  at("positions").replaceChildren(...Object.entries(positions.tables).map(([name, table]) =>
    make("figure", {}, make("figcaption", {textContent: positions.titles[name]}), picture(table, colour))));
}

function start() {
  at("model").textContent = data.model;
  for (const [id, side] of [["source", source], ["target", target]]) {
    Object.assign(at(id), {textContent: side.text, lang: side.language});
    at(`${id}-title`).textContent = language(side.language) + (id === "target" && target.given ? " (given)" : "");
  }
  at("scores").textContent = `score ${target.score.toFixed(3)}, log P ${target.log_probability.toFixed(3)}, ${target.pieces.length} subwords`;
  at("missing").textContent = data.missing;
  const here = {attention: attention.cross, aligned: alignment.weights, encodings: positions.layout};
  for (const [id, there] of Object.entries(here)) at(id).hidden = !there;
  showBest();
  showTree();
  lightPath(beam.nodes.findIndex(node => node.rank === 1));
  const again = () => {
    showTree();
    lightPath(lit ?? -1);
  };
  at("dropped").addEventListener("change", again);
  new ResizeObserver(again).observe(at("tree").parentElement);
  if (positions.layout) showPositions();
  if (attention.cross) startAttention();
}

function startAttention() {
  for (const option of [...at("kind").options]) if (!attention[option.value]) option.remove();
  at("kind").addEventListener("change", chooseKind);
  for (const id of ["layer", "head"]) at(id).addEventListener("change", showAttention);
  at("unit").addEventListener("change", () => {
    picked = null;
    showAttention();
  });
  chooseKind();
  showAlignment();
  new ResizeObserver(() => {
    showPicked();
    drawAlignment();
  }).observe(document.querySelector("main"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    showHeads();
    showAttention();
  });
}

start();
