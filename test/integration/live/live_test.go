// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// claimsOf is the query of the claims of the test's namespace.
func claimsOf(e *fixture.Env) snapshot.Query {
	return snapshot.Query{Kind: snapshot.KindOf[*corev1.PersistentVolumeClaim](), Namespace: e.Namespace}
}

// TestChanges: what is created, changed and deleted is so in the next snapshot, and not in those before.
func TestChanges(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.CreatePVC(e.PVC("first"))
	e.CreatePVC(e.PVC("second"))
	f := follow(e, e.Cluster.RESTConfig(), claimsOf(e))

	before := f.wait("two claims", func(s *snapshot.Snapshot, err error) bool {
		return err == nil && len(names[*corev1.PersistentVolumeClaim](s)) == 2
	})
	if before != f.Snapshot() {
		t.Error("without a change there is another snapshot")
	}
	if !snapshot.Complete[*corev1.PersistentVolumeClaim](before) || before.Server == nil || time.Since(before.Time) > e.Timeout {
		t.Errorf("gaps %v, version %v, time %s", before.Gaps, before.Server, before.Time)
	}
	for _, claim := range snapshot.Of[*corev1.PersistentVolumeClaim](before) {
		if claim.ManagedFields != nil {
			t.Errorf("claim %s has managed fields", claim.Name)
		}
	}

	e.CreatePVC(e.PVC("third"))
	e.DeletePVC("first")
	e.PatchPVC("second", map[string]any{"metadata": map[string]any{"labels": map[string]string{"changed": "yes"}}})
	after := f.wait("the changes", func(s *snapshot.Snapshot, _ error) bool {
		second := snapshot.Find[*corev1.PersistentVolumeClaim](s, e.Namespace, "second")
		return second != nil && second.Labels["changed"] == "yes" && cmp.Equal(map[string]bool{"second": true, "third": true}, names[*corev1.PersistentVolumeClaim](s))
	})
	if after == before {
		t.Error("the snapshot was changed")
	}
	if diff := cmp.Diff(map[string]bool{"first": true, "second": true}, names[*corev1.PersistentVolumeClaim](before)); diff != "" {
		t.Errorf("claims of the snapshot before (-want +got):\n%s", diff)
	}
	if second := snapshot.Find[*corev1.PersistentVolumeClaim](before, e.Namespace, "second"); second.Labels["changed"] != "" {
		t.Error("an object of the snapshot before was changed")
	}
}

// TestWithinASecond: a change is in the snapshot within a second. Of several changes one is enough, for machines that do
// other work.
func TestWithinASecond(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	f := follow(e, e.Cluster.RESTConfig(), claimsOf(e))
	f.wait("the connection", func(_ *snapshot.Snapshot, err error) bool { return err == nil })
	var took []time.Duration
	for n := range 5 {
		name := fmt.Sprint("claim-", n)
		e.CreatePVC(e.PVC(name))
		begin := time.Now()
		f.wait("the claim", func(s *snapshot.Snapshot, _ error) bool { return names[*corev1.PersistentVolumeClaim](s)[name] })
		if took = append(took, time.Since(begin)); took[n] < time.Second {
			return
		}
	}
	t.Errorf("changes took %s", took)
}

// TestFewerRights: what a user may not read is a gap, in time also after it was granted or withdrawn.
func TestFewerRights(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.CreatePVC(e.PVC("data"))
	user := e.Name("user")
	var n network
	config := configFor(e, user)
	config.Dial = n.dial
	f := follow(e, config, queryOf[*corev1.PersistentVolumeClaim](), queryOf[*corev1.Node]())

	wait := func(what string, want []string, claim bool) {
		t.Helper()
		f.wait(what, func(s *snapshot.Snapshot, err error) bool {
			return err == nil && cmp.Equal(want, gaps(s)) && names[*corev1.PersistentVolumeClaim](s)["data"] == claim
		})
	}
	wait("no rights", []string{"nodes", "persistentvolumeclaims"}, false)
	e.Grant(user, claims, watching)
	wait("the claims of the namespace", []string{"nodes", "persistentvolumeclaims outside namespace " + e.Namespace}, true)
	grantAll(e, user, "nodes")
	wait("the nodes", []string{"persistentvolumeclaims outside namespace " + e.Namespace}, true)

	withdraw(e) // of which the API server informs at the end of a watch
	n.close()
	n.restore()
	wait("the claims to be a gap", []string{"persistentvolumeclaims"}, false)
	grantAll(e, user, "persistentvolumeclaims")
	wait("all", []string{}, true)
}

// TestListOnly: what a user may list and not watch, is in the snapshot.
func TestListOnly(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.CreatePVC(e.PVC("data"))
	user := e.Name("user")
	e.Grant(user, claims, []string{"list"})
	f := follow(e, configFor(e, user), claimsOf(e))
	f.wait("the claim", func(s *snapshot.Snapshot, err error) bool {
		return err == nil && len(s.Gaps) == 0 && names[*corev1.PersistentVolumeClaim](s)["data"]
	})
}

// TestKindInstalledLater: a kind that the API server does not serve is absent, until it is installed, and after it is
// removed.
func TestKindInstalledLater(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	f := follow(e, e.Cluster.RESTConfig(), queryOf[*stowage.LocalDiskReport]())
	s := f.wait("the kind to be absent", func(s *snapshot.Snapshot, err error) bool { return err == nil })
	if snapshot.Served[*stowage.LocalDiskReport](s) || len(s.Gaps) > 0 {
		t.Fatalf("the kind is served, or is a gap: %v", s.Gaps)
	}
	e.Do(func(ctx context.Context) error {
		return e.Cluster.CreateFiles(ctx, "../../../manifests/crd/stowage.dev_localdiskreports.yaml")
	})
	f.wait("the kind", func(s *snapshot.Snapshot, err error) bool {
		return err == nil && snapshot.Served[*stowage.LocalDiskReport](s)
	})
	objects, err := cluster.Objects([]byte("{apiVersion: stowage.dev/v1alpha1, kind: LocalDiskReport, metadata: {name: node-a}, spec: {nodeName: node-a, page: 1}}"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(e.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	e.Do(func(ctx context.Context) error { return cluster.Apply(ctx, client, objects[0]) })
	f.wait("the report", func(s *snapshot.Snapshot, _ error) bool { return names[*stowage.LocalDiskReport](s)["node-a"] })
	e.Do(func(ctx context.Context) error {
		definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		return definitions.Delete(ctx, "localdiskreports.stowage.dev", metav1.DeleteOptions{})
	})
	f.wait("the kind to be absent again", func(s *snapshot.Snapshot, err error) bool {
		return err == nil && !snapshot.Served[*stowage.LocalDiskReport](s) && len(names[*stowage.LocalDiskReport](s)) == 0
	})
}

// TestConnectionLost: while there is no connection the snapshot stays, and afterwards it has what changed meanwhile.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	var n network
	config := e.Cluster.RESTConfig()
	config.Dial = n.dial
	f := follow(e, config, claimsOf(e), queryOf[*corev1.Node]())
	before := f.wait("the connection", func(_ *snapshot.Snapshot, err error) bool { return err == nil })

	n.close()
	f.wait("the loss", func(_ *snapshot.Snapshot, err error) bool { return err != nil })
	lost := f.Connection()
	if want := "no connection to the API server at " + e.Cluster.URL(); !strings.HasPrefix(lost.Err.Error(), want) {
		t.Errorf("error %q, want %q", lost.Err, want)
	}
	if lost.Since.Before(before.Time) || lost.LastSeen.After(lost.Since) {
		t.Errorf("lost since %s, last seen %s, snapshot of %s", lost.Since, lost.LastSeen, before.Time)
	}
	e.CreatePVC(e.PVC("meanwhile"))
	if now := f.Snapshot(); len(names[*corev1.PersistentVolumeClaim](now)) != 0 {
		t.Error("the claim is in the snapshot without a connection")
	}
	n.restore()
	f.wait("the change", func(s *snapshot.Snapshot, err error) bool {
		return err == nil && names[*corev1.PersistentVolumeClaim](s)["meanwhile"]
	})
	if found := f.Connection(); !found.Since.After(lost.Since) || found.LastSeen.Before(lost.Since) {
		t.Errorf("connected since %s, last seen %s; lost since %s", found.Since, found.LastSeen, lost.Since)
	}
}

// TestAPIServerRestarted: the API server is away, and has forgotten the events since the last one that was observed.
func TestAPIServerRestarted(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, fixture.DefaultConfig())
	user := "user"
	e.Grant(user, claims, watching)
	f := follow(e, configFor(e, user), queryOf[*corev1.PersistentVolumeClaim](), claimsOf(e))
	before := f.wait("the connection", func(_ *snapshot.Snapshot, err error) bool { return err == nil })
	if err := e.Cluster.APIServer().Stop(e.Context()); err != nil {
		t.Fatal(err)
	}
	f.wait("the loss", func(s *snapshot.Snapshot, err error) bool { return err != nil && s == before })
	if err := e.Cluster.APIServer().Start(e.Context()); err != nil {
		t.Fatal(err)
	}
	e.CreatePVC(e.PVC("data"))
	f.wait("the connection and the change", func(s *snapshot.Snapshot, err error) bool {
		return err == nil && cmp.Equal(gaps(before), gaps(s)) && names[*corev1.PersistentVolumeClaim](s)["data"]
	})
}

// expiring sends a token until it expires, then another one.
type expiring struct {
	next    http.RoundTripper
	token   string
	expired *atomic.Bool
}

func (x expiring) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	token := x.token
	if x.expired.Load() {
		token = "expired"
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return x.next.RoundTrip(r)
}

// TestExpiredCredentials: that the API server rejects credentials is an error of the connection, with and without
// watches, and not a gap. Once it accepts them, it is gone.
func TestExpiredCredentials(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	const account = "default"
	e.Grant("system:serviceaccount:"+e.Namespace+":"+account, claims, watching)
	token := fixture.Get(e, func(ctx context.Context) (*authenticationv1.TokenRequest, error) {
		return e.Client.CoreV1().ServiceAccounts(e.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	}).Status.Token
	for name, query := range map[string]snapshot.Query{"a watch": claimsOf(e), "a gap": queryOf[*corev1.Node]()} {
		t.Run(name, func(t *testing.T) {
			e := e.Sibling(t)
			var n network
			var expired atomic.Bool
			config := rest.AnonymousClientConfig(e.Cluster.RESTConfig())
			config.Dial = n.dial
			config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return expiring{next, token, &expired} }
			f := follow(e, config, query)
			before := f.wait("the connection", func(_ *snapshot.Snapshot, err error) bool { return err == nil })

			expired.Store(true)
			n.close()
			n.restore()
			f.wait("the rejection", func(s *snapshot.Snapshot, err error) bool {
				return err != nil && strings.Contains(err.Error(), "rejects the credentials; they may have expired") && s == before
			})
			expired.Store(false)
			f.wait("the connection again", func(_ *snapshot.Snapshot, err error) bool { return err == nil })
		})
	}
}
