// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/legacyregistry"

	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestMetrics: volumes and failures are counted while they exist. It is not parallel: the metrics are
// those of the controller of all tests.
func TestMetrics(t *testing.T) {
	e := fixture.New(t)
	text := strings.Replace(withPods, "  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i}]}}\n", "", 1)
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(claim string, _ helperpod.Step, _ int) outcome {
		if claim == "bad" {
			return exit(report.Report{Error: "the pool is full"}, 1)
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	claim, _ := bound(e)
	bad := e.CreatePVC(e.PVC("bad").Class(e.Name("made")))
	counted(e, map[string]float64{"PavVolumes": 2, "Provisioned": 1, "create CreationFailed": 1})
	e.DeletePVC(bad.Name)
	removed(e, claim)
	counted(e, map[string]float64{})
}

// counted waits until the gauges of volumes and failures have these values, without those that are 0.
func counted(e *fixture.Env, want map[string]float64) {
	e.T.Helper()
	var got map[string]float64
	err := wait.PollUntilContextTimeout(e.Context(), 50*time.Millisecond, e.Timeout, true, func(context.Context) (bool, error) { //nolint:forbidigo // metrics have no events
		families, err := legacyregistry.DefaultGatherer.Gather()
		got = map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				var labels []string
				for _, label := range metric.GetLabel() {
					labels = append(labels, label.GetValue())
				}
				switch family.GetName() {
				case "stowage_controller_pav_volumes":
					if got["PavVolumes"] += metric.GetGauge().GetValue(); labels[0] == "Provisioned" {
						got["Provisioned"] = metric.GetGauge().GetValue()
					}
				case "stowage_controller_pav_failing":
					got[strings.Join(labels, " ")] = metric.GetGauge().GetValue()
				}
			}
		}
		maps.DeleteFunc(got, func(_ string, n float64) bool { return n == 0 })
		return cmp.Equal(want, got), err
	})
	if err != nil {
		e.T.Fatalf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}
