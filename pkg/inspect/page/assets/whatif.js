// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// What if: the replicas of a workload that would fit, as kubectl stowage fit finds them. Nothing is written.

import { ask } from './events.js';
import { clock, element, size, table } from './format.js';
import { render } from './details.js';

export class WhatIf {
  // hooks: light(volumes) emphasizes volumes on the map, open(subject) explains an object.
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    this.classes = [];
    this.request = null;
    this.form = element('form', { onsubmit: (event) => this.submit(event) },
      element('p', { class: 'muted' }, 'How many replicas of a workload would be placed, and on which disks? Nothing is written.'),
      element('div', { class: 'claims' }),
      element('button', { type: 'button', class: 'quiet', onclick: () => this.add() }, '+ Add a claim'),
      element('div', { class: 'row' },
        element('label', { class: 'field' }, 'Replicas ', element('input', { name: 'replicas', value: '3', required: true, size: '5', pattern: '[1-9][0-9]*|max', title: 'A number, or max for as many as fit' })),
        element('label', { class: 'check' }, element('input', { type: 'checkbox', name: 'onePerNode', checked: true }), ' one per node')),
      element('div', { class: 'row' },
        element('button', { type: 'submit', class: 'primary' }, 'Simulate'),
        element('button', { type: 'button', class: 'quiet', onclick: () => this.clear() }, 'Clear')));
    this.answer = element('div', { class: 'answer', 'aria-live': 'polite' });
    this.staleNote = element('p', { class: 'note', hidden: true }, 'Disks have changed since. Simulate again for an answer on what is there now.');
    root.replaceChildren(element('h2', {}, 'What if'), this.form, this.staleNote, this.answer);
    this.add();
  }

  // add adds a claim of each replica.
  add() {
    const claims = this.form.querySelector('.claims');
    const row = element('div', { class: 'row claim' },
      element('label', { class: 'field' }, 'Size ', element('input', { name: 'size', value: '10Gi', required: true, size: '7', title: 'A quantity, such as 10Gi', autocomplete: 'off' })),
      element('label', { class: 'field grow' }, 'Class ', element('select', { name: 'class' })),
      element('button', { type: 'button', class: 'quiet', title: 'Remove this claim', 'aria-label': 'Remove this claim', onclick: () => { if (claims.children.length > 1) row.remove(); } }, '×'));
    claims.append(row);
    this.fill(row.querySelector('select'));
  }

  // setClasses sets the classes that a claim can have.
  setClasses(classes) {
    if (classes.join() === this.classes.join()) return;
    this.classes = classes;
    this.form.querySelectorAll('select').forEach((select) => this.fill(select));
  }

  fill(select) {
    const chosen = select.value;
    select.replaceChildren(...this.classes.map((name) => element('option', { value: name }, name)), element('option', { value: '' }, '(default class)'));
    if (this.classes.includes(chosen)) select.value = chosen;
  }

  // changed marks the answer as old.
  changed() {
    if (this.answer.children.length > 0) this.staleNote.hidden = false;
  }

  async submit(event) {
    event.preventDefault();
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    const claims = [...this.form.querySelectorAll('.claim')].map((row) => {
      const [amount, name] = [row.querySelector('[name=size]').value.trim(), row.querySelector('[name=class]').value];
      return name ? `${amount}:${name}` : amount;
    }).join(',');
    this.staleNote.hidden = true;
    this.answer.replaceChildren(element('p', { class: 'muted' }, 'Simulating…'));
    try {
      const parameters = { claims, replicas: this.form.replicas.value.trim(), onePerNode: this.form.onePerNode.checked ? 'true' : '' };
      this.show(await ask('fit', parameters, request.signal));
    } catch (error) {
      if (error.name !== 'AbortError') this.fail(error);
    }
  }

  fail(error) {
    this.hooks.light([]);
    this.answer.replaceChildren(element('p', { class: 'error', role: 'alert' }, error.message));
  }

  show(fit) {
    const volumes = fit.replicas.flatMap((replica) => (replica.node ? (replica.claims ?? []).map((claim) => claim.volume).filter(Boolean) : []));
    this.hooks.light(volumes);
    const rows = fit.replicas.filter((replica) => replica.node).slice(0, 200).flatMap((replica) => (replica.claims ?? []).map((claim) => [
      replica.name, this.link('node', replica.node),
      claim.volume ? this.link('pv', claim.volume) : claim.provisioned ? 'to be provisioned' : 'not known', size(claim.volumeBytes || claim.bytes)]));
    this.answer.replaceChildren(...[
      element('p', { class: `sentence verdict ${fit.verdict.toLowerCase()}` }, fit.sentence),
      ...(fit.unknown ?? []).map((text) => element('p', { class: 'note' }, text)),
      element('p', { class: 'muted' }, `Scheduler ${fit.scheduler}, at ${clock(new Date())}.${volumes.length ? ' The disks are lit on the map.' : ''}`),
      rows.length ? table(['Replica', 'Node', 'Volume', 'Size'], rows, [3]) : null,
      fit.missing ? element('section', { class: 'missing' }, ...render({ kind: 'pod', name: fit.missing.name }, fit.missing, this.hooks.open)) : null,
      fit.left?.length ? element('section', {}, element('h3', {}, 'Free afterwards'), table(['Class', 'Volumes', 'Sum', 'Largest'], fit.left.map((left) => [left.class, String(left.volumes), size(left.bytes), size(left.largestBytes)]), [1, 2, 3])) : null,
      fit.unseen?.length ? element('p', { class: 'note' }, `Not seen: ${fit.unseen.join(', ')}.`) : null,
    ].filter(Boolean));
  }

  link(kind, name) {
    return element('button', { type: 'button', class: 'link', onclick: () => this.hooks.open({ kind, name }) }, name);
  }

  clear() {
    this.request?.abort();
    this.hooks.light([]);
    this.staleNote.hidden = true;
    this.answer.replaceChildren();
  }
}
