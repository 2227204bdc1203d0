// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The map: a canvas that draws what is visible of the layout, and the keyboard and pointer on it.

import { count, size } from './format.js';
import { at, layout, levelFor, levels, rowOf, rowsBetween } from './layout.js';
import { colours, uses } from './states.js';

const faint = 0.16; // opacity of disks that a filter does not emphasize
const font = '"Inter", system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

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
    this.colours = colours();
    this.patterns = uses.map((use, i) => (use.pattern === 'stripes' ? this.stripes(this.colours.uses[i]) : null));
    this.request();
  }

  // stripes makes a pattern of a colour and a lighter one.
  stripes(colour) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const context = tile.getContext('2d');
    context.fillStyle = colour;
    context.fillRect(0, 0, 6, 6);
    context.strokeStyle = this.colours.surface;
    context.globalAlpha = 0.55;
    context.lineWidth = 1.6;
    for (const shift of [-6, 0, 6]) {
      context.beginPath();
      context.moveTo(shift - 1, 7);
      context.lineTo(shift + 7, -1);
      context.stroke();
    }
    return this.context.createPattern(tile, 'repeat');
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
    this.paint(this.context, { top: this.root.scrollTop, ...view, ratio });
  }

  place(view) {
    this.stale = false;
    this.domain = this.model.domain();
    this.made = layout(this.model.zones(), { width: view.width - 2 * margin, height: view.height - 2 * margin }, levels[this.currentLevel()]);
    this.space.style.height = `${this.made.height + 2 * margin}px`;
  }

  // paint draws the part of the map that begins at top.
  paint(context, { top, width, height, ratio }) {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.colours.surface;
    context.fillRect(0, 0, width, height);
    context.translate(margin, margin - top);
    this.paintZones(context, top, top + height);
    const groups = this.group(top - margin, top + height);
    for (const [emphasized, cells] of [[false, groups.faint], [true, groups.plain]]) {
      context.globalAlpha = emphasized ? 1 : faint;
      cells.forEach((list, use) => this.paintCells(context, list, use));
    }
    context.globalAlpha = 1;
    if (this.made.level.label > 0) rowsBetween(this.made, top - margin, top + height, (row) => this.paintLabel(context, row));
    this.paintOutlines(context, top - margin, top + height);
  }

  // group returns the visible cells by use, as [cell, y]: few changes of the colour are fast.
  group(top, bottom) {
    const groups = { plain: uses.map(() => []), faint: uses.map(() => []) };
    const filters = this.model.filters();
    rowsBetween(this.made, top, bottom, (row) => {
      for (let cell = row.first; cell < row.first + row.disks.length; cell++) {
        const to = filters && !this.model.emphasizes(this.made.disks[cell]) ? groups.faint : groups.plain;
        to[this.made.uses[cell]].push(cell, row.y);
      }
    });
    return groups;
  }

  paintZones(context, top, bottom) {
    context.font = `600 13px ${font}`;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    for (const zone of this.made.zones) {
      if (zone.y > bottom || zone.y + 30 < top - margin) continue;
      context.fillStyle = this.colours.ink;
      const name = zone.zone === '' ? (this.made.zones.length > 1 ? 'No zone' : 'Nodes') : zone.zone;
      context.fillText(name, 0, zone.y + 15);
      const at = context.measureText(name).width + 10;
      context.fillStyle = this.colours.muted;
      context.font = `12px ${font}`;
      context.fillText(count(zone.count, 'node'), at, zone.y + 15.5);
      context.font = `600 13px ${font}`;
    }
  }

  // paintCells draws cells of one use, a list of [cell, y].
  paintCells(context, list, use) {
    if (list.length === 0) return;
    const { xs, widths } = this.made;
    const height = cellHeight(this.made);
    const outline = uses[use].pattern === 'outline' && height >= 8;
    context.fillStyle = this.patterns[use] && height >= 8 ? this.patterns[use] : this.colours.uses[use];
    context.strokeStyle = this.colours.uses[use];
    context.lineWidth = 1.5;
    for (let i = 0; i < list.length; i += 2) {
      const cell = list[i];
      if (this.made.gap === 0) {
        // Cells that touch are one rectangle: at this size their borders cannot be seen.
        const first = i;
        while (list[i + 2] === list[i] + 1 && list[i + 3] === list[first + 1]) i += 2;
        context.fillRect(xs[cell], list[first + 1], xs[list[i]] + widths[list[i]] - xs[cell], height);
      } else if (outline && widths[cell] >= 4) context.strokeRect(xs[cell] + 0.75, list[i + 1] + 0.75, widths[cell] - 1.5, height - 1.5);
      else context.fillRect(xs[cell], list[i + 1], widths[cell], height);
    }
    if (height >= 12) this.paintMarks(context, list, use);
  }

  // paintMarks writes the mark of the use, and where they fit the size and what the disk is used for.
  paintMarks(context, list, use) {
    const { xs, widths, disks } = this.made;
    const height = cellHeight(this.made);
    const mark = uses[use].mark ?? '';
    context.fillStyle = uses[use].pattern === 'outline' ? this.colours.uses[use] : this.colours.text[use];
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let i = 0; i < list.length; i += 2) {
      const disk = disks[list[i]];
      const width = widths[list[i]];
      const at = { x: xs[list[i]] + width / 2, y: list[i + 1] + height / 2 + 0.5 };
      if (height >= 20 && width >= 52 && disk.bytes > 0) {
        const second = height >= 40 && width >= 70 ? disk.claim?.split('/')[1] ?? disk.name ?? '' : '';
        context.font = `${second ? 600 : 500} 11.5px ${font}`;
        context.fillText((mark && uses[use].trouble ? `${mark} ` : '') + size(disk.bytes), at.x, second ? at.y - 8 : at.y);
        context.font = `11px ${font}`;
        if (second) context.fillText(shortened(context, second, width - 10), at.x, at.y + 8);
      } else if (mark && width >= 12) {
        context.font = `700 ${height >= 20 ? 15 : 11}px ${font}`;
        context.fillText(mark, at.x, at.y);
      }
    }
  }

  // paintLabel writes the name of a node, its end if it is too long, and why pods cannot use it.
  paintLabel(context, row) {
    const height = cellHeight(this.made);
    const large = height >= 20;
    const width = this.made.label - 10;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.font = `${large ? 12.5 : 11}px ${font}`;
    context.fillStyle = row.node.state ? this.colours.muted : this.colours.ink;
    const state = row.node.state;
    const y = row.y + height / 2 + 0.5;
    context.fillText(shortened(context, row.node.name.slice(0, row.node.name.length - this.domain.length), width - (state && !large ? 12 : 0)), row.x, large && state ? y - 7 : y);
    if (!state) return;
    context.fillStyle = this.colours.warning;
    context.font = `600 ${large ? 11 : 12}px ${font}`;
    context.fillText(large ? nodeStates[state] ?? state : '!', large ? row.x : row.x + width - 4, large ? y + 8 : y);
  }

  // paintOutlines marks the disks of what-if, the one under the pointer and the one of the keyboard.
  paintOutlines(context, top, bottom) {
    const height = cellHeight(this.made);
    const outline = (row, cell, colour, line) => {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(this.made.xs[cell] - line / 2, row.y - line / 2, this.made.widths[cell] + line, height + line);
    };
    rowsBetween(this.made, top, bottom, (row, i) => {
      for (let cell = row.first; cell < row.first + row.disks.length; cell++) {
        const disk = this.made.disks[cell];
        if (this.model.lit.size > 0 && this.model.lit.has(disk.volume)) outline(row, cell, this.colours.fit, 2);
        if (this.hover?.row === i && this.hover.cell === cell) outline(row, cell, this.colours.ink, 1.5);
        if (disk.id === this.cursor) outline(row, cell, this.colours.accent, 3);
      }
    });
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
    const kept = { made: this.made, level: this.level };
    const level = levels[Math.min(1, this.currentLevel())];
    this.made = layout(this.model.zones(), { width: width - 2 * margin, height: 900 }, level);
    const height = Math.min(this.made.height + 2 * margin, 12_000);
    const canvas = document.createElement('canvas');
    const ratio = 2;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    this.paint(canvas.getContext('2d', { alpha: false }), { top: 0, width, height, ratio });
    Object.assign(this, kept);
    return canvas;
  }
}

const margin = 14; // around the map

const nodeStates = { NotReady: 'not ready', Cordoned: 'cordoned', Missing: 'no such node' };

// nodeState is why pods cannot use a node, in words.
export function nodeState(node) {
  return node.state ? nodeStates[node.state] ?? node.state : '';
}

function cellHeight(made) {
  return made.row - (made.row > 30 ? 8 : made.row > 14 ? 3 : 1);
}

const shortNames = new Map();

// shortened returns the end of a text that fits a width: the ends of the names of nodes differ.
function shortened(context, text, width) {
  const key = `${context.font}|${Math.round(width)}|${text}`;
  const known = shortNames.get(key);
  if (known !== undefined) return known;
  if (shortNames.size > 20_000) shortNames.clear();
  let short = text;
  for (let cut = 1; context.measureText(short).width > width && cut < text.length; cut++) short = `…${text.slice(cut)}`;
  shortNames.set(key, short);
  return short;
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
