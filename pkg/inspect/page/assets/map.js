// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The map: a canvas that draws what is visible of the layout, and the keyboard and pointer on it.

import { size } from './format.js';
import { at, layout, levelFor, levels, rowOf } from './layout.js';
import { margin, Painter } from './paint.js';

export class StorageMap {
  // hooks: open(subject, disk) is called for what the user chooses, say(text) for what a screen reader reads.
  constructor(root, model, hooks) {
    this.root = root;
    this.model = model;
    this.hooks = hooks;
    this.canvas = root.querySelector('canvas');
    this.space = root.querySelector('#space');
    this.context = this.canvas.getContext('2d', { alpha: false });
    this.level = null; // chosen by the number of nodes until the user does
    this.cursor = null; // id of the disk that the keyboard is at
    this.hover = null; // { row, cell } under the pointer
    this.domain = ''; // see Model.domain
    this.made = layout([], { width: 100, height: 100 }, levels[0]);
    this.frame = 0;
    this.stale = true;
    this.themed();
    new ResizeObserver(() => this.update()).observe(root);
    root.addEventListener('scroll', () => this.request());
    root.addEventListener('keydown', (event) => this.key(event));
    root.addEventListener('focus', () => this.request());
    root.addEventListener('blur', () => this.request());
    this.canvas.addEventListener('pointermove', (event) => this.point(event));
    this.canvas.addEventListener('pointerleave', () => this.point(null));
    this.canvas.addEventListener('click', (event) => this.click(event));
  }

  // themed reads the colours again.
  themed() {
    this.painter = new Painter(this.model);
    this.request();
  }

  // zoom sets the level; null chooses by the number of nodes.
  zoom(level) {
    this.level = level;
    this.update();
  }

  currentLevel() {
    return this.level ?? levelFor(this.model.zones().reduce((sum, zone) => sum + zone.rows.length, 0));
  }

  // update places the disks again before the next frame.
  update() {
    this.stale = true;
    this.request();
  }

  // request draws before the next frame.
  request() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  // draw draws what is visible, now.
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const view = { width: this.root.clientWidth, height: this.root.clientHeight };
    if (this.stale) this.place(view);
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(view.width * ratio) || this.canvas.height !== Math.round(view.height * ratio)) {
      this.canvas.width = Math.round(view.width * ratio);
      this.canvas.height = Math.round(view.height * ratio);
      this.canvas.style.height = `${view.height}px`;
    }
    this.painter.paint(this.context, { top: this.root.scrollTop, ...view, ratio }, this);
  }

  place(view) {
    this.stale = false;
    this.domain = this.model.domain();
    this.made = layout(this.model.zones(), { width: view.width - 2 * margin, height: view.height - 2 * margin }, levels[this.currentLevel()]);
    this.space.style.height = `${this.made.height + 2 * margin}px`;
  }

  // hit returns what is under a pointer.
  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    return at(this.made, event.clientX - box.left - margin, event.clientY - box.top - margin + this.root.scrollTop);
  }

  point(event) {
    const hit = event ? this.hit(event) : null;
    this.hover = hit;
    this.canvas.style.cursor = hit ? 'pointer' : 'default';
    this.hooks.tip(hit && this.tipOf(hit), event);
    this.request();
  }

  tipOf(hit) {
    const node = this.made.rows[hit.row].node;
    return hit.cell < 0 ? { node } : { node, disk: this.made.disks[hit.cell] };
  }

  click(event) {
    const hit = this.hit(event);
    if (!hit) return;
    const { node, disk } = this.tipOf(hit);
    this.cursor = disk?.id ?? null;
    this.hooks.open(disk ?? node, disk ? 'disk' : 'node');
    this.request();
  }

  // key moves the cursor.
  key(event) {
    const cells = this.made.disks.length;
    const cell = this.cell();
    const moves = {
      ArrowRight: () => (cell < 0 ? 0 : Math.min(cells - 1, cell + 1)), ArrowLeft: () => Math.max(0, cell - 1),
      ArrowDown: () => this.across(cell, this.made.columns), ArrowUp: () => this.across(cell, -this.made.columns),
      PageDown: () => this.across(cell, this.made.columns * this.linesVisible()), PageUp: () => this.across(cell, -this.made.columns * this.linesVisible()),
      Home: () => 0, End: () => cells - 1,
    };
    if (event.ctrlKey || event.metaKey || event.altKey || cells === 0) return;
    if (event.key === 'Enter' && cell >= 0) {
      event.preventDefault();
      this.hooks.open(this.made.disks[cell], 'disk');
    } else if (moves[event.key]) {
      event.preventDefault();
      this.moveTo(moves[event.key]());
    }
  }

  // cell is the index of the disk that the keyboard is at, -1 if none.
  cell() {
    return this.cursor === null ? -1 : this.made.disks.findIndex((disk) => disk.id === this.cursor);
  }

  linesVisible() {
    return Math.max(1, Math.floor(this.root.clientHeight / this.made.row) - 2);
  }

  // across returns the cell at the same place of a row further on, or the last one of rows with disks in between.
  across(cell, rows) {
    if (cell < 0) return 0;
    const from = rowOf(this.made, cell);
    let to = Math.max(0, Math.min(this.made.rows.length - 1, from + rows));
    const step = Math.sign(rows);
    while (to !== from && this.made.rows[to].disks.length === 0 && this.made.rows[to + step]) to += step;
    const row = this.made.rows[to];
    if (row.disks.length === 0) return cell;
    return row.first + Math.min(row.disks.length - 1, cell - this.made.rows[from].first);
  }

  // moveTo sets the cursor to a cell, and scrolls there.
  moveTo(cell) {
    const disk = this.made.disks[cell];
    if (!disk) return;
    this.cursor = disk.id;
    this.hooks.say(describe(disk));
    this.scrollTo(this.made.rows[rowOf(this.made, cell)]);
    this.request();
  }

  // show moves to the disk of an id, or to a node.
  show(id, node) {
    if (this.stale) this.draw();
    const cell = id ? this.made.disks.findIndex((disk) => disk.id === id) : -1;
    this.cursor = cell >= 0 ? id : null;
    const row = cell >= 0 ? this.made.rows[rowOf(this.made, cell)] : this.made.rows.find((r) => r.node.name === node);
    if (row) this.scrollTo(row);
    this.request();
  }

  // reveal scrolls to the disk of an id.
  reveal(id) {
    if (this.stale) this.draw();
    const cell = this.made.disks.findIndex((disk) => disk.id === id);
    if (cell >= 0) this.scrollTo(this.made.rows[rowOf(this.made, cell)]);
  }

  scrollTo(row) {
    const top = row.y + margin - 36;
    const bottom = row.y + margin + this.made.row + 12;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (bottom > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = bottom - this.root.clientHeight;
  }

  // next moves to the next disk that the filter emphasizes, and returns whether there is one.
  next(backwards) {
    const cells = this.made.disks.length;
    const from = this.cell();
    for (let i = 1; i <= cells; i++) {
      const cell = (((from + (backwards ? -i : i)) % cells) + cells) % cells;
      if (this.model.emphasizes(this.made.disks[cell])) {
        this.moveTo(cell);
        return true;
      }
    }
    return false;
  }

  // print returns the whole map as an image of a width.
  print(width) {
    const level = levels[Math.min(1, this.currentLevel())];
    const made = layout(this.model.zones(), { width: width - 2 * margin, height: 900 }, level);
    const height = Math.min(made.height + 2 * margin, 12_000);
    const canvas = document.createElement('canvas');
    const ratio = 2;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    this.painter.paint(canvas.getContext('2d', { alpha: false }), { top: 0, width, height, ratio }, { made, domain: this.domain, hover: null, cursor: null });
    return canvas;
  }
}

// facts are what there is to say about a disk beside its name.
export function facts(disk) {
  return [size(disk.bytes), disk.class && `class ${disk.class}`, disk.state, disk.claim && `claim ${disk.claim}`,
    disk.pods?.length && `pod ${disk.pods.join(', ')}`, disk.reason].filter(Boolean);
}

// describe is a disk in one sentence.
export function describe(disk) {
  return [disk.node, disk.name ? `disk ${disk.name}` : `volume ${disk.volume}`, ...facts(disk)].join(', ');
}
