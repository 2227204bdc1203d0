// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// How the map is drawn on a canvas.

import { count, size } from './format.js';
import { rowsBetween } from './layout.js';
import { colours, uses } from './states.js';

export const margin = 14; // around the map

const faint = 0.16; // opacity of disks that a filter does not emphasize
const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

// Painter draws in the colours of the theme when it was made.
export class Painter {
  constructor(model) {
    this.model = model;
    this.colours = colours();
    this.tiles = uses.map((use, i) => (use.pattern === 'stripes' ? this.stripes(this.colours.uses[i]) : null));
  }

  // stripes makes the tile of a pattern of a colour and a lighter one.
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
    return tile;
  }

  // paint draws the part of a map that begins at top on a canvas. scene: the layout (made), the domain of the names of
  // nodes, the row and cell under the pointer (hover), and the id of the disk that the keyboard is at (cursor).
  paint(context, { top, width, height, ratio }, scene) {
    this.scene = scene;
    this.context = context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.colours.surface;
    context.fillRect(0, 0, width, height);
    context.translate(margin, margin - top);
    this.paintZones(top, top + height);
    const groups = this.group(top - margin, top + height);
    for (const [emphasized, cells] of [[false, groups.faint], [true, groups.plain]]) {
      context.globalAlpha = emphasized ? 1 : faint;
      cells.forEach((list, use) => this.paintCells(list, use));
    }
    context.globalAlpha = 1;
    if (this.scene.made.level.label > 0) rowsBetween(this.scene.made, top - margin, top + height, (row) => this.paintLabel(row));
    this.paintOutlines(top - margin, top + height);
  }

  // group returns the visible cells by use, as [cell, y]: few changes of the colour are fast.
  group(top, bottom) {
    const groups = { plain: uses.map(() => []), faint: uses.map(() => []) };
    const filters = this.model.filters();
    rowsBetween(this.scene.made, top, bottom, (row) => {
      for (let cell = row.first; cell < row.first + row.disks.length; cell++) {
        const to = filters && !this.model.emphasizes(this.scene.made.disks[cell]) ? groups.faint : groups.plain;
        to[this.scene.made.uses[cell]].push(cell, row.y);
      }
    });
    return groups;
  }

  paintZones(top, bottom) {
    const { context } = this;
    context.font = `600 13px ${font}`;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    for (const zone of this.scene.made.zones) {
      if (zone.y > bottom || zone.y + 30 < top - margin) continue;
      context.fillStyle = this.colours.ink;
      const name = zone.zone === '' ? (this.scene.made.zones.length > 1 ? 'No zone' : 'Nodes') : zone.zone;
      context.fillText(name, 0, zone.y + 15);
      const at = context.measureText(name).width + 10;
      context.fillStyle = this.colours.muted;
      context.font = `12px ${font}`;
      context.fillText(count(zone.count, 'node'), at, zone.y + 15.5);
      context.font = `600 13px ${font}`;
    }
  }

  // paintCells draws cells of one use, a list of [cell, y].
  paintCells(list, use) {
    const { context } = this;
    if (list.length === 0) return;
    const { xs, widths } = this.scene.made;
    const height = cellHeight(this.scene.made);
    const outline = uses[use].pattern === 'outline' && height >= 8;
    context.fillStyle = this.tiles[use] && height >= 8 ? context.createPattern(this.tiles[use], 'repeat') : this.colours.uses[use];
    context.strokeStyle = this.colours.uses[use];
    context.lineWidth = 1.5;
    for (let i = 0; i < list.length; i += 2) {
      const cell = list[i];
      if (this.scene.made.gap === 0) {
        // Cells that touch are one rectangle: at this size their borders cannot be seen.
        const first = i;
        while (list[i + 2] === list[i] + 1 && list[i + 3] === list[first + 1]) i += 2;
        context.fillRect(xs[cell], list[first + 1], xs[list[i]] + widths[list[i]] - xs[cell], height);
      } else if (outline && widths[cell] >= 4) context.strokeRect(xs[cell] + 0.75, list[i + 1] + 0.75, widths[cell] - 1.5, height - 1.5);
      else context.fillRect(xs[cell], list[i + 1], widths[cell], height);
    }
    if (height >= 12) this.paintMarks(list, use);
  }

  // paintMarks writes the mark of the use, and where they fit the size and what the disk is used for.
  paintMarks(list, use) {
    const { context } = this;
    const { xs, widths, disks } = this.scene.made;
    const height = cellHeight(this.scene.made);
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
  paintLabel(row) {
    const { context } = this;
    const height = cellHeight(this.scene.made);
    const large = height >= 20;
    const width = this.scene.made.label - 10;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.font = `${large ? 12.5 : 11}px ${font}`;
    context.fillStyle = row.node.state ? this.colours.muted : this.colours.ink;
    const state = row.node.state;
    const y = row.y + height / 2 + 0.5;
    context.fillText(shortened(context, row.node.name.slice(0, row.node.name.length - this.scene.domain.length), width - (state && !large ? 12 : 0)), row.x, large && state ? y - 7 : y);
    if (!state) return;
    context.fillStyle = this.colours.warning;
    context.font = `600 ${large ? 11 : 12}px ${font}`;
    context.fillText(large ? nodeStates[state] ?? state : '!', large ? row.x : row.x + width - 4, large ? y + 8 : y);
  }

  // paintOutlines marks the disks of what-if, the one under the pointer and the one of the keyboard.
  paintOutlines(top, bottom) {
    const { context } = this;
    const height = cellHeight(this.scene.made);
    const outline = (row, cell, colour, line) => {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(this.scene.made.xs[cell] - line / 2, row.y - line / 2, this.scene.made.widths[cell] + line, height + line);
    };
    rowsBetween(this.scene.made, top, bottom, (row, i) => {
      for (let cell = row.first; cell < row.first + row.disks.length; cell++) {
        const disk = this.scene.made.disks[cell];
        if (this.model.lit.size > 0 && this.model.lit.has(disk.volume)) outline(row, cell, this.colours.fit, 2);
        if (this.scene.hover?.row === i && this.scene.hover.cell === cell) outline(row, cell, this.colours.ink, 1.5);
        if (disk.id === this.scene.cursor) outline(row, cell, this.colours.accent, 3);
      }
    });
  }
}

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
