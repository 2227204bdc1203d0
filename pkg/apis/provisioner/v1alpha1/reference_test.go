// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// reference is where users look keys up.
const reference = "../../../../docs/provisioner-configuration.md"

func readReference(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// defaultsOf returns the fields of a defaulted struct by key, as the page writes them; nil for
// those without a default.
func defaultsOf(t *testing.T, defaulted any) map[string]any {
	t.Helper()
	fields := map[string]any{}
	for _, key := range keysOf(defaulted) {
		fields[key] = nil
	}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(defaulted)) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, isKey := fields[key]; !isKey {
			continue
		}
		switch value := reflect.ValueOf(defaulted).FieldByIndex(f.Index).Interface().(type) {
		case *metav1.Duration:
			fields[key] = value.Duration
		case *int32:
			fields[key] = *value
		case *resource.Quantity:
			fields[key] = value.String()
		case *bool:
			fields[key] = value != nil && *value
		case []string:
			if value != nil {
				fields[key] = strings.Join(value, " ")
			}
		case bool:
			fields[key] = value
		default:
			if text := fmt.Sprint(value); text != "" && reflect.TypeOf(value).Kind() == reflect.String {
				fields[key] = text
			}
		}
	}
	return fields
}

// TestReferenceNamesEveryKey: a key that is added is also documented, with its
// default in the same row.
func TestReferenceNamesEveryKey(t *testing.T) {
	t.Parallel()
	config, err := Decode(classMap("file: {hostDir: /mnt/file}\nraw: {hostDir: /mnt/raw, volumeMode: Block}"))
	if err != nil {
		t.Fatal(err)
	}
	_, globals, found := strings.Cut(readReference(t), "\n## Keys of the ConfigMap\n")
	globals, classes, divided := strings.Cut(globals, "\n## Keys of a class\n")
	if !found || !divided {
		t.Fatalf("%s lacks the sections of keys", reference)
	}
	checkRows(t, globals, defaultsOf(t, *config))
	class := defaultsOf(t, config.Classes["file"])
	class["hostDir"], class["mountDir"] = nil, "hostDir"
	checkRows(t, classes, class)
	if row := fmt.Sprintf("with `volumeMode: Block` `%s`", config.Classes["raw"].BlockCleanerCommand[0]); !strings.Contains(classes, row) {
		t.Errorf("%s does not say %q", reference, row)
	}
}

// checkRows holds the first table of a section (key, type, default, allowed)
// against the code.
func checkRows(t *testing.T, section string, defaults map[string]any) {
	t.Helper()
	_, table, _ := strings.Cut(section, "| --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, " | "); len(cells) == 4 {
			rows[strings.Trim(cells[0], "| `")] = cells[2]
		}
	}
	for name, value := range defaults {
		want := "none"
		if value != nil {
			want = fmt.Sprintf("`%v`", value)
		}
		got, documented := rows[name]
		if got, _, _ := strings.Cut(got, ","); !documented || got != want {
			t.Errorf("%s: key %s has the default %q, want %q", reference, name, got, want)
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
	for _, w := range methods {
		passes, script := "none", ""
		if w.passes > 0 {
			passes = fmt.Sprintf("passes, `1` to `%d`, default `%d`", maxPasses, w.passes)
		}
		if w.script != "" {
			script = "`" + w.script + "` "
		}
		if row := fmt.Sprintf("| `%s` | %s | %s|", w.name, passes, script); !strings.Contains(text, row) {
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
		if _, err := Decode(manifest.Data); err != nil {
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
