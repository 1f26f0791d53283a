// Shared by every part of the page: the document, small tools for elements, and what is chosen now.
// Texts of a log reach the page through textContent alone.

const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);

/** An element; `options` are properties, `class`, `text`, `attributes`, `color` (the custom property --c) and `on`. */
function make(tag, options = {}, children = []) {
  const element = document.createElement(tag);
  const { class: classes, text, attributes = {}, color, on = {}, ...properties } = options;
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  if (color) element.style.setProperty('--c', color);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  for (const [name, handler] of Object.entries(on)) element.addEventListener(name, handler);
  Object.assign(element, properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// What is chosen now. `types`: edge types shown. `range`: seconds, or null. `matches`: found by the search, or null.
// `question`: index, or -1. `hop`: how far the walk is shown.
const state = {
  types: {},
  range: null,
  selected: -1,
  hovered: -1,
  matches: null,
  terms: [],
  question: -1,
  hop: 0,
};

// Parts of the page that follow a change of `state` register here.
const followers = [];
let waiting = false;
function changed() {
  if (waiting) return;
  waiting = true;
  queueMicrotask(() => {
    waiting = false;
    for (const follow of followers) follow();
  });
}

const dayFormat = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
const timeFormat = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', timeZone: 'UTC',
});
const day = (seconds) => (seconds === null ? '' : dayFormat.format(seconds * 1000));
const shortFormat = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const shortDay = (seconds) => shortFormat.format(seconds * 1000);
const moment = (seconds) => (seconds === null ? 'time unknown' : timeFormat.format(seconds * 1000));
const plural = (count, word, many = word + 's') => `${count.toLocaleString('en')} ${count === 1 ? word : many}`;
const squeeze = (text) => text.replace(/\s+/g, ' ').trim();
const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + '…' : text);
/** Lower case without accents, as the search compares. */
const plain = (text) => text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();

let colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue('--' + name).trim();
  colors = { speakers: [0, 1, 2, 3, 4, 5, 6].map((i) => value('s' + i)) };
  for (const name of ['bg', 'panel', 'ink', 'soft', 'line', 'accent', 'disc', 'disc-line', ...data.edge_types]) colors[name] = value(name);
}
readColors();

/** A colour written as #rrggbb, made see-through. */
function faint(color, alpha) {
  const n = parseInt(color.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha.toFixed(3)})`;
}
