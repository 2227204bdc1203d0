// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// What the server sent, and what of it is shown.

import { uses, useOf } from './states.js';

const compare = new Intl.Collator('en', { numeric: true }).compare;

// idOf names a disk: by its entry in a report, else by its volume.
export function idOf(disk) {
  return disk.name ? `disk:${disk.node}/${disk.class ?? ''}/${disk.name}` : `pv:${disk.volume ?? ''}`;
}

// subjectOf is what /why explains for a disk.
export function subjectOf(disk) {
  if (disk.name) return { kind: 'disk', name: `${disk.node}/${disk.class ?? ''}/${disk.name}` };
  return { kind: 'pv', name: disk.volume };
}

export class Model {
  constructor() {
    this.nodes = new Map();
    this.complete = false;
    this.summary = { classes: [], total: null };
    this.pods = { pods: [], more: 0, pending: true };
    this.class = '';
    this.query = '';
    this.hiddenUses = new Set();
    this.lit = new Set(); // volumes of what-if
    this.sorted = null;
  }

  // apply takes a message with nodes, and returns their names. All are new after a reset.
  apply(message) {
    if (message.reset) this.nodes = new Map();
    for (const name of message.removed ?? []) this.nodes.delete(name);
    for (const node of message.nodes ?? []) {
      node.disks ??= [];
      for (const disk of node.disks) Object.assign(disk, { id: idOf(disk), useIndex: useOf(disk) });
      this.nodes.set(node.name, node);
    }
    this.complete = message.complete;
    this.sorted = null;
    return [...(message.nodes ?? []).map((node) => node.name), ...(message.removed ?? [])];
  }

  shows(disk) {
    return this.class === '' || (disk.class ?? '') === this.class;
  }

  // zones are the nodes with disks that are shown, sorted, by zone; last those without one.
  zones() {
    if (this.sorted) return this.sorted;
    const byZone = new Map();
    for (const node of this.nodes.values()) {
      const disks = this.class === '' ? node.disks : node.disks.filter((disk) => this.shows(disk));
      if (disks.length === 0 && (this.class !== '' || !node.state)) continue;
      const zone = node.zone ?? '';
      if (!byZone.has(zone)) byZone.set(zone, []);
      byZone.get(zone).push({ node, disks });
    }
    const zones = [...byZone].map(([zone, rows]) => ({ zone, rows: rows.sort((a, b) => compare(a.node.name, b.node.name)) }));
    this.sorted = zones.sort((a, b) => (a.zone === '') - (b.zone === '') || compare(a.zone, b.zone));
    return this.sorted;
  }

  // domain is what the names of all nodes end with, from their first dot on: their labels leave it out.
  domain() {
    let domain;
    for (const name of this.nodes.keys()) {
      const dot = name.indexOf('.');
      const own = dot < 0 ? '' : name.slice(dot);
      if (own === '' || (domain ?? own) !== own) return '';
      domain = own;
    }
    return domain ?? '';
  }

  // nodesWithoutDisks counts the nodes that are not in zones.
  nodesWithoutDisks() {
    const shown = this.zones().reduce((sum, zone) => sum + zone.rows.length, 0);
    return this.nodes.size - shown;
  }

  // select changes which disks are shown.
  select(change) {
    Object.assign(this, change);
    this.sorted = null;
  }

  // filters reports whether some disks are emphasized.
  filters() {
    return this.query !== '' || this.hiddenUses.size > 0 || this.lit.size > 0;
  }

  // emphasizes reports whether a disk is one of them.
  emphasizes(disk) {
    if (this.lit.size > 0 && !this.lit.has(disk.volume)) return false;
    if (this.hiddenUses.has(uses[disk.useIndex].name)) return false;
    return this.query === '' || this.matches(disk);
  }

  matches(disk) {
    const query = this.query;
    const has = (text) => text !== undefined && text.toLowerCase().includes(query);
    return has(disk.node) || has(disk.name) || has(disk.path) || has(disk.volume) || has(disk.claim) || has(disk.identity)
      || has(disk.state) || (disk.pods ?? []).some(has);
  }

  // totals sums the disks that are shown by use.
  totals() {
    const totals = uses.map(() => ({ disks: 0, bytes: 0 }));
    for (const node of this.nodes.values()) {
      for (const disk of node.disks) {
        if (!this.shows(disk)) continue;
        const total = totals[disk.useIndex];
        total.disks++;
        total.bytes += disk.bytes;
      }
    }
    return totals;
  }

  // classNames are those of the disks and of the summary, sorted.
  classNames() {
    const names = new Set(this.summary.classes.map((row) => row.class ?? ''));
    for (const node of this.nodes.values()) for (const disk of node.disks) names.add(disk.class ?? '');
    names.delete('');
    return [...names].sort(compare);
  }

  find(id) {
    for (const node of this.nodes.values()) {
      for (const disk of node.disks) if (disk.id === id) return disk;
    }
    return undefined;
  }
}
