// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live_test tries the snapshot that watches keep up to date on an API server: changes, users with few rights,
// kinds that are installed later, and an API server that is away.
package live_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/inspect/live"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }

// followed is a running live.Cluster.
type followed struct {
	*live.Cluster
	e *fixture.Env
}

// follow runs a live.Cluster until the test ends.
func follow(e *fixture.Env, config *rest.Config, queries ...snapshot.Query) *followed {
	e.T.Helper()
	cluster, err := live.New(live.Config{REST: config, Namespace: e.Namespace, Queries: queries})
	if err != nil {
		e.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.Context())
	ended := make(chan error)
	go func() { ended <- cluster.Run(ctx) }()
	e.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			e.T.Error(err)
		}
	})
	return &followed{cluster, e}
}

// wait waits until is returns true, which is called after changes with the snapshot, once there is one, and the error of
// the connection. It returns the snapshot.
func (f *followed) wait(what string, is func(s *snapshot.Snapshot, connection error) bool) *snapshot.Snapshot {
	f.e.T.Helper()
	timer := time.NewTimer(f.e.Timeout)
	defer timer.Stop()
	for {
		s, connection := f.Snapshot(), f.Connection()
		if s != nil && is(s, connection.Err) {
			return s
		}
		select {
		case <-f.Changed():
		case <-timer.C:
			text := "no snapshot"
			if s != nil {
				text = fmt.Sprintf("gaps %q, claims %v", s.Gaps, names[*corev1.PersistentVolumeClaim](s))
			}
			f.e.T.Fatalf("waited %s for %s; %s, connection %+v", f.e.Timeout, what, text, connection)
		}
	}
}

// names returns the names of the objects of a type.
func names[T snapshot.Object](s *snapshot.Snapshot) map[string]bool {
	all := map[string]bool{}
	for _, object := range snapshot.Of[T](s) {
		all[object.GetName()] = true
	}
	return all
}

// queryOf is the query of all objects of a type.
func queryOf[T snapshot.Object]() snapshot.Query { return snapshot.Query{Kind: snapshot.KindOf[T]()} }

// gaps returns the gaps of a snapshot without their reasons.
func gaps(s *snapshot.Snapshot) []string {
	all := []string{}
	for _, gap := range s.Gaps {
		all = append(all, gap.String())
	}
	return all
}

// grantAll lets a user list and watch all objects of a resource of the core group.
func grantAll(e *fixture.Env, user, resource string) {
	e.T.Helper()
	meta := metav1.ObjectMeta{Name: e.Name(resource)}
	rbac := e.Client.RbacV1()
	e.Do(func(ctx context.Context) error {
		_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{resource}, Verbs: watching},
		}}, metav1.CreateOptions{})
		return err
	})
	e.Do(func(ctx context.Context) error {
		_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		}, metav1.CreateOptions{})
		return err
	})
}

// withdraw deletes all bindings of roles of the test's namespace.
func withdraw(e *fixture.Env) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		return e.Client.RbacV1().RoleBindings(e.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
}

// claims is a resource, watching what is needed to follow one.
var claims, watching = []string{"persistentvolumeclaims"}, []string{"list", "watch"}

// configFor connects to the cluster as a user.
func configFor(e *fixture.Env, user string) *rest.Config {
	e.T.Helper()
	config, err := e.Cluster.RESTConfigFor(user)
	if err != nil {
		e.T.Fatal(err)
	}
	return config
}

// network is the connections to an API server, which can be cut.
type network struct {
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

// dial is a rest.Config's Dial.
func (n *network) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, protocol, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		_ = c.Close()
		return nil, &net.OpError{Op: "dial", Net: protocol, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	n.open = append(n.open, c)
	return c, nil
}

// close closes all connections. Others cannot be made until restore is called.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for _, c := range n.open {
		_ = c.Close()
	}
	n.open = nil
}

func (n *network) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = false
}
