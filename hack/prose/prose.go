// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prose has the idioms that comments, messages, manifests and pages must not use:
// CONTRIBUTING.md, "Words". A test checks the source tree.
package prose

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// idiom is a pattern of words that the field does not use, and what to write instead.
type idiom struct{ pattern, instead string }

var idioms = []idiom{
	{`some(body|one)`, "name who acts, or use the passive"},
	{`nobody (is|has|can|else|knows|looks|looked|holds|asks|uses|binds|waits|but)`, "no client, no process, nothing"},
	{`whoever|whosoever`, "name who acts"},
	{`anew`, "again"},
	{`g(ive|ives|iven|ave|iving) back`, "release, return, undo"},
	{`t(ake|akes|aken|ook|aking) back`, "undo, revert"},
	{`tells?|told`, "report, describe, notify"},
	{`says? whether`, "report"},
	{`(has|have|had) it not`, "does not have it"},
	{`in the place of`, "instead of"},
	{`for (the )?want of`, "because it is missing"},
	{`without a word`, "silently"},
	{`sees? to it`, "ensure"},
	{`as one would|one would wish`, "as expected"},
	{`dealt with`, "handled"},
	{`drags? in`, "depends on, imports"},
	{`node agents?`, "provisioner"},
	{`graves?|bury|buried|exhumed?`, "tombstone"},
	{`shelf|shelves`, "pool"},
	{`rooms?|roomy|roomier|roomiest`, "capacity, space, memory"},
	{`ask(s|ed|ing)? for`, "request, require"},
	{`kn(ow|ows|own) of`, "know about, record"},
	{`looked (at|into)`, "inspected, read, evaluated"},
	{`(goes|go|went|going) on`, "continue"},
	{`taken for|takes? it for`, "count as, mistake for"},
	{`on (its|their) way out`, "being deleted, ending"},
	{`of (ours|theirs)`, "name whose it is"},
	{`says? something|says? no more`, "name the condition"},
	{`in vain`, "without effect"},
	{`for ever`, "forever"},
	{`now and then`, "sometimes"},
	{`at last`, "finally"},
	{`of before`, "former"},
	{`cure[sd]?`, "resolve, repair"},
	{`patience|patient(ly)?`, "name what is waited for"},
}

// banned matches the idioms in their order. Words may be on two lines of a comment.
var banned = func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, i := range idioms {
		all = append(all, regexp.MustCompile(`(?i)\b(?:`+strings.ReplaceAll(i.pattern, " ", `[\s/#]+`)+`)\b`))
	}
	return all
}()

// Check returns a sentence for each line of a file that has an idiom.
func Check(path string, text []byte) []string {
	var found []string
	for i, pattern := range banned {
		for rest, line := text, 1; ; {
			at := pattern.FindIndex(rest)
			if at == nil {
				break
			}
			line += bytes.Count(rest[:at[0]], []byte("\n"))
			found = append(found, fmt.Sprintf("%s:%d: %q: write %s", path, line, rest[at[0]:at[1]], idioms[i].instead))
			line += bytes.Count(rest[at[0]:at[1]], []byte("\n"))
			rest = rest[at[1]:]
		}
	}
	return found
}
