// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Where each disk is drawn. Nodes are rows, in one or more columns; disks are cells, as wide as their capacity.

// levels are the sizes of the disks. rows are the least and the largest height of a node, as large as all fit the screen;
// gap is between cells. column is the least and most the largest width of a node, of which label is its name. least is
// the least width of a disk. byUse: the disks of a node are sorted by their use. fits: there are as few columns as all fit
// the screen, else as many as are wide enough. Lengths are in CSS pixels.
export const levels = [
  { name: 'Overview', rows: [3, 20], gap: 0, label: 0, column: 44, most: 260, spacing: 6, least: 1, byUse: true, fits: true },
  { name: 'Compact', rows: [18, 18], gap: 1, label: 112, column: 330, most: 560, spacing: 20, least: 3 },
  { name: 'Detail', rows: [38, 66], gap: 2, label: 148, column: 460, most: 1100, spacing: 28, least: 10 },
];

const heading = 30; // height of the name of a zone
const below = 8; // space after a zone

// levelFor returns the index of the level in which a number of nodes needs few screens.
export function levelFor(nodes) {
  if (nodes > 400) return 0;
  return nodes > 40 ? 1 : 2;
}

// layout places zones (Model.zones) in a width; a height is what is visible. All cells are in the arrays xs, widths, uses
// and disks, those of a row at [row.first, row.first + row.disks.length).
export function layout(zones, view, level) {
  const { width } = view;
  const rows = zones.flatMap((zone) => zone.rows);
  const cells = rows.reduce((sum, row) => sum + row.disks.length, 0);
  const fullest = rows.reduce((most, row) => Math.max(most, row.disks.length), 1);
  // A node with many disks needs a wider column, up to the whole width.
  const wanted = Math.max(level.column, level.label + fullest * (level.least + level.gap));
  const most = Math.max(1, Math.min(Math.floor((width + level.spacing) / (wanted + level.spacing)), rows.length));
  const { columns, row: height } = fitted(zones, view, { ...level, fullest }, most);
  const column = Math.min((width - (columns - 1) * level.spacing) / columns, Math.max(level.most, wanted));
  const label = Math.min(level.label, column * 0.4);
  const gap = Math.max(level.gap, (column - label) / fullest >= 5 ? 1 : 0);
  const scale = scaleFor(rows, column - label, level);
  const made = {
    level, columns, column, label, gap, zones: [], rows: [], height: 0, row: height,
    xs: new Float32Array(cells), widths: new Float32Array(cells), uses: new Uint8Array(cells), disks: new Array(cells),
  };
  let y = 0;
  for (const { zone, rows: inZone } of zones) {
    const top = y + heading;
    made.zones.push({ zone, y, top, first: made.rows.length, count: inZone.length });
    inZone.forEach((row, i) => {
      place(made, row, { x: (i % columns) * (column + level.spacing), y: top + Math.floor(i / columns) * made.row }, scale);
    });
    y = top + Math.ceil(inZone.length / columns) * made.row + below;
  }
  made.height = y;
  return made;
}

// fitted returns the columns and the height of rows with which all zones are visible and the shorter side of a disk of
// the fullest node is as long as can be; if they are too many, those with which disks are the smallest.
function fitted(zones, view, { rows: [least, largest], spacing, fullest, fits }, most) {
  const free = view.height - zones.length * (heading + below);
  let best = { columns: most, row: least, side: 0 };
  for (let columns = most; columns > (fits ? 0 : most - 1); columns--) {
    const lines = zones.reduce((sum, zone) => sum + Math.ceil(zone.rows.length / columns), 0);
    const row = Math.min(largest, Math.floor(free / Math.max(1, lines)));
    if (row < least) break;
    const side = Math.min(row, (view.width / columns - spacing) / fullest);
    if (side > best.side) best = { columns, row, side };
  }
  return best;
}

// scaleFor returns pixels per byte: the largest node fills a column.
function scaleFor(rows, width, level) {
  let most = 1;
  for (const row of rows) most = Math.max(most, row.disks.reduce((sum, disk) => sum + disk.bytes, 0));
  return width / most;
}

// place adds a row. Small disks have the least width; if the row is too wide then, all of its cells shrink.
function place(made, row, at, scale) {
  const { level, column, label, gap } = made;
  const first = made.rows.length === 0 ? 0 : made.rows.at(-1).first + made.rows.at(-1).disks.length;
  const disks = level.byUse ? (row.byUse ??= [...row.disks].sort((a, b) => a.useIndex - b.useIndex)) : row.disks;
  let sum = 0;
  for (const disk of disks) sum += Math.max(level.least + gap, disk.bytes * scale);
  const shrink = Math.min(1, (column - label) / sum);
  let x = at.x + label;
  disks.forEach((disk, i) => {
    const full = Math.max(level.least + gap, disk.bytes * scale) * shrink;
    made.xs[first + i] = x;
    made.widths[first + i] = Math.max(0.5, full - gap);
    made.uses[first + i] = disk.useIndex;
    made.disks[first + i] = disk;
    x += full;
  });
  made.rows.push({ node: row.node, disks, first, x: at.x, y: at.y });
}

// rowsBetween calls visit with the rows that are drawn between two heights.
export function rowsBetween(made, top, bottom, visit) {
  for (const zone of made.zones) {
    const lines = Math.ceil(zone.count / made.columns);
    if (zone.top + lines * made.row < top || zone.y > bottom) continue;
    const from = Math.max(0, Math.floor((top - zone.top) / made.row));
    const to = Math.min(lines, Math.ceil((bottom - zone.top) / made.row));
    for (let i = from * made.columns; i < Math.min(zone.count, to * made.columns); i++) visit(made.rows[zone.first + i], zone.first + i);
  }
}

// at returns the row and the cell (-1: the name of the node) at a point; null if there is none.
export function at(made, x, y) {
  const { level, columns, column, gap } = made;
  const zone = made.zones.find((z) => y >= z.top && y < z.top + Math.ceil(z.count / columns) * made.row);
  if (!zone) return null;
  const across = Math.floor(x / (column + level.spacing));
  const i = Math.floor((y - zone.top) / made.row) * columns + across;
  if (across < 0 || across >= columns || i >= zone.count) return null;
  const row = made.rows[zone.first + i];
  if (x - row.x < made.label) return { row: zone.first + i, cell: -1 };
  for (let cell = row.first; cell < row.first + row.disks.length; cell++) {
    if (x >= made.xs[cell] && x <= made.xs[cell] + made.widths[cell] + gap) return { row: zone.first + i, cell };
  }
  return null;
}

// rowOf returns the index of the row of a cell.
export function rowOf(made, cell) {
  let low = 0;
  let high = made.rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (made.rows[middle].first <= cell) low = middle;
    else high = middle - 1;
  }
  return low;
}
