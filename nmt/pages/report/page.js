const {runs} = data;  // made by nmt/pages/report/page.py
const SHOWN = 6;  // number of latest translations of a sentence by a run; earlier translations are folded
const SENTENCES = 10;
const hidden = new Set();  // indices of hidden runs

// Runs: each has a colour and a mark; after the sixth also a dash pattern

const COLOURS = 6;
const DASHES = ["none", "7 4", "2 3", "9 3 2 3"];
const MARKS = [
  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", "M-3.7,-3.7h7.4v7.4h-7.4z", "M0,-5L4.6,3.4H-4.6z",
  "M0,-5.2L5.2,0L0,5.2L-5.2,0z", "M0,5L4.6,-3.4H-4.6z", "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
];
const colour = run => `run-${run % COLOURS}`;
const dash = run => DASHES[Math.floor(run / COLOURS) % DASHES.length];

function swatch(run) {
  return draw("svg", {class: `swatch ${colour(run)}`, viewBox: "0 0 30 14", "aria-hidden": "true"},
    draw("path", {d: "M0,7H30", "stroke-dasharray": dash(run)}),
    draw("path", {d: MARKS[run % COLOURS], class: "mark", transform: "translate(15,7)"}));
}

const named = run => make("bdi", {textContent: runs[run].name});

/** Hide the element while its run is hidden. */
function of(run, element) {
  element.dataset.run = run;
  return element;
}

function showLegend() {
  at("legend").replaceChildren(...runs.map((_, run) => {
    const button = make("button", {type: "button", title: "Click: hide or show. Shift and click: show only this run"}, swatch(run), named(run));
    button.addEventListener("click", event => {
      if (event.shiftKey) runs.forEach((_, other) => other === run ? hidden.delete(other) : hidden.add(other));
      else if (!hidden.delete(run)) hidden.add(run);
      showRuns();
    });
    for (const [kind, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]])
      button.addEventListener(kind, () => emphasise(on && !hidden.has(run) ? run : null));
    return button;
  }));
}

function showRuns() {
  at("legend").querySelectorAll("button").forEach((button, run) => button.setAttribute("aria-pressed", !hidden.has(run)));
  document.querySelectorAll("[data-run]").forEach(element => { element.hidden = hidden.has(Number(element.dataset.run)); });
  drawCharts();
}

function emphasise(run) {
  document.querySelectorAll(".chart [data-of]").forEach(element =>
    element.classList.toggle("dim", run !== null && Number(element.dataset.of) !== run));
}

// Tables

function heads(first, ...more) {
  const columns = runs.map((_, run) => of(run, make("th", {scope: "col"}, swatch(run), named(run))));
  const corner = first ? make("th", {scope: "col", textContent: first}) : make("td");
  return make("thead", {}, make("tr", {}, corner, ...columns,
    ...more.map(textContent => make("th", {scope: "col", textContent}))));
}

function row({label, cells, differs}, mark = false) {
  return make("tr", {className: mark && differs ? "differs" : ""}, make("th", {scope: "row", textContent: label}),
    ...cells.map((text, run) => of(run, make("td", {}, make("bdi", {textContent: text})))));
}

function showTables() {
  at("summary").append(make("table", {className: "data"}, heads(""), make("tbody", {}, ...data.summary.map(each => row(each)))));
  const groups = data.scores.flatMap(({title, rows}) =>
    [make("tr", {}, make("th", {colSpan: runs.length + 1, scope: "rowgroup", textContent: title})), ...rows.map(each => row(each))]);
  at("scores").append(make("table", {className: "data"}, heads(""), make("tbody", {}, ...groups)));
  at("scores-note").textContent = data.unlike;
  at("scores-note").hidden = !data.unlike;
  at("scores-sheet").hidden = !data.scores.length;
  at("signatures").append(...data.signatures.flatMap(({score, signature, runs: held}) => {
    const whose = held.length < runs.length ? ` (${held.map(run => runs[run].name).join(", ")})` : "";
    return [make("dt", {textContent: score}), make("dd", {}, signature, make("small", {textContent: whose}))];
  }));
  at("signatures-part").hidden = !data.signatures.length;
  at("environment").append(data.environment.length
    ? make("table", {className: "data"}, heads(""), make("tbody", {}, ...data.environment.map(each => row(each, true))))
    : make("p", {className: "note", textContent: "Not recorded."}));
  showSessions();
  showByRun("stages", ["stage", "from step", "corpora", "length"],
    data.stages.map(stages => stages.map(({mix, end, step}, i) => [i + 1, count(step), mix, end])));
  showByRun("mix", ["corpus", "share", "passes", "−log P per subword"], data.corpora);
  showData();
}

function showSessions() {
  const rows = data.sessions.flatMap((sessions, run) => sessions.map(each => of(run, make("tr", {},
    make("th", {scope: "row"}, swatch(run), " ", named(run)),
    ...[clock(each.started), count(each.step), clock(each.ended), count(each.last_step), each.outcome ?? "still training, or killed"]
      .map(textContent => make("td", {textContent}))))));
  const titles = ["run", "started (UTC)", "at step", "ended (UTC)", "at step", "outcome"];
  const head = make("thead", {}, make("tr", {}, ...titles.map(textContent => make("th", {scope: "col", textContent}))));
  at("sessions").append(rows.length ? make("table", {className: "data"}, head, make("tbody", {}, ...rows))
    : make("p", {className: "note", textContent: "Not recorded."}));
}

/** A table with rows for some of the runs. Its part of the page is hidden if there are no rows. */
function showByRun(id, titles, ofRuns) {
  const rows = ofRuns.flatMap((rows, run) => rows.map(cells => of(run, make("tr", {},
    make("th", {scope: "row"}, swatch(run), " ", named(run)), ...cells.map(textContent => make("td", {textContent}))))));
  const head = make("thead", {}, make("tr", {}, ...["run", ...titles].map(textContent => make("th", {scope: "col", textContent}))));
  at(id).append(make("table", {className: "data"}, head, make("tbody", {}, ...rows)));
  at(`${id}-part`).hidden = !rows.length;
}

function showData() {
  for (const {tables, runs: held} of data.data) {
    const whose = held.length === runs.length ? [runs.length > 1 ? "The same in all runs" : ""]
      : held.flatMap((run, i) => [i ? ", " : "", swatch(run), " ", named(run)]);
    at("corpora").append(make("p", {className: "where"}, ...whose));
    if (!tables) {
      at("corpora").append(make("p", {className: "note", textContent:
        "Not recorded in the run folder, and the prepared data was not found."}));
      continue;
    }
    for (const table of tables) at("corpora").append(tableOf(`Data by ${table[0][0]}`, table), make("p"));
  }
}

const WHICH = {
  differ: ["settings that differ between runs", setting => setting.differs],
  changed: ["settings that differ from their default", setting => setting.cells.some(cell => cell !== setting.default)],
  all: ["all settings", () => true],
};

function showSettings() {
  const shown = data.settings.filter(WHICH[at("which").value][1]);
  at("settings-note").textContent = `${shown.length} of ${data.settings.length} settings`
    + (runs.length > 1 ? "; highlighted where the runs differ" : "");
  at("settings").replaceChildren(make("table", {className: "data"}, heads("setting", "default"), make("tbody", {}, ...shown.map(setting => {
    const line = row(setting, true);
    line.append(make("td", {className: "default", textContent: setting.default || "required"}));
    return line;
  }))));
  showRuns();
}

// Translations over time

/** Translations in order; equal consecutive translations are one: {from, to, text}. */
function stretches(translations) {
  const found = [];
  for (const [step, text] of translations) {
    if (found.length && found.at(-1).text === text) found.at(-1).to = step;
    else found.push({from: step, to: step, text});
  }
  return found;
}

function ofRun(sample, run) {
  const [, lang] = runs[run].languages;
  const items = stretches(sample.runs[run]).map(({from, to, text}) => make("li", {},
    make("span", {textContent: from === to ? count(from) : `${count(from)} – ${count(to)}`}),
    make("bdi", {dir: "auto", lang, textContent: text || "(nothing)", className: text === sample.reference ? "right" : ""})));
  const earlier = items.splice(0, Math.max(0, items.length - SHOWN));
  const folded = earlier.length ? [make("details", {},
    make("summary", {textContent: `${earlier.length} earlier`}), make("ol", {}, ...earlier))] : [];
  return of(run, make("div", {}, make("h3", {}, swatch(run), " ", named(run)), ...folded, make("ol", {}, ...items)));
}

function showSamples() {
  const cards = data.samples.map(sample => {
    const [source, target] = runs[sample.runs.findIndex(each => each.length)].languages;
    return make("div", {className: "sample"},
      make("dl", {}, make("dt", {textContent: "source"}), make("dd", {dir: "auto", lang: source, textContent: sample.source}),
        make("dt", {textContent: "reference"}), make("dd", {dir: "auto", lang: target, className: "reference", textContent: sample.reference})),
      make("div", {className: "columns"}, ...sample.runs.flatMap((each, run) => each.length ? [ofRun(sample, run)] : [])));
  });
  const rest = cards.splice(SENTENCES);
  at("samples").append(...cards);
  if (rest.length) at("samples").append(make("details", {}, make("summary", {textContent: `${rest.length} more sentences`}), ...rest));
  at("samples-note").textContent = data.samples.length
    ? "Validation sentences and their translations, with the step of the validation. Green: equal to the reference."
    : "None: samples.jsonl is empty. Validation did not translate, or training.validation_samples was 0.";
}

function start() {
  at("written").textContent = `Written by nmt ${data.nmt}, ${clock(data.written)} UTC`;
  const notes = runs.flatMap(run => run.notes);
  at("notes").hidden = !notes.length;
  at("notes-list").append(...notes.map(textContent => make("li", {textContent})));
  const which = Object.entries(WHICH).filter(([value]) => value !== "differ" || runs.length > 1);
  at("which").append(...which.map(([value, [textContent]]) => make("option", {value, textContent})));
  at("which").addEventListener("change", showSettings);
  showLegend();
  showTables();
  showCharts();
  showSamples();
  showSettings();
}
start();
