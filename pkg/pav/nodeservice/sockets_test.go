// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservice

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"stowage.dev/stowage/pkg/metrics"
)

// TestMeasured: calls of kubelet are counted by method and code, and its answers to registrations. It is
// not parallel: the metrics are the process's.
func TestMeasured(t *testing.T) {
	metrics.RegisterCSI()
	legacyregistry.Reset()
	call := func(err error) {
		t.Helper()
		info := &grpc.UnaryServerInfo{FullMethod: csi.Node_NodeStageVolume_FullMethodName}
		_, got := measure(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, err })
		if !errors.Is(got, err) {
			t.Errorf("error %v, want %v", got, err)
		}
	}
	call(nil)
	call(status.Error(codes.Aborted, "in progress"))
	call(status.Error(codes.Aborted, "in progress"))
	refused := 0
	r := &registrar{driver: "d", refused: func() { refused++ }}
	for _, registered := range []bool{true, false} {
		if _, err := r.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: registered}); err != nil {
			t.Fatal(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d drivers are registered again, want 1", refused)
	}
	counts := map[string]uint64{}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "stowage_csi_call_duration_seconds" {
			for _, metric := range family.GetMetric() { // labels are sorted: code, method
				counts[metric.GetLabel()[1].GetValue()+" "+metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
			}
		}
	}
	if counts["NodeStageVolume OK"] != 1 || counts["NodeStageVolume Aborted"] != 2 || len(counts) != 2 {
		t.Errorf("calls %v", counts)
	}
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(`
# HELP stowage_csi_registrations_total [ALPHA] Answers of kubelet to the registration of a driver, by outcome: registered, refused.
# TYPE stowage_csi_registrations_total counter
stowage_csi_registrations_total{outcome="refused"} 1
stowage_csi_registrations_total{outcome="registered"} 1
`), "stowage_csi_registrations_total"); err != nil {
		t.Error(err)
	}
}
