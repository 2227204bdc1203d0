// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Sizes, numbers and ages, as kubectl stowage prints them (pkg/inspect/format).

const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

// size returns bytes in the largest binary unit that is not more than the value. Digits are cut.
export function size(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit++;
  }
  const digits = Math.max(0, 3 - String(Math.floor(bytes)).length);
  const scale = 10 ** digits;
  return String(Math.floor(bytes * scale) / scale) + units[unit];
}

export function count(n, noun) {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;
}

// age returns how long ago a time (RFC 3339) was.
export function age(time) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

// clock returns the local time of day.
export function clock(time) {
  return new Date(time).toLocaleTimeString('en-GB');
}

// element makes an element. Text is never parsed as HTML: it is what users of the cluster wrote.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return made;
}

// table makes a table of texts and elements. Columns named in numbers are right-aligned.
export function table(head, rows, numbers = []) {
  const aligned = (i) => (numbers.includes(i) ? { class: 'number' } : {});
  return element('div', { class: 'scroll' }, element('table', {},
    element('thead', {}, element('tr', {}, head.map((text, i) => element('th', { scope: 'col', ...aligned(i) }, text)))),
    element('tbody', {}, rows.map((row) => element('tr', {}, row.map((cell, i) => element('td', aligned(i), cell)))))));
}
