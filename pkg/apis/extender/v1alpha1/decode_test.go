// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/pkg/apis/component"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

const header = "apiVersion: extender.config.stowage.dev/v1alpha1\nkind: ExtenderConfiguration\n"

const (
	anyClient = "serving:\n  certFile: a\n  keyFile: b\n  clientCAFile: c\n"
	files     = anyClient + "  clientNames: [\"system:kube-scheduler\"]\n"
)

// defaults are the documented defaults.
func defaults() *ExtenderConfiguration {
	lasting := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return &ExtenderConfiguration{
		Mode:             ModeFull,
		Serving:          Serving{Address: ":8443", CertFile: "a", KeyFile: "b", ClientCAFile: "c", ClientNames: []string{"system:kube-scheduler"}, MaxBodyBytes: new(int64(8 << 20))},
		HealthAddress:    new(":8080"),
		Timeouts:         Timeouts{Verb: lasting(8 * time.Second), Hold: lasting(10 * time.Minute)},
		BindingMode:      configv1.BindingModeDirect,
		Scoring:          configv1.VolumeScoring{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(50))},
		ClientConnection: component.ClientConnection{QPS: new(int32(1000)), Burst: new(int32(2000))},
		LeaderElection: component.LeaderElection{
			LeaderElect: new(true), ResourceNamespace: "kube-system", ResourceName: "stowage-extender",
			LeaseDuration: lasting(15 * time.Second), RenewDeadline: lasting(10 * time.Second), RetryPeriod: lasting(2 * time.Second),
		},
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	advisory := defaults()
	advisory.Mode, advisory.Timeouts.Hold.Duration, advisory.LeaderElection.LeaderElect = ModeAdvisory, 30*time.Second, new(false)
	changed := defaults()
	changed.HealthAddress, changed.Timeouts.Verb.Duration = new(""), 3*time.Second
	changed.Scoring = configv1.VolumeScoring{Strategy: configv1.ScoringMostAllocated, StaticWeightPercent: new(int32(10))}
	changed.SchedulerNames = []string{"one", "two"}
	open := defaults()
	open.Mode, open.Timeouts.Hold.Duration, open.LeaderElection.LeaderElect = ModeAdvisory, 30*time.Second, new(false)
	open.Serving.ClientNames = nil
	plain := defaults()
	plain.Serving = Serving{Address: "127.0.0.1:8443", Insecure: true, MaxBodyBytes: new(int64(8 << 20))}
	tests := map[string]struct {
		text string
		want *ExtenderConfiguration
	}{
		"defaults":             {files, defaults()},
		"advisory has its own": {"mode: Advisory\n" + files, advisory},
		"advisory answers any": {"mode: Advisory\n" + anyClient, open},
		"plain HTTP, if asked": {"serving:\n  address: 127.0.0.1:8443\n  insecure: true\n", plain},
		"set fields are not defaulted": {
			files + "schedulerNames: [one, two]\nhealthAddress: \"\"\ntimeouts: {verb: 3s}\nscoring: {strategy: MostAllocated, staticWeightPercent: 10}\n", changed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode([]byte(header + tc.text))
			if err != nil {
				t.Fatal(err)
			}
			text, err := yaml.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Decode(text)
			if err != nil || !cmp.Equal(got, again) {
				t.Errorf("error %v after a round trip, difference:\n%s", err, cmp.Diff(got, again))
			}
			got.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeRefuses: the error names what is wrong.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"no certificate":                    {header, "serving.certFile: Required"},
		"no kind":                           {files, "Kind"},
		"another kind":                      {"apiVersion: extender.config.stowage.dev/v1alpha1\nkind: Else\n", "Else"},
		"unknown field":                     {header + files + "colour: red\n", "colour"},
		"repeated field":                    {header + files + "mode: Full\nmode: Full\n", "mode"},
		"mode":                              {header + files + "mode: Half\n", "mode: Unsupported"},
		"plain HTTP for everybody":          {header + "serving: {insecure: true}\n", "loopback"},
		"plain HTTP at a name":              {header + "serving: {insecure: true, address: \"example.com:80\"}\n", "loopback"},
		"plain HTTP with a certificate":     {header + files + "  insecure: true\n  address: 127.0.0.1:1\n", "serving.certFile: Forbidden"},
		"plain HTTP with names":             {header + "serving: {insecure: true, address: \"[::1]:1\", clientNames: [a]}\n", "clientNames: Forbidden"},
		"an empty name":                     {header + anyClient + "  clientNames: [\"\"]\n", "clientNames[0]"},
		"no name in mode Full":              {header + anyClient, "serving.clientNames: Required"},
		"an empty scheduler's name":         {header + files + "schedulerNames: [a, \"\"]\n", "schedulerNames[1]"},
		"no port":                           {header + files + "  address: host\n", "serving.address"},
		"health without a port":             {header + files + "healthAddress: host\n", "healthAddress"},
		"body too small":                    {header + files + "  maxBodyBytes: 1\n", "maxBodyBytes"},
		"body too large":                    {header + files + "  maxBodyBytes: 1073741825\n", "maxBodyBytes"},
		"verb too long":                     {header + files + "timeouts: {verb: 2m}\n", "timeouts.verb"},
		"verb negative":                     {header + files + "timeouts: {verb: -1s}\n", "timeouts.verb"},
		"hold too short":                    {header + files + "timeouts: {hold: 1ms}\n", "timeouts.hold"},
		"binding mode":                      {header + files + "bindingMode: Else\n", "bindingMode: Unsupported"},
		"scoring":                           {header + files + "scoring: {strategy: Else}\n", "scoring.strategy: Unsupported"},
		"scoring, shape":                    {header + files + "scoring: {strategy: RequestedToCapacityRatio}\n", "scoring.shape: Required"},
		"requests":                          {header + files + "clientConnection: {qps: 0}\n", "clientConnection.qps"},
		"burst":                             {header + files + "clientConnection: {burst: -1}\n", "clientConnection.burst"},
		"lease's name":                      {header + files + "leaderElection: {resourceName: A_B}\n", "leaderElection.resourceName"},
		"lease shorter than its renewal":    {header + files + "leaderElection: {leaseDuration: 1s}\n", "leaderElection.leaseDuration"},
		"renewal shorter than its attempts": {header + files + "leaderElection: {renewDeadline: 2s}\n", "leaderElection.renewDeadline"},
		"attempts without end":              {header + files + "leaderElection: {retryPeriod: -1s}\n", "leaderElection.retryPeriod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Decode([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v and error %v, want an error with %q", got, err, tc.want)
			}
		})
	}
}

// FuzzDecode: no file makes Decode panic, and accepted values are within bounds.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(header + files))
	f.Add([]byte(header + "serving: {insecure: true, address: \"[::1]:1\"}\nmode: Advisory\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Decode(data); err == nil && (c.Timeouts.Verb.Duration <= 0 || *c.Serving.MaxBodyBytes <= 0) {
			t.Errorf("accepted %+v", c)
		}
	})
}
