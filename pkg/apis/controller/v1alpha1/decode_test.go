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
)

const header = "apiVersion: controller.config.stowage.dev/v1alpha1\nkind: ControllerConfiguration\n"

// defaults are the documented defaults.
func defaults() *ControllerConfiguration {
	lasting := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return &ControllerConfiguration{
		HealthAddress: new(":8080"),
		Namespace:     "stowage-system",
		NodeLoss: NodeLoss{
			Policy: NodeLossKeep, Delay: lasting(5 * time.Minute), OutOfService: OutOfServiceIgnore, ReleasesPerMinute: new(int32(10)),
		},
		OrphanCleans:     OrphanCleans{PerHour: new(int32(10))},
		PavVolumes:       PavVolumes{Namespace: "stowage-pav"},
		ClientConnection: component.ClientConnection{QPS: new(int32(50)), Burst: new(int32(100))},
		LeaderElection: component.LeaderElection{
			LeaderElect: new(true), ResourceNamespace: "stowage-system", ResourceName: "stowage-controller",
			LeaseDuration: lasting(15 * time.Second), RenewDeadline: lasting(10 * time.Second), RetryPeriod: lasting(2 * time.Second),
		},
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	changed := defaults()
	changed.HealthAddress, changed.LeaderElection.LeaderElect = new(""), new(false)
	changed.NodeLoss = NodeLoss{
		Policy: NodeLossRelease, Delay: metav1.Duration{Duration: time.Hour}, OutOfService: OutOfServiceLost, ReleasesPerMinute: new(int32(1)), DryRun: true,
		RecreatingOwners: []string{"Cluster.postgresql.cnpg.io", "Redis.redis.example.com"},
	}
	changed.OrphanCleans.PerHour = new(int32(0))
	moved := defaults()
	moved.Namespace, moved.LeaderElection.ResourceNamespace, moved.PavVolumes.Namespace = "storage", "storage", "helpers"
	changed.ClaimBinder.BindNow = BindNow{Enabled: true, Annotations: []BindAnnotation{{Key: "example.com/now"}, {Key: "example.com/now", Value: "yes"}}}
	for name, tc := range map[string]struct {
		text string
		want *ControllerConfiguration
	}{
		"the lease is in the namespace": {"namespace: storage\npavVolumes: {namespace: helpers}\n", moved},
		"defaults":                      {"", defaults()},
		"set fields are not defaulted": {
			"healthAddress: \"\"\nnodeLoss: {policy: Release, delay: 1h, outOfService: Lost, releasesPerMinute: 1, dryRun: true, recreatingOwners: [Cluster.postgresql.cnpg.io, Redis.redis.example.com]}\norphanCleans: {perHour: 0}\nclaimBinder: {bindNow: {enabled: true, annotations: [{key: example.com/now}, {key: example.com/now, value: \"yes\"}]}}\nleaderElection: {leaderElect: false}\n", changed,
		},
	} {
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
	if got, err := Default(); err != nil || !cmp.Equal(defaults(), got) {
		t.Errorf("default %+v, error %v", got, err)
	}
}

// TestDecodeRefuses: the error names what is wrong.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"no kind":                           {"nodeLoss: {}\n", "Kind"},
		"another kind":                      {"apiVersion: controller.config.stowage.dev/v1alpha1\nkind: Else\n", "Else"},
		"unknown field":                     {header + "nodeLoss: {colour: red}\n", "colour"},
		"repeated field":                    {header + "healthAddress: \":1\"\nhealthAddress: \":1\"\n", "healthAddress"},
		"policy":                            {header + "nodeLoss: {policy: keep}\n", "nodeLoss.policy: Unsupported"},
		"delay too short":                   {header + "nodeLoss: {delay: 1ms}\n", "nodeLoss.delay"},
		"delay too long":                    {header + "nodeLoss: {delay: 8761h}\n", "nodeLoss.delay"},
		"delay without unit":                {header + "nodeLoss: {delay: \"5\"}\n", "missing unit"},
		"taint":                             {header + "nodeLoss: {outOfService: true}\n", "outOfService"},
		"budget of none":                    {header + "nodeLoss: {releasesPerMinute: 0}\n", "nodeLoss.releasesPerMinute"},
		"budget without end":                {header + "nodeLoss: {releasesPerMinute: 10001}\n", "nodeLoss.releasesPerMinute"},
		"owner without a group":             {header + "nodeLoss: {recreatingOwners: [Cluster]}\n", "nodeLoss.recreatingOwners[0]"},
		"owner of any kind":                 {header + "nodeLoss: {recreatingOwners: [\"*.cnpg.io\"]}\n", "nodeLoss.recreatingOwners[0]"},
		"owner without a kind":              {header + "nodeLoss: {recreatingOwners: [postgresql.cnpg.io]}\n", "nodeLoss.recreatingOwners[0]"},
		"owner with a version":              {header + "nodeLoss: {recreatingOwners: [A.b.io, Cluster.postgresql.cnpg.io/v1]}\n", "nodeLoss.recreatingOwners[1]"},
		"owner that makes no claims":        {header + "nodeLoss: {recreatingOwners: [Deployment.apps]}\n", "must be Kind.group of a custom resource"},
		"owner with rules of its own":       {header + "nodeLoss: {recreatingOwners: [StatefulSet.apps]}\n", "nodeLoss.recreatingOwners[0]"},
		"pods":                              {header + "nodeLoss: {recreatingOwners: [Pod]}\n", "nodeLoss.recreatingOwners[0]"},
		"owner of a group of Kubernetes":    {header + "nodeLoss: {recreatingOwners: [PodGroup.scheduling.k8s.io]}\n", "nodeLoss.recreatingOwners[0]"},
		"owner twice":                       {header + "nodeLoss: {recreatingOwners: [A.b.io, A.b.io]}\n", "nodeLoss.recreatingOwners[1]: Duplicate"},
		"cleans below none":                 {header + "orphanCleans: {perHour: -1}\n", "orphanCleans.perHour"},
		"cleans without end":                {header + "orphanCleans: {perHour: 10001}\n", "orphanCleans.perHour"},
		"annotation without a key":          {header + "claimBinder: {bindNow: {annotations: [{value: x}]}}\n", "claimBinder.bindNow.annotations[0].key"},
		"annotation that none can be":       {header + "claimBinder: {bindNow: {annotations: [{key: a/b/c}]}}\n", "claimBinder.bindNow.annotations[0].key"},
		"annotation twice":                  {header + "claimBinder: {bindNow: {annotations: [{key: a/b}, {key: a/b}]}}\n", "claimBinder.bindNow.annotations[1]: Duplicate"},
		"too many annotations":              {header + "claimBinder: {bindNow: {annotations: [" + strings.Repeat("{key: a}, ", 17) + "]}}\n", "claimBinder.bindNow.annotations: Too many"},
		"health without a port":             {header + "healthAddress: host\n", "healthAddress"},
		"namespace":                         {header + "namespace: A_B\n", "namespace: Invalid value"},
		"namespace of helper pods":          {header + "pavVolumes: {namespace: a.b}\n", "pavVolumes.namespace: Invalid value"},
		"requests":                          {header + "clientConnection: {qps: 0}\n", "clientConnection.qps"},
		"burst":                             {header + "clientConnection: {burst: -1}\n", "clientConnection.burst"},
		"lease's name":                      {header + "leaderElection: {resourceName: A_B}\n", "leaderElection.resourceName"},
		"lease shorter than its renewal":    {header + "leaderElection: {leaseDuration: 1s}\n", "leaderElection.leaseDuration"},
		"renewal shorter than its attempts": {header + "leaderElection: {renewDeadline: 2s}\n", "leaderElection.renewDeadline"},
		"attempts without end":              {header + "leaderElection: {retryPeriod: -1s}\n", "leaderElection.retryPeriod"},
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
	f.Add([]byte(header))
	f.Add([]byte(header + "nodeLoss: {policy: Release, delay: 1s}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Decode(data); err == nil && (c.NodeLoss.Delay.Duration < time.Second || *c.NodeLoss.ReleasesPerMinute < 1) {
			t.Errorf("accepted %+v", c)
		}
	})
}
