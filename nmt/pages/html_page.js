"use strict";
// The first part of the script of every page.
const at = id => document.getElementById(id);
const data = JSON.parse(at("data").textContent);

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const clock = time => time ? `${time.slice(0, 10)} ${time.slice(11, 16)}` : "–";
const count = number => number === null ? "–" : number.toLocaleString("en");

/** Text in which paths can break after their slashes. */
const pathed = text => text.split(/(?<=\/)/).map(textContent => make("span", {className: "part", textContent}));

/** A table of numbers as text. It scrolls if it is too wide. The first row and the first column are headings. */
function tableOf(label, [titles, ...rows]) {
  const head = make("thead", {}, make("tr", {}, ...titles.map(textContent => make("th", {scope: "col", textContent}))));
  const body = rows.map(([first, ...rest]) => make("tr", {}, make("th", {scope: "row"}, ...pathed(first)),
    ...rest.map(textContent => make("td", {textContent}))));
  return make("div", {className: "scroll", tabIndex: 0, role: "group", ariaLabel: label},
    make("table", {className: "data numbers"}, head, make("tbody", {}, ...body)));
}

// Axes of charts

function ticks(from, to, most) {
  const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find(factor => factor * power >= rough) ?? 10);
  const first = Math.ceil(from / step - 1e-9);
  return Array.from({length: Math.floor(to / step + 1e-9) - first + 1}, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

const compact = new Intl.NumberFormat("en", {notation: "compact", maximumFractionDigits: 2});
/** The labels of an axis's ticks, all in the same format. */
function written(values, percent) {
  const most = Math.max(...values.map(Math.abs));
  return values.map(value => percent ? `${Number((100 * value).toPrecision(6))} %`
    : most >= 1e5 ? compact.format(value)
    : most < 1e-3 && value ? value.toExponential().replace("e-", "e−")
    : value.toLocaleString("en", {maximumFractionDigits: 6}));
}

