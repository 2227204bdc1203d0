// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// reference is where users look keys up.
const reference = "../../../docs/provisioner-configuration.md"

func readReference(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// globalDefaults are the defaults of the ConfigMap's keys, as the reference
// writes them. Those that may only be off are false.
func globalDefaults(c *Config) map[string]any {
	return map[string]any{
		classMapKey: nil, "nodeLabelsForPV": nil, "labelsForPV": nil, "jobTolerations": nil, taintKeyKey: nil,
		"useAlphaAPI": false, useJobsKey: c.UseJobForCleaning, "setPVOwnerRef": false,
		"minResyncPeriod": c.MinResyncPeriod, "useNodeNameOnly": c.UseNodeNameOnly,
		removeTaintKey: c.RemoveNodeNotReadyTaint, "maxCleaning": c.MaxCleaning,
		"maxBlankProofs": c.MaxBlankProofs, "blankProofRate": resource.NewQuantity(c.BlankProofRate, resource.BinarySI), "orphanGracePeriod": c.OrphanGracePeriod, "probeTimeout": c.ProbeTimeout,
	}
}

// classDefaultsOf are the defaults of a class's keys; mountDir's is another key.
func classDefaultsOf(c Class) map[string]any {
	return map[string]any{
		"hostDir": nil, "mountDir": "hostDir", "fsType": nil, "fsCleanerCommand": nil, "directoryPattern": nil, "selector": nil,
		"volumeMode": c.VolumeMode, "accessMode": c.AccessMode, "namePattern": strings.Join(c.NamePatterns, ","),
		"blockCleanerCommand": c.BlockCleaner.Method, "cleanTimeout": c.CleanTimeout, "existingData": c.ExistingData,
		"allowDirectories": len(c.DirectoryPatterns) > 0, "volumeName": c.VolumeName,
	}
}

// TestReferenceNamesEveryKey: a key that is added is also documented, with its
// default in the same row.
func TestReferenceNamesEveryKey(t *testing.T) {
	t.Parallel()
	config, err := Parse(classMap("file: {hostDir: /mnt/file}\nraw: {hostDir: /mnt/raw, volumeMode: Block}"))
	if err != nil {
		t.Fatal(err)
	}
	_, globals, found := strings.Cut(readReference(t), "\n## Keys of the ConfigMap\n")
	globals, classes, divided := strings.Cut(globals, "\n## Keys of a class\n")
	if !found || !divided {
		t.Fatalf("%s lacks the sections of keys", reference)
	}
	checkRows(t, globals, namesOf(globalKeys), globalDefaults(config))
	checkRows(t, classes, namesOf(classKeys), classDefaultsOf(config.Classes[0]))
	if row := fmt.Sprintf("with `volumeMode: Block` `%s`", config.Classes[1].BlockCleaner.Method); !strings.Contains(classes, row) {
		t.Errorf("%s does not say %q", reference, row)
	}
}

// checkRows holds the first table of a section (key, type, default, allowed)
// against the code.
func checkRows(t *testing.T, section string, names []string, defaults map[string]any) {
	t.Helper()
	_, table, _ := strings.Cut(section, "| --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, " | "); len(cells) == 4 {
			rows[strings.Trim(cells[0], "| `")] = cells[2]
		}
	}
	for _, name := range names {
		value, listed := defaults[name]
		want := "none"
		if value != nil {
			want = fmt.Sprintf("`%v`", value)
		}
		got, documented := rows[name]
		if got, _, _ := strings.Cut(got, ","); !listed || !documented || got != want {
			t.Errorf("%s: key %s has the default %q, want %q (known to this test: %t)", reference, name, got, want, listed)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("%s documents %s, which is no key", reference, name)
	}
}

// TestReferenceNamesEveryMethod: with its script and its default of passes.
func TestReferenceNamesEveryMethod(t *testing.T) {
	t.Parallel()
	text := readReference(t)
	for _, w := range words {
		passes, script := "none", ""
		if w.passes > 0 {
			passes = fmt.Sprintf("passes, `1` to `%d`, default `%d`", maxPasses, w.passes)
		}
		if w.script != "" {
			script = "`" + w.script + "` "
		}
		if row := fmt.Sprintf("| `%s` | %s | %s|", w.method, passes, script); !strings.Contains(text, row) {
			t.Errorf("%s has no row beginning %q", reference, row)
		}
	}
}

// TestReferenceExamplesAreValid: what users copy works.
func TestReferenceExamplesAreValid(t *testing.T) {
	t.Parallel()
	examples := strings.Split(readReference(t), "```yaml\n")[1:]
	if len(examples) < 2 {
		t.Fatalf("%s has %d examples", reference, len(examples))
	}
	for _, example := range examples {
		example, _, _ := strings.Cut(example, "```")
		var manifest struct {
			Kind string            `json:"kind"`
			Data map[string]string `json:"data"`
		}
		if err := yaml.Unmarshal([]byte(example), &manifest); err != nil || manifest.Kind != "ConfigMap" {
			t.Errorf("an example of %s is no ConfigMap (%v):\n%s", reference, err, example)
		}
		if _, err := Parse(manifest.Data); err != nil {
			t.Errorf("an example of %s: %v\n%s", reference, err, example)
		}
	}
}

// TestReferenceErrorsAreReal: the errors that the page shows are those of the
// configuration that has them.
func TestReferenceErrorsAreReal(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(readReference(t), "```text\n")
	shown, _, _ := strings.Cut(after, "```")
	got := refused(t, classMap("fast-disks: {hostdir: /mnt/fast}\nraw-disks: {hostDir: /mnt/raw, volumeMode: block}"))
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(shown), "\n"), got); diff != "" {
		t.Errorf("%s (-page +code):\n%s", reference, diff)
	}
}
