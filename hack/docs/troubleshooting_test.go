// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/scheduling/match"
)

const troubleshooting = "docs/troubleshooting.md"

// TestTroubleshooting: the tables of the page have every reason and message of the code, word
// for word, and no others.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string][]string{
		"Nodes are counted":                append(nodeReasons(), constants(t, "pkg/scheduling/extender", `^unknownNode$`)...),
		"No node is counted":               slices.Concat(called(t, "pkg/scheduling/claims", "refuse"), called(t, "pkg/scheduling/match/request.go", "Errorf")),
		"From the extender":                without(t, errorsOf(t, "pkg/scheduling/extender"), extenderInternal, "From the extender"),
		"States":                           states(),
		"Reasons":                          slices.Concat(constantsOf(t, "pkg/localdisk/disk", "Reason"), cannot(t)),
		"Events of the provisioner":        constants(t, "pkg/localdisk/provisioner/status", `^event[A-Z]`),
		"Events of the controller":         constants(t, "pkg/controller/nodeloss", `^event[A-Z]`),
		"Claims that are bound now":        constants(t, "pkg/controller/claimbinder", `^event[A-Z]`),
		"Events without the PV controller": constants(t, "pkg/controller/pvbinder/rules", `^Reason[A-Z]`),
		"A PavProvisioner":                 slices.Concat(constants(t, "pkg/controller/pav/volumes", `^reason[A-Z]`), constants(t, "pkg/controller/pav/capacities", `^reason[A-Z]`)),
		"Conditions":                       pavConditions(t),
		"A volume of a PavProvisioner":     slices.Concat(constantsOf(t, "pkg/controller/pav/volumes/rules", "Reason"), constantsOf(t, "pkg/apis/stowage/v1alpha1", "PavVolumePhase")),
		"A volume on a node":               slices.Concat(constantsOf(t, "pkg/controller/pav/stagings/rules", "Reason"), constantsOf(t, "pkg/apis/stowage/v1alpha1", "PavStagingPhase")),
		"Cleaning Jobs": slices.Concat(constantsOf(t, "pkg/apis/stowage/v1alpha1", "CleaningJobState"),
			constantsOf(t, "pkg/localdisk/cleanjob", "Reason"), constantsOf(t, "pkg/controller/cleaningjobs", "Reason")),
		"A node was found, and binding failed": slices.Concat(
			texts(t, "pkg/scheduling/plan"),
			without(t, slices.Concat(
				errorsOf(t, "pkg/scheduling/binder/errors.go"), errorsOf(t, "pkg/scheduling/binder/wait.go"), errorsOf(t, "pkg/scheduling/volumecache/attempt"), errorsOf(t, "pkg/scheduling/volumetopology/reserve.go"),
			), binderInternal, "binding"),
		),
	} {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			slices.Sort(want)
			want = slices.Compact(want)
			if len(want) < 5 {
				t.Fatalf("found %q in the source", want)
			}
			if diff := cmp.Diff(want, firstCells(section(t, troubleshooting, heading))); diff != "" {
				t.Errorf("%s, %q (-the code +the page):\n%s", troubleshooting, heading, diff)
			}
		})
	}
}

// TestFailureCodes: the page has the code of each failure of a binding beside its words.
func TestFailureCodes(t *testing.T) {
	t.Parallel()
	page := section(t, troubleshooting, "A node was found, and binding failed")
	for _, code := range constantsOf(t, "pkg/scheduling/plan", "FailureCode") {
		if !strings.Contains(page, "| `"+code+"` |") {
			t.Errorf("%s lacks %s", troubleshooting, code)
		}
	}
}

// TestGuide: kubectl stowage links each reason to the section of the page that has it.
func TestGuide(t *testing.T) {
	t.Parallel()
	all := guide.All()
	if len(all) < 9 {
		t.Fatalf("the guide has %d sections", len(all))
	}
	for s, got := range all {
		if diff := cmp.Diff(firstCells(section(t, troubleshooting, string(s))), got); diff != "" {
			t.Errorf("%s, %q (-the page +the guide):\n%s", troubleshooting, s, diff)
		}
	}
	for _, s := range slices.AppendSeq(guide.WithoutReasons(), maps.Keys(all)) {
		if !strings.Contains(read(t, troubleshooting), "# "+string(s)+"\n") {
			t.Errorf("%s has no heading %q", troubleshooting, s)
		}
	}
}

// nodeReasons are why the scheduling cache rejects a node.
func nodeReasons() []string {
	var all []string
	unknown := match.ReasonCode(255).String()
	for code := match.Fits + 1; code.String() != unknown; code++ {
		all = append(all, code.String())
	}
	return append(all, match.Reason{Code: match.NotEnoughSpace, Held: true}.String())
}

// pavConditions are the types of conditions of the kinds of PaV.
func pavConditions(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, kind := range []string{"pavprovisioner", "pavvolume", "pavstaging"} {
		of := constants(t, "pkg/apis/stowage/v1alpha1/"+kind+".go", "^Condition[A-Z]")
		if len(of) == 0 {
			t.Errorf("%s has no conditions", kind)
		}
		all = append(all, of...)
	}
	return all
}

// TestReasonsAreConstants: the controllers of PaV write reasons of conditions and events by constants only,
// which TestTroubleshooting finds.
func TestReasonsAreConstants(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"volumes", "volumes/rules", "stagings", "stagings/rules", "capacities"} {
		each(t, "pkg/controller/pav/"+folder, func(n ast.Node) {
			var reason ast.Expr
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
					reason = n.Value
				}
			case *ast.CallExpr: // the function that sets a condition
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "set" && len(n.Args) == 4 {
					reason = n.Args[2]
				}
			}
			if text, ok := reason.(*ast.BasicLit); ok {
				t.Errorf("pkg/controller/pav/%s: the reason %s is not a constant", folder, text.Value)
			}
		})
	}
}

func states() []string {
	var all []string
	for _, state := range stowage.EntryStates() {
		all = append(all, string(state))
	}
	return all
}

// cannot are the reasons for what the provisioner has decided and cannot do.
func cannot(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, action := range constantsOf(t, "pkg/localdisk/decide", "Action") {
		if action != "FindUsers" { // has reasons of its own
			all = append(all, "Cannot"+action)
		}
	}
	return all
}

// What is in the source of errors and that no pod's user reads, by what it is.
var (
	extenderInternal = map[string]string{
		"extender: Settings, Client and Informers must be set":               "a fault in the command",
		"index pods with ephemeral volumes: …":                               "a fault in the command",
		"encode the answer: …":                                               "a type that JSON cannot have",
		"it has no Pod":                                                      "follows: read the request",
		"PodName, PodNamespace, PodUID and Node must be set":                 "follows: read the request",
		"volumes on node \"…\" changed while the pod was being scheduled: …": "as of the plugin",
	}
	binderInternal = map[string]string{
		"bind timeout":                       "a cause in TimeoutError",
		"provisioner \"…\"":                  "part of another text",
		"PreFilter has not run for this pod": "kube-scheduler always runs it first",
	}
)

// without leaves out what users do not read. What is left out has to be there.
func without(t *testing.T, all []string, internal map[string]string, what string) []string {
	t.Helper()
	for text := range maps.Keys(internal) {
		if !slices.Contains(all, text) {
			t.Errorf("%s: the source has no %q any more", what, text)
		}
	}
	return slices.DeleteFunc(all, func(text string) bool { return internal[text] != "" })
}

// section is the part of a page below a heading, up to the next heading of any level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "# "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

var firstCell = regexp.MustCompile("(?m)^\\| (`[^`]+`(?:, `[^`]+`)*) \\|")

// firstCells are what the rows of a text's tables are about, one thing or several, sorted.
func firstCells(text string) []string {
	var all []string
	for _, row := range firstCell.FindAllStringSubmatch(text, -1) {
		for _, cell := range quoted.FindAllStringSubmatch(row[1], -1) {
			all = append(all, cell[1])
		}
	}
	slices.Sort(all)
	return all
}

var quote = regexp.MustCompile("`([^`]{20,})`")

// TestStartMessages: what parts are said to say when they do not run, they say.
func TestStartMessages(t *testing.T) {
	t.Parallel()
	said := 0
	for line := range strings.Lines(section(t, troubleshooting, "A part does not run")) {
		cell, _, found := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !found {
			continue
		}
		for _, text := range quote.FindAllStringSubmatch(cell, -1) {
			said++
			for piece := range strings.SplitSeq(text[1], "…") {
				if !inSource(t, strings.TrimSpace(piece)) {
					t.Errorf("%s: nothing says %q", troubleshooting, piece)
				}
			}
		}
	}
	if said < 8 {
		t.Errorf("the page has %d messages", said)
	}
}
