// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights compares the rights that manifests grant a component with its requests to the
// API server. Tests under those rights fail when one is missing; this package finds unused ones,
// in the audit log of all tests of a package.
package rights

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// policy logs the metadata of one user's requests.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [%q]
- level: None
`

// Audit observes a user's requests on the clusters of a package's tests. Its methods may be
// called concurrently.
type Audit struct {
	// User is whose requests count.
	User string
	// Files are the manifests whose roles must be used.
	Files []string
	// Rare are rights, as the message about unused ones names them, that the package's tests
	// may do without.
	Rare []string

	mu     sync.Mutex
	folder string
	logs   []string
	broken error
}

// Config is that of a cluster whose audit log counts, for fixture.MainOn and NewOn.
func (a *Audit) Config() cluster.Config {
	config := fixture.DefaultConfig()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.folder == "" {
		a.folder, a.broken = os.MkdirTemp("", "stowage-audit-")
	}
	rules, log := filepath.Join(a.folder, "policy.yaml"), filepath.Join(a.folder, fmt.Sprintf("audit-%d.log", len(a.logs)))
	a.logs = append(a.logs, log)
	a.broken = errors.Join(a.broken, os.WriteFile(rules, fmt.Appendf(nil, policy, a.User), 0o600))
	config.APIServer.ExtraArgs = append(config.APIServer.ExtraArgs, "--audit-policy-file="+rules, "--audit-log-path="+log)
	return config
}

// Exit is the exit code of the tests' process: that of the tests, or 1 if they have passed
// and rights were not used. Tests selected by -run or -skip are exempt.
func (a *Audit) Exit(code int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { _ = os.RemoveAll(a.folder) }() // of the system's temporary files
	if code != 0 || len(a.logs) == 0 || chosen("test.run") || chosen("test.skip") {
		return code
	}
	unused, err := a.unused()
	if err = errors.Join(a.broken, err); err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		return 1
	}
	if len(unused) > 0 {
		fmt.Fprintf(os.Stderr, "rights that %s has and never uses:\n%s\n", a.User, strings.Join(unused, "\n"))
		return 1
	}
	return 0
}

func chosen(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}

// unused are the rights that no request needed.
func (a *Audit) unused() ([]string, error) {
	requests := sets.New[access]()
	for _, path := range a.logs {
		log, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		seen, err := read(bytes.NewReader(log), a.User)
		if err != nil {
			return nil, fmt.Errorf("read the audit log %s: %w", path, err)
		}
		requests = requests.Union(seen)
	}
	var unused []string
	for _, path := range a.Files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		rights, err := granted(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		unused = append(unused, without(rights, requests)...)
	}
	return slices.DeleteFunc(unused, func(right string) bool { return slices.Contains(a.Rare, right) }), nil
}

// read returns the requests of a user that an audit log has, but those that were forbidden. An
// incomplete last event, which was cut off, does not count.
func read(log io.Reader, user string) (sets.Set[access], error) {
	requests := sets.New[access]()
	for events := json.NewDecoder(log); ; {
		var event auditv1.Event
		err := events.Decode(&event)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		about := event.ObjectRef
		if event.User.Username != user || about == nil || event.ResponseStatus != nil && event.ResponseStatus.Code == 403 {
			continue
		}
		resource := strings.TrimSuffix(about.Resource+"/"+about.Subresource, "/")
		requests.Insert(access{event.Verb, about.APIGroup, resource, about.Namespace, about.Name})
	}
}

// access is what a rule grants, or a request uses: one verb on one resource. An empty namespace
// or name stands for all.
type access struct{ verb, group, resource, namespace, name string }

func (a access) String() string {
	text := fmt.Sprintf("%s %s (API group %q)", a.verb, a.resource, a.group)
	if a.name != "" {
		text += " " + a.name
	}
	if a.namespace != "" {
		text += " in namespace " + a.namespace
	}
	return text
}

// covers reports whether a request uses the right. A watch needs the right to list too: client-go
// lists where the API server does not stream the objects.
func (a access) covers(request access) bool {
	return (request.verb == a.verb || request.verb == "watch" && a.verb == "list") &&
		request.group == a.group && request.resource == a.resource &&
		cmp.Or(a.namespace, request.namespace) == request.namespace && cmp.Or(a.name, request.name) == request.name
}

// granted returns what the Roles and ClusterRoles of a manifest grant.
func granted(manifest []byte) ([]access, error) {
	objects, err := cluster.Objects(manifest)
	if err != nil {
		return nil, err
	}
	var all []access
	for _, object := range objects {
		var role rbacv1.Role // a ClusterRole has the same rules
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, err
		}
		for _, rules := range role.Rules {
			for _, rule := range rbacvalidation.BreakdownRule(rules) {
				if len(rule.Resources) == 0 {
					continue // of a URL
				}
				a := access{verb: rule.Verbs[0], group: rule.APIGroups[0], resource: rule.Resources[0], namespace: role.Namespace}
				if len(rule.ResourceNames) > 0 {
					a.name = rule.ResourceNames[0]
				}
				all = append(all, a)
			}
		}
	}
	return all, nil
}

// without returns the rights that no request used.
func without(rights []access, requests sets.Set[access]) []string {
	var unused []string
	for _, right := range rights {
		if !slices.ContainsFunc(requests.UnsortedList(), right.covers) {
			unused = append(unused, right.String())
		}
	}
	return unused
}
