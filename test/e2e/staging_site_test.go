// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/stagings/rules"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// Nodes of stagingSite.
const (
	stagingOne = "staging-one"
	stagingTwo = "staging-two"
	// withoutService is a label of nodes on which no node service runs.
	withoutService = "stowage.test/without-service"
)

// stagingSite is a cluster of two nodes with the controller and the node service of PavProvisioners.
// restartsSite is another one, for tests that kill leaders: each kill delays all tests of a site until
// another replica leads, which is sooner there.
var (
	stagingSite  = frame.NewSite(stagingOptions(""))
	restartsSite = frame.NewSite(stagingOptions("leaderElection: {leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 1s}\n"))
)

// stagingOptions installs the parts with more settings of the controller.
func stagingOptions(settings string) func() (frame.Options, error) {
	return install.Options(install.Config{
		Folders: []string{"crd", "crd/pav", "controller", "csi"},
		Files:   []string{"provisioner/namespace.yaml", "provisioner/rbac.yaml", "controller/pav-volumes.yaml", "controller/pav-policy.yaml"},
		Parts:   []string{"controller", "pav-reporter", "csi"},
		Nodes:   []realnode.NodeSpec{frame.Node(stagingOne), frame.Node(stagingTwo)},
		Configs: map[string]string{install.Controller: `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
pavVolumes: {enabled: true, reporterImage: "stowage.dev/stowage-pav-reporter:dev"}
` + settings},
		// The kernel's boot is that of this machine, with that of the node mounted over it.
		Patches: []string{`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: stowage-csi, namespace: stowage-system}
spec:
  template:
    spec:
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: ` + withoutService + `, operator: DoesNotExist}]}]}}}
      containers:
      - name: csi
        args: [--boot-id-file=/boot-id]
        volumeMounts: [{name: boot-id, mountPath: /boot-id, readOnly: true}]
      volumes: [{name: boot-id, hostPath: {path: /proc/sys/kernel/random/boot_id, type: File}}]
`},
	})
}

// stagingPods is a part of provisioners: pods that have the programs of the node, and a folder of it at /store.
// Nodes share it, as if it was on a network.
const stagingPods = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic]
  backoff: {initial: 100ms, max: 1s}
  volumeValidation:
    volumeModes: [Filesystem, Block]
    accessModes: [ReadWriteOnce, ReadWriteMany, ReadWriteOncePod]
  volumeCreation:
    capacity: "{{ requestedMinCapacity }}"
  volumeStaging:
    podTemplate:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 1
        containers:
        - name: main
          image: IMAGE
          imagePullPolicy: Never
          command: [sh, -ec, "{{ script }}"]
          env: &env
          - {name: HANDLE, value: "{{ handle }}"}
          securityContext: &security {privileged: true}
          volumeMounts: &mounts
          - {name: store, mountPath: /store}
          - {name: usr, mountPath: /usr, readOnly: true}
          - {name: lib, mountPath: /lib, readOnly: true}
          - {name: lib64, mountPath: /lib64, readOnly: true}
          - {name: dev, mountPath: /dev}
        volumes: &volumes
        - {name: store, hostPath: {path: /var/lib/stowage/store, type: DirectoryOrCreate}}
        - {name: usr, hostPath: {path: /usr}}
        - {name: lib, hostPath: {path: /usr/lib}}
        - {name: lib64, hostPath: {path: /usr/lib64}}
        - {name: dev, hostPath: {path: /dev}}
  volumeUnstaging:
    podTemplate:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: IMAGE
          imagePullPolicy: Never
          command: [sh, -ec, "{{ script }}"]
          env: *env
          securityContext: *security
          volumeMounts: *mounts
        volumes: *volumes
`

// staging is a test with a PavProvisioner and a class, which have the name of its namespace.
type staging struct {
	*frame.Env
	clients *pavclient.Clients
	// killed is the name of the leader that the test killed last.
	killed string
}

// newStaging makes a provisioner whose staging and unstaging pods run shell scripts. edit are texts of the
// provisioner, each followed by another that replaces it.
func newStaging(t *testing.T, stage, unstage string, edit ...string) *staging {
	t.Helper()
	s := newStagingWith(stagingSite.New(t))
	s.provideScripts(stage, unstage, edit...)
	return s
}

// provideScripts makes the provisioner of newStaging.
func (s *staging) provideScripts(stage, unstage string, edit ...string) {
	s.T.Helper()
	p := &stowage.PavProvisioner{}
	text := strings.ReplaceAll(stagingPods, "IMAGE", realnode.BusyboxImage)
	for _, script := range []string{stage, unstage} {
		text = strings.Replace(text, `"{{ script }}"`, quoted(script), 1)
	}
	s.Do(yaml.UnmarshalStrict([]byte(strings.NewReplacer(edit...).Replace(text)), p))
	p.Name = s.Namespace
	s.provide(p, nil)
}

// newStagingWith returns a test without a PavProvisioner.
func newStagingWith(e *frame.Env) *staging {
	e.T.Helper()
	clients, err := pavclient.New(e.Cluster.RESTConfig())
	e.Do(err)
	s := &staging{Env: e, clients: clients}
	e.T.Cleanup(s.log)
	return s
}

// provide creates a provisioner and a class of its name.
func (s *staging) provide(p *stowage.PavProvisioner, parameters map[string]string) {
	s.T.Helper()
	_, err := s.clients.Provisioners.Create(s.Context, p, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	s.Do(err)
	frame.Wait(s.Env, s.clients.Provisioners, p.Name, "accepted", func(p *stowage.PavProvisioner) bool {
		return meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
	})
	class := builders.MakeClass(p.Name).Provisioner(p.Name).Immediate().Obj()
	class.Parameters = parameters
	s.Create(class)
	for _, node := range []string{stagingOne, stagingTwo} {
		s.registered(node, p.Name)
	}
}

// registered waits until kubelet of a node has a driver.
func (s *staging) registered(node, driver string) {
	s.T.Helper()
	frame.Wait(s.Env, s.Client.StorageV1().CSINodes(), node, "registered", func(n *storagev1.CSINode) bool {
		return slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	})
}

// node adds a node for a test alone, with the driver.
func (s *staging) node() *realnode.Node {
	s.T.Helper()
	node := s.AddNodes(frame.Node("n"))[0]
	s.registered(node.Name, s.Namespace)
	return node
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// log logs what frame.Env.Dump omits, for a failed test.
func (s *staging) log() {
	if !s.T.Failed() {
		return
	}
	ctx, cancel := deadline.Context(context.Background())
	defer cancel()
	for _, args := range []string{
		"get pavstagings --output=yaml", "get pods --namespace=stowage-pav --output=wide",
		"logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-csi --prefix --tail=100",
		"logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-controller --prefix --tail=100",
	} {
		out, err := s.Cluster.Kubectl(ctx, strings.Fields(args)...)
		s.T.Logf("kubectl %s: %v\n%s", args, err, out)
	}
}

// on runs a script on a node and returns its output.
func (s *staging) on(node, script string, args ...string) string {
	s.T.Helper()
	out, err := s.Cluster.Node(node).Run(s.Context, nil, append([]string{"sh", "-c", script, "sh"}, args...)...)
	s.Do(err)
	return out
}

// claim creates a claim and returns the name of its volume.
func (s *staging) claim(name string, change func(*corev1.PersistentVolumeClaim)) string {
	s.T.Helper()
	claim := s.Claim(name, s.Namespace)
	if change != nil {
		change(claim)
	}
	s.Create(claim)
	return s.WaitPVC(name, "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound }).Spec.VolumeName
}

// pod creates a pod that runs a script on a node with claims.
func (s *staging) pod(name, node, script string, change func(*corev1.Pod), claims ...string) {
	s.T.Helper()
	pod := s.Shell(name, script, claims...)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	if change != nil {
		change(pod)
	}
	s.Create(pod)
}

// logs returns what a pod that has succeeded has written.
func (s *staging) logs(name string) string {
	s.T.Helper()
	pod := s.WaitPod(name, "at an end", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	out := s.Kubectl("logs", name)
	if !frame.Succeeded(pod) {
		s.T.Fatalf("pod %s has failed: %s", name, out)
	}
	return out
}

// remove deletes pods, and waits until they are gone.
func (s *staging) remove(pods ...string) {
	s.T.Helper()
	s.Kubectl(append([]string{"delete", "pod", "--wait"}, pods...)...)
}

// waitsFor waits until node one or two waits for the volume, which another node has.
func (s *staging) waitsFor(volume, other string) {
	s.T.Helper()
	waiting := stagingOne
	if other == stagingOne {
		waiting = stagingTwo
	}
	frame.Wait(s.Env, s.clients.Stagings, stowage.PavStagingName(s.Namespace, volume, waiting), "waiting", func(p *stowage.PavStaging) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionStaged)
		return c != nil && c.Reason == string(rules.StagedElsewhere) && strings.Contains(c.Message, other)
	})
}

// service returns the node service of a node.
func (s *staging) service(node string) *corev1.Pod {
	s.T.Helper()
	pods, err := s.Client.CoreV1().Pods(install.Namespace).List(s.Context, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=stowage-csi", FieldSelector: "spec.nodeName=" + node,
	})
	s.Do(err)
	if len(pods.Items) != 1 {
		s.T.Fatalf("node %s has %d node services, want one", node, len(pods.Items))
	}
	return &pods.Items[0]
}

// unstaged waits until no node has the volume, and checks that nothing is left of it.
func (s *staging) unstaged(volume string) {
	s.T.Helper()
	for _, node := range []string{stagingOne, stagingTwo} {
		s.WaitGone("pavstaging/" + stowage.PavStagingName(s.Namespace, volume, node))
		s.empty(node, volume)
	}
}

// empty checks that soon nothing of the volume is left on a node.
func (s *staging) empty(node, volume string) {
	s.T.Helper()
	key := stowage.PavVolumeKey(s.Namespace, volume)
	left := s.on(node, `for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /var/lib/stowage/pav/"$1" ] || exit 0; sleep 0.5; done; find /var/lib/stowage/pav/"$1"; grep "$1" /proc/self/mountinfo || true`, key)
	if left != "" {
		s.T.Errorf("node %s: volume %s is unstaged, but left:\n%s", node, volume, left)
	}
}

func readWriteMany(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}
