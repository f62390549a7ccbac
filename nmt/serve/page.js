const {limits, languages, formats, low_confidence: low} = data;  // made by nmt/serve/app.py
const PAUSE = 400;  // milliseconds after the last key until the text is translated
const RANKS = Math.min(limits.n_best, 8);  // number of translations in the details of a line
const names = Object.fromEntries(languages.map(({code, name}) => [code, name]));
const HOW = {own: "the model’s own word", learned: "the model was given it", placed: "replaces the model’s own word"};
let shown = [];  // {source, target, terms, confidence} of each line

const pair = () => ({from: at("from").value, to: at("to").value});
const seconds = number => `${number} second${number === 1 ? "" : "s"}`;

function say(id, text, wrong = false) {
  at(id).textContent = text;
  at(id).classList.toggle("wrong", wrong);
}

// The server

/** An answer that is not a result. wait: seconds until the request can be repeated, if the server says so. */
class Refusal extends Error {
  constructor(message, status = 0, wait = null) {
    super(message);
    Object.assign(this, {status, wait});
  }
}

/** The server's response. Throws a Refusal if its status is not 200, or an AbortError if `signal` is aborted. */
async function received(path, options) {
  const {signal} = options;
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    signal.throwIfAborted();
    throw new Refusal("The server does not answer. Check that it is running and that you are connected, then try again.");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));  // proxies answer with HTML
  signal.throwIfAborted();
  const {status} = response, wait = Number(response.headers.get("Retry-After")) || 1;
  if (status === 429) throw new Refusal(`The server is busy. Try again in ${seconds(wait)}.`, status, wait);
  if ([503, 504].includes(status) || (status === 502 && !answer.error)) throw new Refusal("The server is not available at the moment. Try again in a minute.", status);
  throw new Refusal(answer.error ? `${answer.error}.` : `The server answered with status ${status}. Try again later.`, status);
}

/** The translations of each line, best first, and a warning. Throws as `received`. */
async function ask(lines, options, signal) {
  const body = JSON.stringify({text: lines, ...options});
  const response = await received("translate", {method: "POST", headers: {"Content-Type": "application/json"}, body, signal});
  const {translations, warning = ""} = await response.json().catch(() => ({}));
  signal.throwIfAborted();
  if (!translations) throw new Refusal("The server answered with no translation. Try again later.", response.status);
  return {translations, warning};
}

/** The number of characters as the server counts them: code points without line breaks. */
const characters = lines => lines.reduce((total, line) => total + [...line].length, 0);

// Terms

/** A term and what became of it. Each side has its own direction. */
const inWords = ({source, target, how}) => `\u2068${source}\u2069 → \u2068${target}\u2069: ${HOW[how]}`;

/** A translation as texts and, between them, the marked terms of a glossary. */
function marked(text, terms) {
  const used = new Map(terms.filter(({how}) => how !== "failed").map(term => [term.target.toLowerCase(), term]));
  if (!used.size) return [text];
  const targets = [...used.keys()].sort((a, b) => b.length - a.length).map(target => target.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  // Whole words in scripts with capitals; some of the others write no spaces.
  const pattern = new RegExp(`(?<!\\p{LC})(${targets.join("|")})(?![\\p{LC}\\p{M}])`, "giu");
  return text.split(pattern).map((part, i) => {
    const term = i % 2 && used.get(part.toLowerCase());
    return term ? make("mark", {title: inWords(term), textContent: part}) : part;
  });
}

// Confidence

const isLow = ({confidence}) => confidence < low;  // false without one

/** The mark of a line with a low confidence, at its end. It is no part of the text: it is not copied, and the direction
 * of the line does not depend on it. */
const lowMark = ({confidence}) => make("span", {className: "low", lang: "en", dir: "ltr", title: "The expected chrF, from 0 to 100"},
  make("span", {ariaHidden: true, textContent: "▼ "}), make("span", {className: "unseen", textContent: "Low confidence: "}), confidence.toFixed(0));

// Translating while typing

let timer, translating = new AbortController();

/** The text or a language has changed: shown and pending translations are out of date. */
function changed() {
  clearTimeout(timer);
  translating.abort();
  at("translation").setAttribute("aria-busy", shown.length > 0);
  showCount();
  timer = setTimeout(translate, PAUSE);
}

async function translate() {
  clearTimeout(timer);
  translating.abort();
  const {signal} = translating = new AbortController();
  const text = at("source").value, lines = text.split("\n");
  const problem = showCount();
  if (problem || !text.trim()) return show([], problem);
  say("status", "Translating …");
  const started = performance.now();
  try {
    const {translations, warning} = await ask(lines, pair(), signal);
    show(lines.map((source, i) => {
      const [{text: target, terms = [], confidence}] = translations[i];
      return {source, target, terms, confidence};
    }));
    const number = shown.filter(isLow).length, marks = number ? `. ${number} of ${lines.length} lines: low confidence (▼)` : "";
    say("status", `Translated in ${((performance.now() - started) / 1000).toFixed(2)} s${marks}${warning && `. ${warning}`}`);
  } catch (error) {
    if (!signal.aborted) show([], error.message);
  }
}

/** Show how much of the limit the text uses. Returns what to do if it is too long. */
function showCount() {
  const lines = at("source").value.split("\n"), number = characters(lines);
  say("count", `${count(number)} / ${count(limits.characters)} characters`, number > limits.characters);
  at("clear").disabled = !at("source").value;
  for (const [there, limit, unit] of [[number, limits.characters, "characters"], [lines.length, limits.lines, "lines"]]) {
    if (there > limit) return `${count(there)} ${unit}, more than ${count(limit)} at once: shorten the text, or save it as a file and choose “Translate a file”.`;
  }
  return "";
}

/** Show lines with their translations, or no lines and the reason. */
function show(lines, problem = "") {
  shown = lines;
  const blank = shown.length === 0;
  at("translation").replaceChildren(...shown.map(line => make("p", {dir: "auto"}, ...(isLow(line) ? [lowMark(line)] : []), ...marked(line.target, line.terms))));
  at("translation").setAttribute("aria-busy", false);
  at("copy").disabled = blank;
  at("again").hidden = !problem;
  say("status", problem, problem !== "");
  say("copied", "");
  at("details").hidden = blank || !limits.scores;
  at("lines").hidden = shown.length < 2;
  const before = at("line").value;
  at("line").replaceChildren(...shown.map(({target}, i) => make("option", {value: i, textContent: `${i + 1}: ${target.slice(0, 80)}`, disabled: !target})));
  const first = shown.findIndex(({target}) => target);
  at("line").value = shown[before]?.target ? before : Math.max(0, first);
  showDetails();
}

async function copy() {
  const text = shown.map(({target}) => target).join("\n");
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // browsers support it only for https and localhost
    getSelection().selectAllChildren(at("translation"));
    document.execCommand("copy");
  }
  say("copied", "Copied");
}

// Languages

/** The options of a list of languages, sorted by their names. */
const options = codes => codes.toSorted((a, b) => names[a].localeCompare(names[b], "en"))
  .map(code => make("option", {value: code, textContent: names[code]}));

function showLanguages({from, to}) {
  const {targets} = languages.find(({code}) => code === from);
  at("from").value = from;
  at("to").replaceChildren(...options(targets));
  at("to").value = targets.includes(to) ? to : targets[0];
  for (const id of ["from", "to"]) at(id).disabled = at(id).options.length < 2;
  const chosen = pair();
  at("swap").hidden = !languages.some(({code, targets}) => code === chosen.to && targets.includes(chosen.from));
  at("source").lang = chosen.from;
  at("translation").lang = chosen.to;
  document.title = `${names[chosen.from]} to ${names[chosen.to]}`;
  changed();
}

function swap() {
  const {from, to} = pair();
  if (shown.length) at("source").value = shown.map(({target}) => target).join("\n");
  showLanguages({from: to, to: from});
}

// Details of a line

let asking = new AbortController();

async function showDetails() {
  asking.abort();
  const number = Number(at("line").value), line = shown[number];
  const open = at("details").open && Boolean(line?.target);
  [...at("translation").children].forEach((element, i) => element.classList.toggle("chosen", open && i === number));
  at("found").setAttribute("aria-busy", open);  // the details of the previous line stay meanwhile, so that the page does not jump
  if (!open) return;
  const {signal} = asking = new AbortController();
  try {
    const {translations} = await ask([line.source], {...pair(), n_best: RANKS, alignment: limits.alignment}, signal);
    showBest(translations[0]);
    say("details-status", "");
  } catch (error) {
    if (signal.aborted) return;
    at("found").hidden = true;
    say("details-status", error.status === 413 ? "The line is too long to show details: split it into sentences." : error.message, true);
  }
}

function showBest(translations) {
  at("best").tBodies[0].replaceChildren(...translations.map((one, rank) => {
    const radio = make("input", {type: "radio", name: "rank", checked: rank === 0});
    radio.addEventListener("change", () => showSubwords(one));
    const numbers = [one.score.toFixed(2), ...(low === null ? [] : [one.confidence?.toFixed(1) ?? "–"])];
    return make("tr", {}, ...numbers.map(textContent => make("td", {textContent})),
      make("td", {}, make("label", {}, radio, make("span", {dir: "auto", lang: at("to").value, textContent: one.text}))));
  }));
  showSubwords(translations[0]);
  at("found").setAttribute("aria-busy", false);
  at("found").hidden = false;
}

/** A row for each subword of a translation: its probability, and its attention to each subword of the text. */
function showSubwords({pieces, token_scores: scores, alignment, source_pieces: sources}) {
  at("subwords-note").textContent = "“▁” is a space, “</s>” the end. The percentage is the probability that the model gave the subword."
    + (alignment ? " The columns are the subwords of the text: stronger colour means more attention to them." : "");
  const percent = share => `${Math.round(100 * share)} %`;
  const head = alignment ? sources.map(piece => make("th", {scope: "col"}, make("span", {dir: "auto", textContent: piece}))) : [];
  at("subwords").tHead.replaceChildren(make("tr", {}, make("td"), make("td"), ...head));
  let start = 0;  // the first source subword of the part: a long line is translated in parts
  at("subwords").tBodies[0].replaceChildren(...pieces.map((piece, y) => {
    const row = make("tr", {}, make("th", {scope: "row"}, make("bdi", {textContent: piece})),
      make("td", {className: "share", textContent: percent(Math.exp(scores[y]))}));
    if (!alignment) return row;
    row.append(...sources.map((source, x) => {
      const weight = alignment[y][x - start] ?? 0;
      const cell = make("td", {className: "cell", title: `${piece} → ${source}: ${percent(weight)}`}, make("span", {className: "unseen", textContent: percent(weight)}));
      cell.style.setProperty("--weight", weight);
      return cell;
    }));
    if (piece === sources.at(-1)) start += alignment[y].length;
    return row;
  }));
}

// Files

let filing = new AbortController();

/** Lines in parts of the size of one request. */
function* parts(lines) {
  let part = [], size = 0;
  for (const line of lines) {
    const length = characters([line]);
    if (part.length && (part.length === limits.lines || size + length > limits.characters)) {
      yield part;
      [part, size] = [[], 0];
    }
    part.push(line);
    size += length;
  }
  yield part;
}

/** As `ask`, but waits if the server is busy. */
async function askAndWait(lines, options, signal) {
  for (;;) {
    try {
      return await ask(lines, options, signal);
    } catch (error) {
      if (!error.wait) throw error;
      say("file-status", `The server is busy: waiting for ${seconds(error.wait)}.`);
      await new Promise(resolve => setTimeout(resolve, 1000 * error.wait));
      signal.throwIfAborted();
    }
  }
}

/** A text translated line by line, as a file, and a warning. Throws as `ask`, and a TypeError if the file is not text
 * in UTF-8. */
async function translatedText(file, chosen, signal) {
  const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  const lines = text.split(/\r\n|\r|\n/), [ending = "\n"] = text.match(/\r\n|\r|\n/) ?? [];
  const translated = [], warnings = new Set();
  for (const part of parts(lines)) {
    say("file-status", `${file.name}: line ${count(translated.length + 1)} of ${count(lines.length)} …`);
    try {
      const {translations, warning} = await askAndWait(part, chosen, signal);
      translated.push(...translations);
      if (warning) warnings.add(warning);
    } catch (error) {
      if (translated.length) error.message = `from line ${count(translated.length + 1)}: ${error.message}`;
      throw error;
    }
  }
  return [new Blob([translated.map(([best]) => best.text).join(ending)], {type: "text/plain"}), ...warnings];
}

/** A document translated by the server, as a file, and notes on it. Throws as `received`. */
async function translatedDocument(file, {from, to}, signal) {
  if (file.size > limits.file) throw new Refusal(`more than ${count(limits.file / 2 ** 20)} MiB. Split it into smaller ones.`);
  say("file-status", `${file.name}: translating …`);
  const body = new FormData();
  for (const [name, value] of [["source", from], ["target", to], ["file", file]]) body.append(name, value);
  const {translatedFileUrl, warning, notes = []} = await (await received("translate_file", {method: "POST", body, signal})).json();
  const address = translatedFileUrl.split("/").at(-1);  // behind a proxy, the server can have another URL
  return [await (await received(`download_file/${address}`, {signal})).blob(), ...(warning ? [warning] : []), ...notes];
}

/** Translate a file, and offer the translation as a file. */
async function translateFile(file) {
  filing.abort();
  const {signal} = filing = new AbortController(), chosen = pair();
  at("file-row").hidden = at("cancel").hidden = false;
  at("result").hidden = true;
  const [ending = ""] = file.name.toLowerCase().match(/\.[^.]*$/) ?? [];
  try {
    const translated = ending !== ".txt" && formats.includes(ending) ? translatedDocument : translatedText;
    const [blob, ...notes] = await translated(file, chosen, signal);
    signal.throwIfAborted();
    const name = file.name.replace(/(\.[^.]*)?$/, `.${chosen.to}$1`);
    URL.revokeObjectURL(at("result").href);
    Object.assign(at("result"), {href: URL.createObjectURL(blob), download: name, textContent: `Save ${name}`, hidden: false});
    say("file-status", [`${file.name} is translated.`, ...notes].join("\n"));
  } catch (error) {
    if (signal.aborted) return;
    const why = error.message.replace(`${file.name}: `, "");
    say("file-status", error instanceof Refusal ? `${file.name}: ${why}`
      : `${file.name}: this is not text in UTF-8${formats.length ? `, nor of ${formats.join(", ")}` : ""}. Save it as one of them and choose it again.`, true);
  }
  at("cancel").hidden = true;
}

function listenForFiles() {
  at("file").accept = ["text/plain", ...formats].join();
  at("file").addEventListener("change", () => {
    if (at("file").files.length) translateFile(at("file").files[0]);
    at("file").value = "";  // so that the same file can be chosen again
  });
  at("cancel").addEventListener("click", () => {
    filing.abort();
    at("file-row").hidden = true;
  });
  const holds = event => event.dataTransfer.types.includes("Files");
  const light = on => at("panes").classList.toggle("dropping", on);
  addEventListener("dragover", event => {
    if (!holds(event)) return;
    event.preventDefault();
    light(true);
  });
  addEventListener("dragleave", event => { if (!event.relatedTarget) light(false); });
  addEventListener("drop", event => {
    if (!holds(event)) return;
    event.preventDefault();
    light(false);
    translateFile(event.dataTransfer.files[0]);
  });
}

function start() {
  at("source").addEventListener("input", event => { if (!event.isComposing) changed(); });
  at("source").addEventListener("compositionend", changed);
  at("source").addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  at("form").addEventListener("submit", event => {
    event.preventDefault();
    translate();
  });
  at("clear").addEventListener("click", () => {
    at("source").value = "";
    translate();
    at("source").focus();
  });
  at("copy").addEventListener("click", copy);
  at("swap").addEventListener("click", swap);
  for (const id of ["from", "to"]) at(id).addEventListener("change", () => showLanguages(pair()));
  at("line").addEventListener("change", showDetails);
  at("details").addEventListener("toggle", showDetails);
  at("translation").addEventListener("click", event => {
    const line = event.target.closest("p");
    if (!line?.textContent || !getSelection().isCollapsed) return;  // selected text stays selected
    at("line").value = [...at("translation").children].indexOf(line);
    if (at("details").open) showDetails();
    else at("details").open = true;
    at("details").scrollIntoView({block: "nearest"});
  });
  listenForFiles();
  for (const element of document.querySelectorAll(".confidence")) element.hidden = low === null;
  const sources = languages.filter(({targets}) => targets.length);
  at("from").append(...options(sources.map(({code}) => code)));
  show([]);
  showLanguages({from: sources[0].code, to: sources[0].targets[0]});
}
start();
