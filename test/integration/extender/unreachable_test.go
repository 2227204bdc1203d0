// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/integration/fixture"
)

// waitServed waits until the extender has the certificate that ends at a time. Between
// two looks it calls meanwhile, which may be nil.
func (d *deployment) waitServed(t testing.TB, until time.Time, meanwhile func()) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // it may have expired
	serves := func(r *replica) bool {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port), config)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].NotAfter.Unix() == until.Unix()
	}
	err := waitFor(t.Context(), func(context.Context) (bool, error) {
		if meanwhile != nil {
			meanwhile()
		}
		return !slices.ContainsFunc(d.replica, func(r *replica) bool { return !serves(r) }), nil
	})
	if err != nil {
		t.Fatalf("the certificate until %s is not served: %v", until, err)
	}
}

// waitRefused returns when no replica answers the client.
func (d *deployment) waitRefused(t testing.TB, client *http.Client) {
	t.Helper()
	body := question(t, "a")
	err := waitFor(t.Context(), func(ctx context.Context) (bool, error) {
		return !slices.ContainsFunc(d.replica, func(r *replica) bool {
			_, _, err := r.call(ctx, client, "filter", bytes.NewReader(body))
			return err == nil
		}), nil
	})
	if err != nil {
		t.Fatalf("the client is not refused: %v", err)
	}
}

// TestUnreachable: the pod's condition while the scheduler cannot call the
// extender, and that the pod needs no action once it can.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	d := own(e, plan{mode: "full", name: "extender-unreachable", also: []string{"extender-late"}, proxied: true})
	e.AddNodes(e.Node("a"))
	past, later := time.Now().Add(-time.Hour), time.Now().Add(30*time.Minute)
	write := func(t *testing.T, file, name string, until time.Time) {
		t.Helper()
		if err := d.certs.write(file, name, until); err != nil {
			t.Fatal(err)
		}
		if file == "tls" {
			d.waitServed(t, until, nil)
		}
		d.proxy.cut() // connections that are open stay as they are
	}
	for i, scenario := range []struct {
		name         string
		fails, mends func(t *testing.T)
		message      string
	}{
		{
			name: "the extender is down",
			fails: func(t *testing.T) {
				if err := d.replica[0].process.Kill(); err != nil {
					t.Fatal(err)
				}
			},
			mends: func(t *testing.T) {
				if err := d.start(e.Context(), d.replica[0]); err != nil {
					t.Fatal(err)
				}
			},
			message: "/filter",
		},
		{
			name:    "its certificate has expired",
			fails:   func(t *testing.T) { write(t, "tls", serverName, past) },
			mends:   func(t *testing.T) { write(t, "tls", serverName, later) },
			message: "certificate has expired",
		},
		{
			name: "the scheduler's certificate has expired",
			fails: func(t *testing.T) {
				// Another scheduler: this one rereads its file once a second at most.
				if err := d.scheduler.Kill(); err != nil {
					t.Fatal(err)
				}
				write(t, "client", clientName, past)
				own(e, plan{mode: "full", name: "extender-late", of: d})
			},
			mends:   func(t *testing.T) { write(t, "client", clientName, later) },
			message: "expired certificate",
		},
	} {
		name := fmt.Sprintf("pod-%d", i)
		e.CreatePVs(e.LocalPV(name, "a"))
		e.CreatePVC(e.PVC(name))
		scenario.fails(t)
		other := e.CreatePod(e.Pod("beside-" + name))
		e.WaitScheduled(other, "a")
		pod := e.CreatePod(e.Pod(name).PVC(name))
		t.Logf("%s: %s", scenario.name, waitCondition(e, name, scenario.message, nil))
		scenario.mends(t)
		e.WaitScheduled(pod, "a")
		e.WaitBound(name, name)
	}
}

// TestIgnorable: without the extender, ignorable: true makes the scheduler work as it does
// alone. With VolumeBinding, it binds volumes; without, pods get nodes that do
// not have their volumes.
func TestIgnorable(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"advisory", "full"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			own(e, plan{mode: mode, name: "extender-ignorable-" + mode, noExtender: true, scheduler: []string{"ignorable: false\n", "ignorable: true\n"}})
			e.AddNodes(e.Node("a"), e.Node("b"))
			e.CreatePVs(e.LocalPV("v", "b"))
			e.CreatePVC(e.PVC("data"))
			if mode == "advisory" {
				e.WaitScheduled(e.CreatePod(e.Pod("pod").PVC("data")), "b")
				e.WaitBound("data", "v")
				return
			}
			// On the node without the volume, where it never starts.
			e.WaitScheduled(e.CreatePod(e.Pod("pod").NodeSelector(v1.LabelHostname, e.Name("a")).PVC("data")), "a")
			if claim := e.SeenPVC("data"); claim.Spec.VolumeName != "" {
				t.Errorf("the claim has volume %s", claim.Spec.VolumeName)
			}
		})
	}
}
