// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reference is where users look fields up.
const reference = "../../../../docs/extender-configuration.md"

func readReference(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestReferenceNamesEveryField: a field that is added is also documented, with its
// default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	text := readReference(t)
	rows := map[string]bool{}
	for line := range strings.Lines(text) {
		if fields := strings.Split(line, "`"); strings.HasPrefix(line, "| `") && !strings.HasPrefix(fields[1], "--") {
			rows[fields[1]] = false
		}
	}
	for _, path := range fieldPaths("", reflect.TypeFor[ExtenderConfiguration]()) {
		if _, ok := rows[path]; !ok {
			t.Errorf("%s has no row for field %s", reference, path)
		}
		rows[path] = true
	}
	for path, there := range rows {
		if !there {
			t.Errorf("%s has a row for %s, which is no field", reference, path)
		}
	}
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	e := c.LeaderElection
	for path, value := range map[string]any{
		"mode": c.Mode, "serving.address": c.Serving.Address, "serving.insecure": c.Serving.Insecure, "serving.maxBodyBytes": c.Serving.MaxBodyBytes,
		"healthAddress": c.HealthAddress, "timeouts.verb": c.Timeouts.Verb.Duration, "timeouts.hold": c.Timeouts.Hold.Duration,
		"bindingMode": c.BindingMode, "scoring.strategy": c.Scoring.Strategy, "scoring.staticWeightPercent": c.Scoring.StaticWeightPercent,
		"clientConnection.qps": c.ClientConnection.QPS, "clientConnection.burst": c.ClientConnection.Burst,
		"leaderElection.leaderElect": e.LeaderElect, "leaderElection.resourceNamespace": e.ResourceNamespace, "leaderElection.resourceName": e.ResourceName,
		"leaderElection.leaseDuration": e.LeaseDuration.Duration, "leaderElection.renewDeadline": e.RenewDeadline.Duration, "leaderElection.retryPeriod": e.RetryPeriod.Duration,
	} {
		_, row, _ := strings.Cut(text, "| `"+path+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if want := fmt.Sprintf(" | `%v` |", value); !strings.Contains(row, want) {
			t.Errorf("%s does not say that %s is %v by default", reference, path, value)
		}
	}
}

// fieldPaths are the paths of the fields that hold values, as users write them.
func fieldPaths(prefix string, structure reflect.Type) []string {
	var paths []string
	for field := range structure.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		path := prefix + name
		switch kind := field.Type.Kind(); {
		case name == "": // TypeMeta, inline
		case kind == reflect.Struct && field.Type != reflect.TypeFor[metav1.Duration]():
			paths = append(paths, fieldPaths(path+".", field.Type)...)
		case kind == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			paths = append(append(paths, path), fieldPaths(path+"[].", field.Type.Elem())...)
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

// TestExamplesAreValid: what users copy works, from the page and from manifests.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	_, example, found := strings.Cut(readReference(t), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatalf("%s has no example", reference)
	}
	examples := map[string]string{reference: example}
	for _, mode := range []string{"full", "advisory"} {
		path := "../../../../manifests/extender/" + mode + "/config.yaml"
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		examples[path] = string(text)
	}
	for path, text := range examples {
		c, err := Decode([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if strings.Contains(path, "advisory") != (c.Mode == "Advisory") {
			t.Errorf("%s is of mode %s", path, c.Mode)
		}
	}
}
