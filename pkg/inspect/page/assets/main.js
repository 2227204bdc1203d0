// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The page: what the server sends goes into the model, and the model to the map and the panels.

import { render, titleOf } from './details.js';
import { ask, listen } from './events.js';
import { age, clock, count, element } from './format.js';
import { levels } from './layout.js';
import { facts, StorageMap } from './map.js';
import { Model, subjectOf } from './model.js';
import { nodeState } from './paint.js';
import { classes, legend, waiting } from './panels.js';
import { WhatIf } from './whatif.js';

const byId = (id) => document.getElementById(id);
const model = new Model();
let state = { connected: false, unseen: [] };
let subject = null; // what the details are about
let asked = null; // the request for it

export const map = new StorageMap(byId('map'), model, {
  open: (chosen, kind) => explain(kind === 'node' ? { kind: 'node', name: chosen.name } : subjectOf(chosen), chosen),
  say: (text) => { byId('spoken').textContent = text; },
  tip,
});
const whatIf = new WhatIf(byId('fit'), { light, open: (chosen) => explain(chosen) });

// --- The server.

listen({
  state(message) {
    state = message;
    const name = message.from ? message.from.split(/[\\/]/).filter(Boolean).pop() : message.cluster;
    byId('cluster').textContent = [name, message.server].filter(Boolean).join(' · ');
    byId('cluster').title = message.from || message.cluster;
    document.title = `Storage map · ${name}`;
    showConnection('');
  },
  nodes(message) {
    const names = model.apply(message);
    if (!message.complete) return;
    changed();
    if (!message.reset && subject && concerns(names)) refresh();
    if (!message.reset) whatIf.changed();
  },
  summary(message) {
    model.summary = message;
    fillClasses();
    classes(byId('classes'), message, (name) => chooseClass(name));
  },
  waiting(message) {
    model.pods = message;
    waiting(byId('waiting'), message, (pod) => explain(pod));
    tabs.waiting.replaceChildren('Waiting', message.pods.length ? element('span', { class: 'badge bad' }, String(message.pods.length + (message.more ?? 0))) : '');
    if (subject?.kind === 'pod') refresh();
  },
}, showConnection);

// showConnection shows whether the map is up to date. lost is why the server of the page does not answer.
function showConnection(lost) {
  const live = !lost && state.connected;
  const banner = byId('banner');
  let problem = lost;
  if (!lost && !state.connected && state.error) problem = `${state.error}${state.time ? `. The map is that of ${clock(state.time)}.` : ''}`;
  if (live && state.unseen?.length) problem = `${state.from ? 'The files do not have' : 'You may not list'} ${state.unseen.join(', ')}: what depends on it is not shown.`;
  banner.hidden = !problem;
  banner.className = live ? 'note' : 'error';
  if (banner.textContent !== problem) banner.textContent = problem;
  const connection = byId('connection');
  connection.className = live ? (state.from ? '' : 'live') : 'lost';
  connection.textContent = live ? (state.from ? (state.time ? `As of ${clock(state.time)}` : 'From files') : 'Live') : 'Not connected';
}

// changed shows the nodes.
function changed() {
  map.update();
  fillClasses();
  legend(byId('legend'), model, toggleUse);
  showMatches();
  showEmpty();
}

// concerns reports whether nodes have to do with the subject.
function concerns(names) {
  if (subject.kind === 'node') return names.includes(subject.name);
  const full = subject.namespace ? `${subject.namespace}/${subject.name}` : subject.name;
  return names.some((name) => model.nodes.get(name)?.disks.some((disk) => disk.volume === subject.name || disk.claim === full || disk.id === `disk:${subject.name}` || disk.pods?.includes(full)));
}

function showEmpty() {
  const empty = byId('empty');
  const none = model.zones().length === 0;
  const without = model.nodesWithoutDisks();
  empty.hidden = !(model.complete && none);
  if (empty.hidden) return;
  if (model.class) empty.textContent = `No node has disks of class ${model.class}.`;
  else if (without) empty.textContent = `${count(without, 'node')} and no local disk: no LocalDiskReport, and no volume that is on one node only.`;
  else empty.textContent = 'No nodes.';
}

// --- What is shown.

function fillClasses() {
  const select = byId('class');
  const names = model.classNames();
  const known = [...select.options].slice(1).map((option) => option.value);
  if (names.join() !== known.join()) {
    select.replaceChildren(element('option', { value: '' }, 'all'), ...names.map((name) => element('option', { value: name }, name)));
    select.value = names.includes(model.class) ? model.class : '';
  }
  whatIf.setClasses(names);
}

function chooseClass(name) {
  byId('class').value = name;
  model.select({ class: name });
  changed();
  remember();
}

function toggleUse(name) {
  if (!model.hiddenUses.delete(name)) model.hiddenUses.add(name);
  legend(byId('legend'), model, toggleUse);
  map.request();
  remember();
}

function light(volumes) {
  model.lit = new Set(volumes);
  map.request();
  const first = volumes.length && [...model.nodes.values()].flatMap((node) => node.disks).find((disk) => model.lit.has(disk.volume));
  if (first) map.reveal(first.id);
}

function search(text) {
  model.query = text.trim().toLowerCase();
  showMatches();
  map.request();
  remember();
}

function showMatches() {
  let matches = 0;
  if (model.query) for (const { rows } of model.zones()) for (const row of rows) for (const disk of row.disks) if (model.matches(disk)) matches++;
  byId('matches').textContent = model.query ? `${matches.toLocaleString('en')} ${matches === 1 ? 'match' : 'matches'}` : '';
}

// --- The details.

const tabs = {};
const tabNames = { classes: 'Classes', waiting: 'Waiting', fit: 'What if', details: 'Details' };
for (const [id, name] of Object.entries(tabNames)) {
  tabs[id] = element('button', { type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': id, onclick: () => choose(id) }, name);
  byId('panel').querySelector('[role=tablist]').append(tabs[id]);
}
byId('panel').querySelector('[role=tablist]').addEventListener('keydown', (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const ids = Object.keys(tabs);
  choose(ids[(ids.findIndex((id) => tabs[id] === document.activeElement) + step + ids.length) % ids.length]);
  byId('panel').querySelector('[aria-selected=true]').focus();
});

function choose(chosen) {
  for (const id of Object.keys(tabs)) {
    tabs[id].setAttribute('aria-selected', String(id === chosen));
    tabs[id].tabIndex = id === chosen ? 0 : -1;
    byId(id).hidden = id !== chosen;
  }
}

// explain shows the story of a subject. disk is that of the map, if it is one.
function explain(chosen, disk) {
  subject = chosen;
  choose('details');
  byId('details').replaceChildren(element('h2', {}, titleOf(chosen)), element('p', { class: 'muted' }, 'Reading…'));
  if (!disk && chosen.kind === 'pv') map.show([...model.nodes.values()].flatMap((node) => node.disks).find((d) => d.volume === chosen.name)?.id);
  if (!disk && chosen.kind === 'node') map.show(null, chosen.name);
  byId('panel').scrollTop = 0;
  if (matchMedia('(max-width: 900px)').matches) byId('panel').scrollIntoView({ block: 'nearest' });
  remember();
  refresh();
}

async function refresh() {
  asked?.abort();
  const request = new AbortController();
  asked = request;
  const about = subject;
  try {
    const report = await ask('why', about, request.signal);
    byId('details').replaceChildren(...render(about, report, (chosen) => explain(chosen)));
  } catch (error) {
    if (error.name === 'AbortError') return;
    byId('details').replaceChildren(element('h2', {}, titleOf(about)), element('p', { class: 'error' }, error.message));
  }
}

function noDetails() {
  subject = null;
  asked?.abort();
  byId('details').replaceChildren(element('h2', {}, 'Details'), element('p', { class: 'muted' }, 'Choose a disk or a node on the map: what it is used for, what it waits for, and what to do next is shown here.'));
}

// tip shows what is under the pointer.
function tip(hit, event) {
  const box = byId('tip');
  box.hidden = !hit;
  if (!hit) return;
  const { node, disk } = hit;
  const unusable = nodeState(node);
  const lines = disk
    ? [element('b', {}, disk.name ? `${disk.node} / ${disk.name}` : disk.volume ?? ''), ...facts(disk)]
    : [element('b', {}, node.name), node.zone && `zone ${node.zone}`, count(node.disks.length, 'disk'), unusable];
  box.replaceChildren(...lines.filter(Boolean).map((line) => element('div', {}, line)));
  const { innerWidth, innerHeight } = window;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18}px`;
}

// --- Controls.

const zoom = byId('zoom');
levels.forEach((level, i) => {
  zoom.append(element('label', {}, element('input', { type: 'radio', name: 'level', value: String(i), onchange: () => setLevel(i) }), element('span', {}, level.name)));
});

function setLevel(level) {
  map.zoom(level);
  showLevel();
  remember();
}

function showLevel() {
  zoom.querySelectorAll('input')[map.currentLevel()].checked = true;
}

const themes = ['system', 'light', 'dark'];
let theme = 'system';

function setTheme(chosen) {
  theme = chosen;
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId('theme').textContent = { system: 'Auto', light: 'Light', dark: 'Dark' }[theme];
  map.themed();
}

byId('controls').addEventListener('submit', (event) => {
  event.preventDefault();
  if (model.query) map.next(false);
});
byId('class').addEventListener('change', (event) => chooseClass(event.target.value));
byId('search').addEventListener('input', (event) => search(event.target.value));
byId('theme').addEventListener('click', () => {
  setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
  remember();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => map.themed());

const shortcuts = [
  ['/', 'search'], ['Enter, n, N', 'next or previous match'], ['Arrows, Page Up, Page Down, Home, End', 'move on the map'], ['Enter on the map', 'explain the disk'],
  ['1, 2, 3', 'overview, compact, detail'], ['c, w, f, d', 'classes, waiting pods, what if, details'], ['t', 'dark or light'], ['Escape', 'clear search, filters and what if'], ['?', 'this list'],
];
byId('help').append(element('h2', {}, 'Keyboard'), element('dl', {}, shortcuts.flatMap(([keys, text]) => [element('dt', {}, ...keys.split(', ').map((key) => element('kbd', {}, key))), element('dd', {}, text)])),
  element('form', { method: 'dialog' }, element('button', { class: 'primary' }, 'Close')));
byId('keys').addEventListener('click', () => byId('help').showModal());

const keys = {
  '/': () => byId('search').focus(), '?': () => byId('help').showModal(),
  1: () => setLevel(0), 2: () => setLevel(1), 3: () => setLevel(2),
  c: () => choose('classes'), w: () => choose('waiting'), f: () => choose('fit'), d: () => choose('details'),
  n: () => map.next(false), N: () => map.next(true), t: () => byId('theme').click(), Escape: clear,
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open) return;
  const typing = event.target.matches('input:not([type=radio], [type=checkbox]), select, textarea');
  if (typing && event.key !== 'Escape') return;
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

function clear() {
  byId('search').value = '';
  model.select({ query: '', hiddenUses: new Set() });
  whatIf.clear();
  changed();
  remember();
  byId('map').focus();
}

// --- The address keeps what is shown, so that reloading the page shows it again.

function remember() {
  const kept = new URLSearchParams();
  if (model.class) kept.set('class', model.class);
  if (model.query) kept.set('search', model.query);
  if (model.hiddenUses.size) kept.set('without', [...model.hiddenUses].join(','));
  if (map.level !== null) kept.set('size', levels[map.level].name);
  if (theme !== 'system') kept.set('theme', theme);
  if (subject) kept.set('details', [subject.kind, subject.namespace ?? '', subject.name].join('|'));
  history.replaceState(null, '', kept.size ? `#${kept}` : location.pathname);
}

function restore() {
  const kept = new URLSearchParams(location.hash.slice(1));
  model.select({ class: kept.get('class') ?? '', query: kept.get('search') ?? '', hiddenUses: new Set((kept.get('without') ?? '').split(',').filter(Boolean)) });
  byId('search').value = model.query;
  const level = levels.findIndex((l) => l.name === kept.get('size'));
  if (level >= 0) map.zoom(level);
  setTheme(themes.includes(kept.get('theme')) ? kept.get('theme') : 'system');
  const [kind, namespace, name] = (kept.get('details') ?? '').split('|');
  noDetails();
  choose('classes');
  if (name) explain({ kind, namespace, name });
}

// --- Print: the map as an image, all panels below it.

window.addEventListener('beforeprint', () => {
  document.documentElement.dataset.theme = 'light'; // paper is white
  map.themed();
  const image = map.print(1100);
  image.id = 'printed';
  byId('map').after(image);
});
window.addEventListener('afterprint', () => {
  byId('printed')?.remove();
  setTheme(theme);
});

restore();
setInterval(() => document.querySelectorAll('#panel time[datetime]').forEach((time) => {
  time.textContent = time.textContent.replace(/\d+[smhd]$/, age(time.getAttribute('datetime')));
}), 5000);
new MutationObserver(showLevel).observe(byId('space'), { attributes: true });
