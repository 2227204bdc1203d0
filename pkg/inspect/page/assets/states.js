// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// The uses of a disk (StorageMapDisk.use), and how a cell shows each. No two uses differ by their colour alone:
// each has its own lightness, pattern or mark.

// uses are in the order of the legend. pattern: how the cell is filled. mark: what is written on it.
export const uses = [
  { name: 'Free', label: 'free', meaning: 'A claim can take the volume.' },
  { name: 'Reserved', label: 'reserved', pattern: 'stripes', meaning: 'The volume is reserved for a claim and not bound yet.' },
  { name: 'Bound', label: 'bound', meaning: 'The volume has a claim.' },
  { name: 'Cleaning', label: 'cleaning', pattern: 'stripes', mark: '~', meaning: 'The volume is released, and is cleaned or deleted.' },
  { name: 'Failing', label: 'failing', mark: '!', trouble: true, meaning: 'The disk of the volume is failing.' },
  { name: 'Missing', label: 'missing', pattern: 'outline', mark: '×', trouble: true, meaning: 'The volume has no disk.' },
  { name: 'Replaced', label: 'replaced', mark: '≠', trouble: true, meaning: 'The volume has another disk.' },
  { name: 'NotPublished', label: 'not published', pattern: 'outline', mark: '–', meaning: 'The disk has no volume: it is skipped, or being published.' },
  { name: 'Other', label: 'other', mark: '·', meaning: 'The volume is retained, failed or not yet observed.' },
];

const index = new Map(uses.map((use, i) => [use.name, i]));

// useOf returns the index of a disk's use.
export function useOf(disk) {
  return index.get(disk.use) ?? index.get('Other');
}

// colours reads those of the theme from the style sheet.
export function colours() {
  const probe = document.createElement('i');
  document.body.append(probe);
  const value = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const read = {
    uses: uses.map((use) => value(`use-${use.name.toLowerCase()}`)), text: uses.map((use) => value(`on-${use.name.toLowerCase()}`)),
    ink: value('ink'), muted: value('muted'), surface: value('surface'), accent: value('accent'), warning: value('error-ink'), fit: value('fit'),
  };
  probe.remove();
  return read;
}

// swatch is the sample of a use.
export function swatchClass(use) {
  return `swatch use-${use.name.toLowerCase()}`;
}
