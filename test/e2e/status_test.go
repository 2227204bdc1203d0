// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// statusSite is the default installation on two nodes.
var statusSite = frame.NewSite(install.Options(install.Config{
	Nodes: []realnode.NodeSpec{frame.Node("one"), frame.Node("two")},
}))

// plugin runs kubectl stowage.
type plugin struct {
	*frame.Env
	binary string
}

// run returns the output of a command, and its exit code.
func (p *plugin) run(kubeconfig string, args ...string) (out string, code int) {
	p.T.Helper()
	cmd := exec.CommandContext(p.Context, p.binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "COLUMNS=160")
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.T.Fatal(err)
	}
	if exit != nil {
		p.T.Logf("kubectl stowage %s: %s", strings.Join(args, " "), exit.Stderr)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// status returns the status that the cluster has, or an archive.
func (p *plugin) status(args ...string) (*inspect.Status, int) {
	p.T.Helper()
	out, code := p.run(p.Cluster.Kubeconfig(), append([]string{"status", "--output=json"}, args...)...)
	status := &inspect.Status{}
	if err := json.Unmarshal([]byte(out), status); err != nil {
		p.T.Fatalf("%v: %s", err, out)
	}
	return status, code
}

// healthy waits until the status is healthy.
func (p *plugin) healthy() {
	p.T.Helper()
	if status, code := p.status("--wait=3m"); code != 0 || !status.Healthy {
		p.T.Fatalf("exit code %d, and not healthy: %q", code, problems(status))
	}
}

// problems are the part, the check and the message of each problem.
func problems(status *inspect.Status) []string {
	var all []string
	for _, c := range status.Checks {
		if c.State == inspect.CheckProblem {
			all = append(all, c.Part+" "+c.Name+": "+c.Message)
		}
	}
	return all
}

// TestStatus breaks an installation in each of the ways that status is for, and repairs it. Then it looks into an
// archive of sysdump.
func TestStatus(t *testing.T) {
	statusSite.Parallel(t)
	binary, err := cluster.BuildCommand(t.Context(), cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/kubectl-stowage")
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{statusSite.New(t), binary}
	p.healthy()
	for _, fault := range []struct {
		name        string
		harm        func()
		part, check string
		text        string
		repair      func()
	}{
		{
			"a component that is missing", func() { p.take("deployment", "stowage-controller") },
			"controller", "workload", "is not installed", func() { p.restore("deployment", "stowage-controller") },
		},
		{
			"a policy that was removed", func() { p.take("validatingadmissionpolicy", "stowage-provisioner-volumes") },
			"provisioner", "policies", "stowage-provisioner-volumes does not exist", func() { p.restore("validatingadmissionpolicy", "stowage-provisioner-volumes") },
		},
		{
			"a right that was removed", func() { p.take("clusterrolebinding", "stowage-scheduler-direct-binding") },
			"scheduler", "rights", "lacks 2 rights: update persistentvolumeclaims/status and update persistentvolumes/status",
			func() { p.restore("clusterrolebinding", "stowage-scheduler-direct-binding") },
		},
		{
			// The provisioner stands still, and five minutes pass.
			"a provisioner that is dead", func() {
				p.signal("SIGSTOP")
				p.Kubectl("--namespace=stowage-node-lease", "patch", "lease", "two", "--type=merge", `--patch={"spec":{"renewTime":"`+metav1.Now().Add(-300e9).UTC().Format(metav1.RFC3339Micro)+`"}}`)
			},
			"provisioner", "nodes", "no heartbeat from two", func() { p.signal("SIGCONT") },
		},
		{
			"a scheduler of a minor that is too new", func() { p.image("stowage.dev/stowage-scheduler:dev-kube1.99") },
			"scheduler", "version", "is built from Kubernetes 1.99, which is newer than the API server", func() { p.Kubectl("--namespace=kube-system", "rollout", "undo", "deployment/stowage-scheduler") },
		},
	} {
		fault.harm()
		status, code := p.status()
		found := slices.ContainsFunc(status.Checks, func(c inspect.Check) bool {
			return c.State == inspect.CheckProblem && c.Part == fault.part && c.Name == fault.check && strings.Contains(c.Message, fault.text) && c.Next != "" && c.Link != ""
		})
		if !found || code != 1 || status.Healthy {
			t.Errorf("%s: exit code %d, problems %q; want one of %s %s with %q, and what to do", fault.name, code, problems(status), fault.part, fault.check, fault.text)
		}
		fault.repair()
		p.healthy()
	}
	p.withoutRights()
	p.sysdump()
}

// file is where an object is kept while it is deleted.
func (p *plugin) file(kind, name string) string {
	return filepath.Join(p.Cluster.Folder(), kind+"-"+name+".json")
}

// take deletes an object and keeps it.
func (p *plugin) take(kind, name string) {
	p.T.Helper()
	text := p.Kubectl("--namespace=stowage-system", "get", kind, name, "--output=json")
	var object map[string]any
	p.Do(json.Unmarshal([]byte(text), &object))
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(object["metadata"].(map[string]any), field)
	}
	delete(object, "status")
	encoded, err := json.Marshal(object)
	p.Do(err)
	p.Do(os.WriteFile(p.file(kind, name), encoded, 0o600))
	p.Kubectl("--namespace=stowage-system", "delete", kind, name)
}

// restore creates it again.
func (p *plugin) restore(kind, name string) {
	p.T.Helper()
	p.Kubectl("--namespace=stowage-system", "create", "--filename="+p.file(kind, name))
}

// image changes the image of the scheduler.
func (p *plugin) image(image string) {
	p.T.Helper()
	p.Kubectl("--namespace=kube-system", "set", "image", "deployment/stowage-scheduler", "scheduler="+image)
}

// signal sends a signal to the provisioner of node two.
func (p *plugin) signal(signal string) {
	p.T.Helper()
	id := p.Kubectl("--namespace=stowage-system", "get", "pods", "--selector=app.kubernetes.io/name=stowage-provisioner", "--field-selector=spec.nodeName=two",
		"--output=jsonpath={.items[0].status.containerStatuses[0].containerID}")
	_, err := p.Cluster.Node("two").Run(p.Context, nil, "sh", "-c", ctr+`kill --signal "$1" "$2"`, "sh", signal, strings.TrimPrefix(id, "containerd://"))
	p.Do(err)
}

// withoutRights asks as a user who may read nothing.
func (p *plugin) withoutRights() {
	p.T.Helper()
	kubeconfig, err := p.Cluster.KubeconfigFor("stranger")
	p.Do(err)
	out, code := p.run(kubeconfig, "status")
	if first, _, _ := strings.Cut(out, "\n"); code != 1 || !strings.HasPrefix(first, "No part of Stowage can be seen") {
		p.T.Errorf("without rights: exit code %d, %s", code, out)
	}
}

// secrets are what must not be in a dump.
var secrets = []string{"value-of-secret", "value-of-environment", "value-of-argument", "value-of-configmap", "value-of-annotation", "last-applied-configuration"}

// sysdump checks what is in an archive, and that the status is the same with it.
func (p *plugin) sysdump() {
	t := p.T
	t.Helper()
	pod := p.Shell("tenant", "echo value-of-argument; sleep 1000")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "value-of-environment"}}
	pod.Annotations = map[string]string{"example.com/token": "value-of-annotation", corev1.LastAppliedConfigAnnotation: `{"password": "value-of-annotation"}`}
	p.Create(pod)
	p.Kubectl("create", "secret", "generic", "tenant", "--from-literal=password=value-of-secret")
	p.Kubectl("create", "configmap", "tenant", "--from-literal=password=value-of-configmap")
	file := filepath.Join(t.TempDir(), "dump.tar.gz")
	out, code := p.run(p.Cluster.Kubeconfig(), "sysdump", "--output-file="+file)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	t.Log(out)
	info, err := os.Stat(file)
	p.Do(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the archive has mode %o", info.Mode().Perm())
	}
	files := readDump(t, file)
	var all bytes.Buffer
	for name, content := range files {
		all.WriteString(name + "\n" + content)
	}
	for _, secret := range secrets {
		if strings.Contains(all.String(), secret) {
			t.Errorf("the archive has %q", secret)
		}
	}
	for _, want := range []string{"tenant", "PASSWORD"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the archive does not have %q", want)
		}
	}
	for _, part := range parts {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(name string) bool {
			return strings.HasPrefix(name, "dump/logs/") && strings.Contains(name, "/"+part+"-") && files[name] != ""
		}) {
			t.Errorf("the archive has no log of %s, but these files: %q; errors: %s", part, slices.Sorted(maps.Keys(files)), files["dump/errors.txt"])
		}
	}
	for _, part := range []string{"stowage-provisioner", "stowage-controller"} { // a scheduler requires a token
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(name string) bool {
			return strings.HasPrefix(name, "dump/metrics/stowage-system/"+part+"-") && strings.Contains(files[name], "kubernetes_build_info")
		}) {
			t.Errorf("the archive has no metrics of %s; errors: %s", part, files["dump/errors.txt"])
		}
	}
	live, _ := p.status()
	dumped, code := p.status("--from=" + file)
	if diff := cmp.Diff(live, dumped); diff != "" || code != 0 {
		t.Errorf("exit code %d; the status of the archive differs (-live +archive):\n%s", code, diff)
	}
}

// readDump returns the files of an archive.
func readDump(t testing.TB, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
