// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The lists beside the map: the legend, the classes, and the pods that wait.

import { age, count, element, size, table } from './format.js';
import { swatchClass, uses } from './states.js';

// legend shows the capacity by use as a bar, and a button for each use that there is.
export function legend(root, model, toggle) {
  const totals = model.totals();
  const bytes = totals.reduce((sum, total) => sum + total.bytes, 0);
  const disks = totals.reduce((sum, total) => sum + total.disks, 0);
  const present = uses.map((use, i) => ({ use, total: totals[i] })).filter(({ total }) => total.disks > 0);
  const buttons = present.map(({ use, total }) => element('button', {
    type: 'button', title: `${use.meaning} Click to show or fade these disks.`, 'aria-pressed': String(!model.hiddenUses.has(use.name)), onclick: () => toggle(use.name),
  }, element('span', { class: swatchClass(use), 'aria-hidden': 'true' }, use.mark ?? ''), element('b', {}, total.disks.toLocaleString('en')), ` ${use.label} `, element('span', { class: 'muted' }, size(total.bytes))));
  const focused = [...root.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
  root.replaceChildren(element('p', { class: 'sum' }, element('b', {}, size(bytes)), ` on ${count(disks, 'disk')}`),
    bar(present.map(({ use, total }) => ({ ...use, bytes: total.bytes })), bytes), element('div', { class: 'buttons' }, buttons));
  if (focused >= 0) root.querySelectorAll('button')[focused]?.focus();
}

// classes shows the sums of each class, and what is not on a single node.
export function classes(root, summary, choose) {
  root.replaceChildren(...[
    element('h2', {}, 'Classes'),
    ...summary.classes.map((row) => classCard(row, choose)),
    summary.classes.length === 0 ? element('p', { class: 'muted' }, 'No volumes with node affinity.') : null,
    summary.capacities?.length && element('section', {}, element('h2', {}, 'Capacity of CSI drivers'), table(['Class', 'Where', 'Capacity', 'Largest', 'Provisioning'],
      summary.capacities.map((c) => [c.class, c.node || c.zone || count(c.nodes, 'node'), c.bytes === undefined ? 'not reported' : size(c.bytes), c.largestBytes === undefined ? '–' : size(c.largestBytes), amount(c.provisioning)]), [2, 3, 4])),
    summary.networkVolumes?.length && element('section', {}, element('h2', {}, 'Volumes that every node can use'), table(['Class', 'All', 'Bound'],
      summary.networkVolumes.map((n) => [n.class || '(no class)', amount(n.total), amount(n.bound)]), [1, 2])),
  ].filter(Boolean));
}

const amount = (a) => (a.volumes ? `${a.volumes.toLocaleString('en')} · ${size(a.bytes)}` : '–');

// classCard shows the sums of a class.
function classCard(row, choose) {
  const parts = [['Free', row.free], ['Reserved', row.reserved], ['Bound', row.bound], ['Cleaning', row.cleaning], ['Other', row.other]].filter(([, a]) => a.volumes > 0);
  return element('article', {},
    element('h3', {}, element('button', { type: 'button', class: 'link', title: 'Show this class only', onclick: () => choose(row.class ?? '') }, row.class || '(no class)'),
      element('span', { class: 'muted' }, ` ${count(row.total.volumes, 'volume')}, ${size(row.total.bytes)} on ${count(row.nodes, 'node')}`)),
    bar(parts.map(([name, a]) => ({ name, label: name.toLowerCase(), bytes: a.bytes })), row.total.bytes),
    element('p', {}, element('b', {}, `${row.free.volumes.toLocaleString('en')} free`), row.free.volumes ? `, ${size(row.free.bytes)}, the largest ${size(row.largestFreeBytes)}` : ''),
    element('p', { class: 'muted' }, [...parts.slice(row.free.volumes ? 1 : 0).map(([name, a]) => `${a.volumes.toLocaleString('en')} ${name.toLowerCase()}, ${size(a.bytes)}`),
      row.disksWithoutVolume ? `${count(row.disksWithoutVolume, 'disk')} not published` : ''].filter(Boolean).join(' · ')),
    row.disksInTrouble ? element('p', { class: 'warning' }, `${count(row.disksInTrouble, 'disk')} in trouble`) : null);
}

// bar shows parts of a sum of bytes, each at least as wide as can be seen.
function bar(parts, sum) {
  return element('div', { class: 'bar', 'aria-hidden': 'true' }, parts.map((part) => {
    const made = element('span', { class: `use-${part.name.toLowerCase()}`, title: `${part.label}: ${size(part.bytes)}` });
    made.style.flexGrow = Math.max(part.bytes / Math.max(1, sum), 0.004);
    return made;
  }));
}

// waiting lists the pods that wait for storage, the oldest first.
export function waiting(root, message, open) {
  const cards = message.pods.map((pod) => element('article', {},
    element('h3', {}, element('button', { type: 'button', class: 'link', onclick: () => open({ kind: 'pod', namespace: pod.namespace, name: pod.name }) }, `${pod.namespace}/${pod.name}`), ' ', pod.since ? element('time', { class: 'muted', datetime: pod.since }, `waits for ${age(pod.since)}`) : null),
    element('p', { class: 'sentence' }, pod.sentence || pod.message || 'Its scheduler has not tried it yet.'),
    pod.changes?.length ? element('p', { class: 'help' }, element('b', {}, 'Would help: '), pod.changes[0].text) : null,
    pod.claims?.length ? element('p', { class: 'muted' }, pod.claims.map((claim) => `${claim.name}: ${claim.missing ? 'no such claim' : `${size(claim.bytes)}${claim.class ? ` of ${claim.class}` : ''}`}`).join(' · ')) : null));
  root.replaceChildren(...[
    element('h2', {}, 'Waiting pods'),
    message.pending && message.pods.some((pod) => !pod.sentence) ? element('p', { class: 'muted' }, 'Simulating the scheduler…') : null,
    ...cards,
    message.pods.length === 0 ? element('p', { class: 'muted' }, 'No pod waits for storage.') : null,
    message.more ? element('p', { class: 'muted' }, `${count(message.more, 'more pod')} not listed: the oldest are.`) : null,
  ].filter(Boolean));
}
