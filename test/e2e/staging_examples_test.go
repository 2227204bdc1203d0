// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// programs are the paths of a container at which it has programs and devices of its node, by their paths on
// the node.
var programs = map[string]string{"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64", "/dev": "/dev"}

// example creates the provisioner of a file. Its pods run on node one with the programs of the node.
// replace are texts of the file, each followed by another that replaces it.
func (s *staging) example(file, name string, parameters map[string]string, replace ...string) {
	s.T.Helper()
	s.exampleOn(stagingOne, file, name, parameters, replace...)
}

// exampleOn is example whose pods run on another node; an empty one selects none.
func (s *staging) exampleOn(node, file, name string, parameters map[string]string, replace ...string) {
	s.T.Helper()
	text, err := os.ReadFile(file)
	s.Do(err)
	var object map[string]any
	s.Do(yaml.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(string(text))), &object))
	for _, step := range object["spec"].(map[string]any) {
		step, _ := step.(map[string]any)
		template, _ := step["podTemplate"].(map[string]any)
		if template != nil {
			withPrograms(template["spec"].(map[string]any), node)
		}
	}
	text, err = yaml.Marshal(object)
	s.Do(err)
	p := &stowage.PavProvisioner{}
	s.Do(yaml.UnmarshalStrict(text, p))
	p.Name = name
	s.provide(p, parameters)
}

// withPrograms has the containers of a pod run the programs of the node, on the given node if it is not
// empty.
func withPrograms(spec map[string]any, node string) {
	// Anchors are shared by several pods.
	mounts, volumes := []any{}, []any{}
	for path, source := range programs {
		name := "node" + strings.ReplaceAll(path, "/", "-")
		mounts = append(mounts, map[string]any{"name": name, "mountPath": path})
		volumes = append(volumes, map[string]any{"name": name, "hostPath": map[string]any{"path": source}})
	}
	before, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, before...)
	if node != "" {
		spec["nodeSelector"] = map[string]any{corev1.LabelHostname: node}
	}
	for _, c := range spec["containers"].([]any) {
		c := c.(map[string]any)
		c["image"], c["imagePullPolicy"] = realnode.BusyboxImage, corev1.PullNever
		before, _ := c["volumeMounts"].([]any)
		c["volumeMounts"] = append(append([]any{}, mounts...), before...)
	}
}

// testStagingHello: docs/pav-tutorial.md, with its files and mistakes.
func testStagingHello(t *testing.T) {
	s := newStagingWith(stagingSite.New(t))
	provisioner, pod := s.tutorial("hello-world.yaml"), s.tutorial("hello-world/pod.yaml")
	s.Kubectl("apply", "--filename="+provisioner, "--filename="+pod)
	greeting := func() string {
		t.Helper()
		if pod := s.WaitPod("hello", "running", running); pod.Spec.NodeName != stagingOne {
			t.Fatalf("pod hello is on node %s, want %s", pod.Spec.NodeName, stagingOne)
		}
		return s.Exec("hello", "cat", "/data/greeting")
	}
	if diff := cmp.Diff("Hello greeting\n", greeting()); diff != "" {
		t.Errorf("the volume (-want +got):\n%s", diff)
	}
	volume := s.WaitPVC("greeting", "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound }).Spec.VolumeName
	s.Kubectl("get", "pavvol", volume)

	s.Kubectl("patch", "pav", s.Namespace, "--type=merge", `--patch={"spec":{"volumeCreation":{"capacity":"{{ requestedMinCapacity"}}}`)
	s.accepted(metav1.ConditionFalse, "spec.volumeCreation.capacity: line 1, column ")
	s.Kubectl("apply", "--filename="+provisioner)
	s.accepted(metav1.ConditionTrue, "")

	s.Kubectl("patch", "pav", s.Namespace, "--type=json",
		`--patch=[{"op":"replace","path":"/spec/volumeStaging/podTemplate/spec/containers/0/command/2","value":"echo out of greetings >/pav/error; exit 1"}]`)
	s.accepted(metav1.ConditionTrue, "")
	s.remove("hello")
	s.unstaged(volume)
	s.Kubectl("apply", "--filename="+pod)
	s.WaitEvent(s.Namespace, "greeting", string(rules.StagingFailed), "out of greetings")
	s.Kubectl("apply", "--filename="+provisioner)
	greeting()

	s.Kubectl("delete", "--filename="+pod)
	s.unstaged(volume)
	s.WaitGone("pv/" + volume)
	s.Kubectl("delete", "--filename="+provisioner)
}

// tutorial returns a copy of a file of the examples for a test of its own, with an image that the nodes have. Its
// pod runs on node one: other tests add nodes to the site, break and remove them, and the scheduler prefers empty
// nodes.
func (s *staging) tutorial(file string) string {
	s.T.Helper()
	text, err := os.ReadFile("../../manifests/pav/examples/" + file)
	s.Do(err)
	written := filepath.Join(s.T.TempDir(), "file.yaml")
	s.Do(os.WriteFile(written, []byte(strings.NewReplacer("hello-world", s.Namespace, "busybox:1.37", realnode.BusyboxImage,
		"spec:\n  terminationGracePeriodSeconds: 1\n", "spec:\n  nodeSelector: {"+corev1.LabelHostname+": "+stagingOne+"}\n  terminationGracePeriodSeconds: 1\n").Replace(string(text))), 0o600))
	return written
}

// accepted waits until the condition Accepted of the last generation of the provisioner has a status and
// a message that begins with a text.
func (s *staging) accepted(status metav1.ConditionStatus, message string) {
	s.T.Helper()
	frame.Wait(s.Env, s.clients.Provisioners, s.Namespace, "judged", func(p *stowage.PavProvisioner) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionAccepted)
		return c != nil && c.ObservedGeneration == p.Generation && c.Status == status && strings.HasPrefix(c.Message, message)
	})
}

// testStagingObjectStore: the example of an object store with FUSE, on a WebDAV server instead of S3. What
// a pod has written is in the store when the pod has ended.
func testStagingObjectStore(t *testing.T) {
	s := newStagingWith(stagingSite.New(t))
	server := s.Shell("server", "mkdir /srv && exec rclone serve webdav --addr :8080 --config /dev/null /srv")
	server.Spec.NodeSelector = map[string]string{corev1.LabelHostname: stagingTwo}
	container := &server.Spec.Containers[0]
	for path, source := range programs {
		name := "node" + strings.ReplaceAll(path, "/", "-")
		server.Spec.Volumes = append(server.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: source}}})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
	s.Create(server)
	s.Kubectl("create", "secret", "generic", "keys", "--from-literal=access-key=a", "--from-literal=secret-key=s")
	address := s.WaitPod("server", "running", running).Status.PodIP
	s.example("../../manifests/pav/examples/object-store.yaml", s.Namespace, map[string]string{"endpoint": "http://" + address + ":8080", "secretName": "keys"},
		"object-store", s.Namespace, "value: s3", "value: webdav", "RCLONE_CONFIG_STORE_ENDPOINT", "RCLONE_CONFIG_STORE_URL")
	volume := s.claim("c", nil)
	s.pod("writes", stagingOne, "echo hello >/data/c/file; mkdir /data/c/d; echo more >/data/c/d/file", nil, "c")
	s.logs("writes")
	s.remove("writes")
	s.unstaged(volume)
	if diff := cmp.Diff("hello\nmore\n", s.Exec("server", "sh", "-c", "cd /srv/*; cat file d/file")); diff != "" {
		t.Errorf("files in the store (-want +got):\n%s", diff)
	}
	s.pod("reads", stagingOne, "cat /data/c/file /data/c/d/file", nil, "c")
	if diff := cmp.Diff("hello\nmore\n", s.logs("reads")); diff != "" {
		t.Errorf("the next pod read (-want +got):\n%s", diff)
	}
	s.remove("reads")
	s.unstaged(volume)
	s.Kubectl("delete", "pvc/c")
	s.WaitGone("pv/" + volume)
	if got := s.Exec("server", "ls", "/srv"); got != "" {
		t.Errorf("the volume is deleted, but the store has %q", got)
	}
}

// testStagingEncryption: a volume that is a file on another one, encrypted. Both are staged for the pod, and
// unstaged after it, also if the server of the encryption was killed.
func testStagingEncryption(t *testing.T) {
	s := newStaging(t, boundStore, "true")
	s.example("testdata/luks.yaml", s.Name("luks"), nil)
	underlying := s.claim("underlying", nil)
	s.Kubectl("create", "secret", "generic", "key", "--from-literal=passphrase=correct horse")
	encrypted := blockClaim(s.Env, "c", s.Name("luks"))
	encrypted.Annotations = map[string]string{"underlying": "underlying", "secret": "key"}
	encrypted.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("16Mi")
	s.Create(encrypted)
	volume := s.WaitPVC("c", "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound }).Spec.VolumeName
	unstaged := func() {
		t.Helper()
		s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Name("luks"), volume, stagingOne))
		s.unstaged(underlying)
	}
	device := func(p *corev1.Pod) { withDevice(p, "c") }
	s.pod("writes", stagingOne, "echo plaintext | dd of=/dev/c conv=fsync", device)
	s.logs("writes")
	s.remove("writes")
	unstaged()
	file := s.on(stagingOne, `cd /var/lib/stowage/store/"$1"; head -c 4 "$2"; grep -c plaintext "$2" || true`, underlying, volume)
	if diff := cmp.Diff("LUKS0\n", file); diff != "" {
		t.Errorf("begin of the file, and how often it has the text (-want +got):\n%s", diff)
	}
	s.pod("reads", stagingOne, "head -n 1 /dev/c; sleep 100000", device)
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Name("luks"), volume, stagingOne), "staged", func(p *stowage.PavStaging) bool {
		return p.Status.Phase == stowage.PavStagingStaged
	})
	s.WaitPod("reads", "running", running)
	if diff := cmp.Diff("plaintext\n", s.Kubectl("logs", "reads")); diff != "" {
		t.Errorf("the next pod read (-want +got):\n%s", diff)
	}
	s.on(stagingOne, `pkill -KILL -f "[q]emu-storage-daemon.*$1"`, volume)
	s.remove("reads")
	unstaged()
	s.Kubectl("delete", "pvc/c")
	s.WaitGone("pv/" + volume)
	if got := s.on(stagingOne, `ls /var/lib/stowage/store/"$1"`, underlying); got != "" {
		t.Errorf("the encrypted volume is deleted, but the underlying one has %q", got)
	}
}
