// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The story of an object: what kubectl stowage why prints.

import { age, clock, count, element, table } from './format.js';

const kinds = { Disk: 'disk', PersistentVolume: 'pv', PersistentVolumeClaim: 'pvc', Pod: 'pod', Node: 'node' };
const words = { disk: 'Disk', pv: 'Volume', pvc: 'Claim', pod: 'Pod', node: 'Node' };

// titleOf is a subject ({kind, namespace, name}) in words.
export function titleOf(subject) {
  return `${words[subject.kind]} ${subject.namespace ? `${subject.namespace}/` : ''}${subject.name}`;
}

// render makes the elements of a report. open(subject) is called for an object that is chosen.
export function render(subject, report, open) {
  const body = report.kind === 'PodReport' ? podReport(report, open) : storageReport(report, open);
  return [
    element('h2', {}, titleOf(subject)),
    element('p', { class: 'badges' }, badge(report.state), report.since ? element('span', { class: 'muted' }, `for ${age(report.since)}`) : null),
    ...body,
    unseen(report.unseen),
  ].filter(Boolean);
}

function badge(state) {
  const bad = ['Unschedulable', 'Failing', 'Missing', 'Replaced', 'Failed', 'Lost', 'NotReady', 'Unproven'].includes(state);
  return element('span', { class: bad ? 'badge bad' : 'badge' }, state);
}

function storageReport(report, open) {
  const wait = report.waitsFor;
  return [
    ...report.sentences.map((text, i) => element('p', { class: i === 0 ? 'sentence' : '' }, text)),
    wait && element('dl', {}, element('dt', {}, 'Waits for'), element('dd', {}, wait.text ?? wait.for,
      wait.totalBytes ? element('progress', { max: wait.totalBytes, value: wait.doneBytes ?? 0 }) : null)),
    list('Next', report.next),
    links(report.links),
    report.related?.length && element('section', {}, element('h3', {}, 'Related'),
      table(['Kind', 'Name', 'Relation', 'State'], report.related.map((r) => [r.kind, reference(r, open), r.relation, r.state ?? '']))),
    events(report.events),
  ];
}

function podReport(report, open) {
  return [
    element('p', { class: 'sentence' }, report.sentence),
    list('Any one of these would help', report.changes?.map((change) => change.text)),
    ...(report.notes ?? []).map((text) => element('p', { class: 'muted' }, text)),
    report.claims?.length && element('section', {}, element('h3', {}, 'Claims'), table(['Claim', 'Class', 'Request', 'State'], report.claims.map((claim) => [
      reference({ kind: 'PersistentVolumeClaim', namespace: report.namespace, name: claim.name }, open), claim.class ?? '', claim.request ?? '', claim.state]))),
    report.everywhere?.length && element('section', {}, element('h3', {}, 'On all nodes'), reasons(report.everywhere)),
    report.groups?.length && element('section', {}, element('h3', {}, 'By node'), ...report.groups.slice(0, 20).map((group) => nodeGroup(group, report, open)),
      report.groups.length > 20 && element('p', { class: 'muted' }, `${count(report.groups.length - 20, 'more group')}: kubectl stowage why -o json has all.`)),
    links([...new Set([...(report.everywhere ?? []), ...(report.groups ?? []).flatMap((group) => group.reasons ?? [])].map((reason) => reason.link).filter(Boolean))]),
  ];
}

function nodeGroup(group, report, open) {
  const shown = group.nodes.slice(0, 4);
  const names = shown.flatMap((name, i) => [i > 0 ? ', ' : '', reference({ kind: 'Node', name }, open)]);
  const more = group.nodes.length - shown.length;
  return element('details', { open: report.groups.length <= 3 },
    element('summary', {}, count(group.nodes.length, 'node'), group.reasons?.length ? `: ${group.reasons[0].plugin}${group.reasons.length > 1 ? ` and ${count(group.reasons.length - 1, 'more reason')}` : ''}` : ': no reason'),
    element('p', { class: 'muted' }, ...names, more > 0 ? ` and ${more} more` : ''),
    group.reasons?.length ? reasons(group.reasons) : null);
}

function reasons(all) {
  return element('ul', {}, all.map((reason) => element('li', {}, element('b', {}, reason.plugin), ' ',
    (reason.claim ? `claim ${reason.claim}: ` : '') + reason.message + (reason.detail ? `: ${reason.detail}` : ''))));
}

function list(title, items) {
  if (!items?.length) return null;
  return element('section', {}, element('h3', {}, title), element('ul', {}, items.map((text) => element('li', {}, text))));
}

// links are addresses of the documentation; others are written as text.
function links(all) {
  if (!all?.length) return null;
  return element('section', {}, element('h3', {}, 'See'), element('ul', {}, all.map((link) => element('li', {}, linkTo(link)))));
}

// linkTo makes a link of an https address.
export function linkTo(link) {
  if (!/^https:\/\//.test(link)) return link;
  return element('a', { href: link, target: '_blank', rel: 'noopener noreferrer' }, link.replace(/^https:\/\/[^#]*\//, ''));
}

function reference(object, open) {
  const kind = kinds[object.kind];
  const text = object.namespace ? `${object.namespace}/${object.name}` : object.name;
  if (!kind) return text;
  return element('button', { type: 'button', class: 'link', onclick: () => open({ kind, namespace: object.namespace, name: object.name }) }, text);
}

function events(all) {
  if (!all?.length) return null;
  return element('section', {}, element('h3', {}, 'Events'), element('ul', { class: 'events' }, all.map((event) => element('li', { class: event.type === 'Warning' ? 'warning' : '' },
    element('time', { datetime: event.last, title: clock(event.last) }, age(event.last)), ' ', element('b', {}, event.reason), event.count > 1 ? ` (×${event.count})` : '', ' ', event.message))));
}

function unseen(all) {
  if (!all?.length) return null;
  return element('p', { class: 'note' }, `Not seen: ${all.join(', ')}.`);
}
