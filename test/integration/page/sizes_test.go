// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"fmt"
	"image"
	_ "image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"stowage.dev/stowage/test/browser"
	"stowage.dev/stowage/test/ui"
)

// screenshots is the environment variable with the folder that the screenshots of the documentation are written to.
const screenshots = "STOWAGE_SCREENSHOTS"

// documented are the screenshots of the documentation.
var documented = []string{"map-30-laptop-light", "map-3000-laptop-dark", "map-30-narrow-light"}

var windows = []struct {
	name          string
	width, height int
}{{"narrow", 400, 860}, {"laptop", 1280, 800}, {"wide", 3000, 1600}}

// TestSizes: from 400 to 3,000 pixels, with 3, 30 and 3,000 nodes, in both themes and on paper, nothing is wider than the
// window, and the map shows disks.
func TestSizes(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	for _, s := range []*ui.Sample{{Nodes: 3, Disks: 8}, {Nodes: 30, Disks: 12}, {Nodes: 3000, Disks: 24}} {
		t.Run(fmt.Sprint(s.Nodes), func(t *testing.T) {
			p := b.Page(t)
			p.Resize(windows[1].width, windows[1].height)
			ui.Serve(t, "--from", s.Write(t)).Open(p)
			if got, want := browser.Eval[int](p, "shown.model.nodes.size"), s.Nodes; got != want {
				t.Errorf("the page has %d nodes, want %d", got, want)
			}
			for _, window := range windows {
				p.Resize(window.width, window.height)
				for _, scheme := range []string{"light", "dark"} {
					p.Media("screen", scheme)
					look(t, p, fmt.Sprintf("map-%d-%s-%s", s.Nodes, window.name, scheme))
				}
			}
			if wrong := browser.Eval[[]string](p, misplaced); len(wrong) > 0 {
				t.Errorf("%d disks: %v", len(wrong), wrong[:min(len(wrong), 5)])
			}
			p.Media("print", "light")
			browser.Eval[any](p, `window.dispatchEvent(new Event("beforeprint"))`)
			p.Wait(`document.querySelector("#printed")?.offsetHeight > 0 && document.querySelector("#waiting").offsetHeight > 0 && document.querySelector("#map").offsetHeight === 0`)
			browser.Eval[any](p, `window.dispatchEvent(new Event("afterprint"))`)
			p.Media("screen", "light")
		})
	}
}

// misplaced are the disks that overlap another, are outside of the map, or are not found at their middle, at each size
// of the disks.
const misplaced = `(async () => {
	const { at, levels } = await import("/assets/layout.js");
	const wrong = [];
	for (const level of levels.keys()) {
		shown.zoom(level);
		shown.draw();
		const { made } = shown;
		for (const [i, row] of made.rows.entries()) {
			let end = row.x + made.label;
			for (let cell = row.first; cell < row.first + row.disks.length; cell++) {
				const found = at(made, made.xs[cell] + made.widths[cell] / 2, row.y + made.row / 2);
				if (found?.row !== i || found.cell !== cell) wrong.push(level + " " + row.disks[cell - row.first].id + " is found as " + JSON.stringify(found));
				if (made.xs[cell] < end - 0.01) wrong.push(level + " " + row.disks[cell - row.first].id + " overlaps");
				end = made.xs[cell] + made.widths[cell];
			}
			if (end > row.x + made.column + 0.5 || row.y + made.row > made.height) wrong.push(level + " " + row.node.name + " is outside");
		}
	}
	shown.zoom(null);
	return wrong;
})()`

// look checks what the page looks like now.
func look(t *testing.T, p *browser.Page, name string) {
	t.Helper()
	p.Wait(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	if wide := browser.Eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, .hidden, [hidden]") && e.getBoundingClientRect().right > innerWidth + 1)
		.map((e) => e.tagName + "#" + e.id + "." + e.className)`); len(wide) > 0 {
		t.Errorf("%s: wider than the window: %v", name, wide)
	}
	picture := p.Screenshot()
	if folder := os.Getenv(screenshots); folder != "" && slices.Contains(documented, name) {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644); err != nil { //nolint:gosec // for the documentation
			t.Error(err)
		}
	}
	// The colours of the map: the background, the names and at least three uses.
	decoded, _, err := image.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	box := browser.Eval[[]float64](p, `(() => { const b = document.querySelector("#map").getBoundingClientRect(); return [b.left, b.top, b.right, Math.min(b.bottom, innerHeight)]; })()`)
	colours := map[[3]uint32]int{}
	for y := int(box[1]); y < int(box[3]); y++ {
		for x := int(box[0]); x < int(box[2]); x++ {
			r, g, b, _ := decoded.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	many := 0
	for _, pixels := range colours {
		if pixels > 100 {
			many++
		}
	}
	if many < 4 {
		t.Errorf("%s: the map has %d colours", name, many)
	}
}
