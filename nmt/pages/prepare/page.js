const OPEN = 3;  // more corpora than this are folded; data: made by nmt/pages/prepare/page.py
/** A share in percent. Only 0 is shown as 0 %, and only 1 as 100 %. */
function percent(part, whole, digits = 2) {
  if (!whole || !part || part === whole) return !whole ? "–" : part ? "100 %" : "0 %";
  const [least, share] = [10 ** -digits, 100 * part / whole];
  return share < least ? `< ${least} %` : share > 100 - least ? `> ${100 - least} %` : `${share.toFixed(digits)} %`;
}
const note = textContent => make("p", {className: "note", textContent});

/** Text with signs for control characters and invisible characters, which corpora can contain. */
const visible = text => text.replace(/[\x00-\x1f\x7f]/g, c => c === "\x7f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt()))
  .replace(/[\x80-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g, c => `[U+${c.charCodeAt().toString(16).toUpperCase().padStart(4, "0")}]`);

const sentence = (text, lang) => make("bdi", {dir: "auto", lang, textContent: visible(text)});

/** Pairs with their scores, if they have any. languages: the codes of source and target, as below. */
function pairsOf(examples, languages) {
  const scored = examples.some(({score}) => score !== null && score !== undefined);
  const format = score => Number.isInteger(score) ? count(score) : score.toFixed(Math.abs(score) < 2 ? 3 : 2);
  return make("ol", {className: scored ? "pairs" : "pairs plain"}, ...examples.map(({source, target, score}) => make("li", {},
    ...(scored ? [make("span", {textContent: score === null ? "" : format(score)})] : []), sentence(source, languages[0]), sentence(target, languages[1]))));
}

// Dropped pairs

function dropOf(drop, {read, languages}) {
  const line = () => make("div", {className: drop.off ? "drop off" : "drop"}, make("div", {textContent: drop.reason}),
    make("div", {textContent: drop.off ? "off" : count(drop.pairs)}), make("div", {textContent: drop.off ? "" : percent(drop.pairs, read)}),
    make("code", {textContent: drop.setting === "–" ? "" : `${drop.setting}: ${drop.limit}`}));
  if (!drop.dropped.length && !drop.near.length) return line();
  const parts = [];
  if (drop.dropped.length) parts.push(make("h4", {textContent: drop.dropped.length < drop.pairs ? `Dropped: ${drop.dropped.length} of ${count(drop.pairs)}` : "Dropped"}), pairsOf(drop.dropped, languages));
  if (drop.near.length) parts.push(make("h4", {textContent: "Kept, nearest to the limit"}), pairsOf(drop.near, languages));
  return make("details", {}, make("summary", {}, line()), ...parts);
}

// Distributions

const HEIGHT = 200, TOP = 8, RIGHT = 12, BOTTOM = 36, BARS = 40;

/** The shares of values in bins of equal width. The last bin has all larger values. counts: [value, times]. */
function binned(counts, width, first, bins) {
  const shares = Array(bins).fill(0), all = counts.reduce((sum, [, times]) => sum + times, 0);
  for (const [value, times] of counts) shares[Math.min(bins - 1, Math.floor((value - first) / width))] += times / all;
  return shares;
}

/** The smallest value that at least this share of all values do not exceed. */
function quantile(counts, share) {
  const all = counts.reduce((sum, [, times]) => sum + times, 0);
  let below = 0;
  for (const [value, times] of counts) if ((below += times) >= share * all) return value;
  return 0;
}

/** Draw the shares of the sides as outlines over one axis. labels: [bin, text] on the axis; titles: of each bin. */
function drawBars(svg, sides, labels, titles, axis) {
  const width = svg.clientWidth || 600, bins = sides[0].length;
  const high = Math.max(...sides.flat()) * 1.05 || 1, rows = ticks(0, high, 4), marks = written(rows, true);
  const left = 12 + 6.6 * Math.max(...marks.map(mark => mark.length)), bottom = HEIGHT - BOTTOM;
  const x = bin => left + bin / bins * (width - left - RIGHT), y = share => bottom - share / high * (bottom - TOP);
  const outline = shares => shares.map((share, bin) => `V${y(share).toFixed(1)}H${x(bin + 1).toFixed(1)}`).join("");
  let end = -Infinity;  // end of the last label; labels that would overlap it are left out
  const shown = labels.filter(([bin, label]) => x(bin) - 3.6 * label.length > end && (end = x(bin) + 3.6 * label.length + 6));
  svg.replaceChildren(
    ...rows.flatMap((share, i) => [
      draw("line", {class: "grid", x1: left, x2: width - RIGHT, y1: y(share), y2: y(share)}),
      draw("text", {x: left - 7, y: y(share) + 4, "text-anchor": "end"}, marks[i])]),
    ...sides.map((shares, side) => draw("g", {class: `side-${side}`}, draw("path", {class: "bars", d: `M${x(0)},${bottom}${outline(shares)}V${bottom}`}))),
    draw("path", {class: "frame", d: `M${left},${TOP}V${bottom}H${width - RIGHT}`}),
    ...shown.map(([bin, label]) => draw("text", {x: x(bin), y: bottom + 15, "text-anchor": "middle"}, label)),
    draw("text", {x: (left + width - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, axis),
    ...titles.map((title, bin) => draw("rect", {class: "catch", x: x(bin), width: x(bin + 1) - x(bin), y: TOP, height: bottom - TOP}, draw("title", {}, title))));
}

const charts = [];  // functions that draw the charts again for another width

function figure(caption, description, sides, labels, titles, axis) {
  const svg = draw("svg", {class: "chart", role: "img", "aria-label": description});
  charts.push(() => drawBars(svg, sides, labels, titles, axis));
  return make("figure", {}, make("figcaption", {}, ...caption), svg, note(description));
}

function lengthsOf({lengths, languages}) {
  const longest = Math.max(...lengths.map(side => side.at(-1)[0])), cut = Math.max(...lengths.map(side => quantile(side, .995)));
  const end = longest <= 1.5 * cut ? longest : cut, width = Math.ceil(end / BARS), bins = Math.ceil(end / width) + (end < longest);
  const sides = lengths.map(side => binned(side, width, 1, bins));
  const titles = sides[0].map((_, bin) => {
    const [from, to] = [1 + bin * width, bin === bins - 1 ? longest : (bin + 1) * width];
    return `${from === to ? from : `${from} – ${to}`} subwords: ${languages.map((code, side) => `${code} ${percent(sides[side][bin], 1)}`).join(", ")}`;
  });
  const labels = ticks(0, bins * width, 6).filter(value => value >= 1 && value <= end).map(value => [(value - .5) / width, count(value)]);
  if (end < longest) labels.push([bins - .5, `> ${(bins - 1) * width}`]);
  const swatch = side => draw("svg", {class: `swatch side-${side}`, viewBox: "0 0 26 12", "aria-hidden": "true"}, draw("path", {class: "bars", d: "M1,1H25V11H1Z"}));
  const summary = lengths.map((side, i) => `${languages[i]}: median ${quantile(side, .5)}, 99 % up to ${quantile(side, .99)}, longest ${side.at(-1)[0]}`);
  return figure(["Lengths", make("small", {}, "subwords", swatch(0), languages[0], swatch(1), languages[1])], `${summary.join("; ")}.`, sides, labels, titles, "subwords");
}

function ratiosOf({ratios, languages: [source, target]}) {
  const low = Math.min(-8, ratios[0][0]), high = Math.max(8, ratios.at(-1)[0]), bins = high - low + 1;
  const ratio = step => 2 ** (step / 8), shares = binned(ratios, 1, low, bins);
  const titles = shares.map((share, bin) => `about ${ratio(low + bin).toFixed(2)}: ${percent(share, 1)} of the pairs`);
  const labels = [];
  for (let octave = Math.ceil(low / 8); octave <= high / 8; octave++) labels.push([octave * 8 - low + .5, octave < 0 ? `1/${2 ** -octave}` : String(2 ** octave)]);
  const [one, median, most] = [.005, .5, .995].map(share => ratio(quantile(ratios, share)).toFixed(2));
  return figure(["Ratio of lengths", make("small", {}, `subwords of ${target} / subwords of ${source}`)],
    `Median ${median}; 99 % of the pairs between ${one} and ${most}.`, [shares], labels, titles, `${target} / ${source}, logarithmic`);
}

function scoreOf({name, pairs, missing, range, bars, edges, table}) {
  const [all, width] = [bars.reduce((sum, bar) => sum + bar, 0), edges[1] - edges[0] || 1], shares = bars.map(bar => bar / all);
  const value = number => String(Number(number.toPrecision(4)));
  const titles = shares.map((share, bin) => `${value(edges[bin])} – ${value(edges[bin + 1])}: ${percent(share, 1)} of the pairs`);
  const labels = ticks(edges[0], edges.at(-1), 6).map(tick => [(tick - edges[0]) / width, value(tick)]);
  const [low, median, high] = range.map(value), lacking = missing ? `; ${count(missing)} of ${count(pairs)} pairs have no score` : "";
  return [figure([name], `From ${low} to ${high}, median ${median}${lacking}. The first and the last bar include all values beyond them.`, [shares], labels, titles, name),
    tableOf(`Pairs that a bound of ${name} keeps`, table)];
}

// Corpora

function languagesOf({guesses, languages}) {
  const side = ({lines, names}, i) => [make("dt", {textContent: `${["source", "target"][i]} (${languages[i]})`}),
    make("dd", {textContent: lines ? `${names.map(([name, times]) => `${name} ${percent(times, lines, 1)}`).join(", ")} of ${count(lines)} lines` : "no line is long enough"})];
  return [make("h3", {textContent: "Languages"}), make("dl", {}, ...guesses.flatMap(side)),
    note("Guessed from a sample, lines of 30 characters or more. A few wrong guesses are normal.")];
}

function commonestOf({commonest, languages, kept}) {
  const side = (found, i) => [make("dt", {textContent: `${["source", "target"][i]} (${languages[i]})`}),
    make("dd", {}, ...found ? [`${percent(found[1], kept, 2)} (${count(found[1])} pairs): `, sentence(found[0], languages[i])] : ["no sentence is repeated"])];
  return commonest.length ? [make("h3", {textContent: "Most frequent sentences"}), make("dl", {}, ...commonest.flatMap(side))] : [];
}

function corpusOf(corpus, number) {
  const parts = [make("h3", {textContent: "Dropped"}),
    make("div", {className: "drops"}, ...corpus.drops.map(drop => dropOf(drop, corpus)))];
  if (corpus.scores.length) parts.push(make("h3", {textContent: "Scores"}), note("Scores of all pairs, before any rule is applied. The share that a bound keeps is a share of the pairs with a score."),
    make("div", {className: "charts"}, ...corpus.scores.map(score => make("div", {}, ...scoreOf(score)))));
  if (corpus.kept) {
    parts.push(make("h3", {textContent: "Lengths of the kept pairs"}), make("div", {className: "charts"}, lengthsOf(corpus), ratiosOf(corpus)));
    parts.push(...languagesOf(corpus), ...commonestOf(corpus));
    parts.push(make("h3", {textContent: "Suspicious pairs that are kept"}), note("The most extreme pairs of each kind. They may be correct."),
      ...corpus.suspicious.map(({title, score, examples}) => make("details", {}, make("summary", {textContent: title}), note(`Score: ${score}.`), pairsOf(examples, corpus.languages))));
    parts.push(make("h3", {textContent: "A sample"}), make("details", {}, make("summary", {textContent: `${corpus.sample.length} pairs at equal distances`}),
      pairsOf(corpus.sample.map(([source, target]) => ({source, target})), corpus.languages)));
    if (corpus.marked.length) parts.push(make("h3", {textContent: "Marked terms"}), note("Training text with data.augment.terms: each term is followed by the translation that the model should use."),
      make("details", {}, make("summary", {textContent: `The first ${corpus.marked.length} pairs`}), pairsOf(corpus.marked.map(([source, target]) => ({source, target})), corpus.languages)));
  }
  const title = [make("h2", {}, make("bdi", {}, ...pathed(corpus.label))), make("small", {textContent: `${count(corpus.kept)} of ${count(corpus.read)} pairs kept, ${percent(corpus.read - corpus.kept, corpus.read)} dropped`})];
  return make("details", {className: "sheet corpus", open: data.corpora.length <= OPEN || !number}, make("summary", {}, ...title), ...parts);
}

function overlapOf({label, languages, total, pairs, folded, sources, table, pair_examples, source_examples}) {
  const parts = [make("h3", {}, make("bdi", {}, ...pathed(label))),
    make("p", {textContent: `Of ${count(total)} validation pairs, ${count(pairs)} (${percent(pairs, total)}) are training pairs too${folded ? `, ${count(folded)} of them apart from case, accents, punctuation or spaces` : ""}. Of ${count(sources)} more (${percent(sources, total)}), the source alone is in the training text, with another target.`}),
    tableOf("Validation text by corpus", table)];
  if (pair_examples.length) parts.push(make("details", {}, make("summary", {textContent: "Pairs that are in both"}), pairsOf(pair_examples, languages)));
  if (source_examples.length) parts.push(make("details", {}, make("summary", {textContent: "Sources with another target in the training text"}),
    make("ol", {className: "pairs trained"}, ...source_examples.map(({source, target, trained, corpus}) => make("li", {}, sentence(source, languages[0]), sentence(target, languages[1]),
      make("div", {}, sentence(trained, languages[1]), make("small", {}, ...pathed(corpus))))))));
  return make("div", {}, ...parts);
}

// Vocabulary

const pieces = found => make("ul", {className: "pieces"}, ...found.map(([piece, times]) => make("li", {}, make("bdi", {textContent: visible(piece)}),
  ...(times === undefined ? [] : [make("small", {textContent: count(times)})]))));

function vocabularyOf(one) {
  const parts = [make("h3", {textContent: `${count(one.size)} subwords for ${one.languages}`}),
    make("p", {textContent: `Of ${count(one.subwords)} subwords that represent text, ${percent(one.enough, one.subwords)} occur ${one.often} times or more, and ${count(one.unused)} never.`}),
    note(one.augmented ? "Counted in the text before data.augment changes it: subwords for the capitals, symbols and markup that it adds are rare or unused here."
      : "Models learn rare subwords badly. A vocabulary of which less than 95 % occur 100 times or more may be too large for the text (Gowda and May 2020). Byte-pair encoding always leaves some subwords unused: parts of longer ones.")];
  for (const {side, characters, distinct, missing, missing_distinct, most_frequent_missing} of one.characters) {
    parts.push(make("p", {textContent: `${side}: ${percent(characters - missing, characters)} of ${count(characters)} characters are in the vocabulary; of ${count(distinct)} different ones, ${count(missing_distinct)} are not.`}));
    if (most_frequent_missing.length) parts.push(make("ul", {className: "pieces"}, ...most_frequent_missing.map(([character, name, times]) => make("li", {title: name}, make("bdi", {textContent: visible(character)}), make("small", {textContent: `${name} ${count(times)}`})))));
  }
  for (const [title, found] of [["Longest", one.longest], ["Rarest used", one.rarest], ["Unused", one.unused_examples.map(piece => [piece])]])
    if (found.length) parts.push(make("h4", {textContent: title}), pieces(found));
  return make("div", {}, ...parts);
}

function start() {
  at("written").append(`Written by nmt ${data.nmt}, ${clock(data.written)} UTC. Prepared data: `, ...pathed(data.folder));
  at("problems").hidden = !data.problems.length;
  at("problems-list").append(...data.problems.map(textContent => make("li", {textContent})));
  at("summary").append(...data.tables.map(table => tableOf(`Data by ${table[0][0]}`, table)));
  at("mix").append(...data.mixes.flatMap(({title, table, note: text}) => [
    ...(title ? [make("h3", {textContent: title})] : []), note(text), ...(table.length ? [tableOf(title || "Mix", table)] : [])]));
  at("overlaps-sheet").hidden = !data.overlaps.length;
  at("overlaps").append(...data.overlaps.map(overlapOf));
  at("corpora").append(...data.corpora.map(corpusOf));
  at("text").append(tableOf("Subwords by side", data.text));
  at("vocabularies").append(...data.vocabularies.map(vocabularyOf));
  const [titles, ...settings] = data.settings;
  at("settings").append(make("table", {className: "data"}, make("thead", {}, make("tr", {}, ...titles.map(textContent => make("th", {scope: "col", textContent})))),
    make("tbody", {}, ...settings.map(([first, ...rest]) => make("tr", {}, make("th", {scope: "row", textContent: first}), ...rest.map(text => make("td", {}, ...pathed(text))))))));
  // Also when a folded corpus is opened, because its charts had no width before.
  new ResizeObserver(() => charts.forEach(each => each())).observe(at("corpora"));
}
start();
