// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"testing"

	"stowage.dev/stowage/test/browser"
	"stowage.dev/stowage/test/ui"
)

// TestContrast: in both themes text has the contrast that WCAG 2.2 requires (1.4.3, level AA), and uses of disks that have
// neither a pattern nor a mark differ in lightness, which all people see.
func TestContrast(t *testing.T) {
	t.Parallel()
	p := browser.Start(t).Page(t)
	ui.Serve(t, "--from", (&ui.Sample{Nodes: 3, Disks: 4}).Write(t)).Open(p)
	for _, scheme := range []string{"light", "dark"} {
		p.Media("screen", scheme)
		for _, problem := range browser.Eval[[]string](p, contrasts) {
			t.Errorf("%s: %s", scheme, problem)
		}
	}
	if got := browser.Eval[[]string](p, fmt.Sprintf(`(() => { document.documentElement.style.setProperty("--muted", "light-dark(#bbb, #444)"); return %s; })()`, contrasts)); len(got) == 0 {
		t.Error("pale text is not found")
	}
}

// contrasts are the pairs of colours whose contrast ratio is too low.
const contrasts = `(() => {
	const probe = document.body.appendChild(document.createElement("i"));
	const luminance = (name) => {
		probe.style.color = "var(--" + name + ")";
		const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const low = [];
	const check = (a, b, least) => {
		const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
		const ratio = (light + 0.05) / (dark + 0.05);
		if (ratio < least) low.push(a + " on " + b + " has " + ratio.toFixed(2) + ", want " + least);
	};
	for (const [text, ground] of [["ink", "surface"], ["ink", "page"], ["muted", "surface"], ["muted", "page"], ["accent", "surface"], ["on-accent", "accent"],
		["note-ink", "note"], ["error-ink", "error"], ["error-ink", "surface"]]) check(text, ground, 4.5);
	const uses = [...document.styleSheets[0].cssRules[0].style].filter((name) => name.startsWith("--use-")).map((name) => name.slice(6));
	if (uses.length !== 9) low.push("the style sheet has the uses " + uses);
	for (const use of uses.filter((use) => !["missing", "notpublished"].includes(use))) check("on-" + use, "use-" + use, 4.5);
	for (const outlined of ["missing", "notpublished"]) check("use-" + outlined, "surface", 3);
	check("use-free", "use-bound", 2);
	probe.remove();
	return low;
})()`
