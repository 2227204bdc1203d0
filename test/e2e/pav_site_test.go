// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/cluster/realnode/layout"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

const (
	pavNode      = "pav"
	pavNamespace = "stowage-pav" // of helper pods
	ctrImages    = "ctr --address " + layout.Containerd + " --namespace k8s.io images "
)

// pavSite is a cluster of one node whose controller makes volumes of PavProvisioners.
var pavSite = frame.NewSite(install.Options(install.Config{
	Folders: []string{"crd", "crd/pav", "controller"},
	Files:   []string{"provisioner/namespace.yaml", "provisioner/rbac.yaml", "controller/pav-volumes.yaml", "controller/pav-policy.yaml"},
	Parts:   []string{"controller", "pav-reporter"},
	Nodes:   []realnode.NodeSpec{frame.Node(pavNode)},
	// The successor of a controller that was killed does not wait for long.
	Configs: map[string]string{install.Controller: `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
pavVolumes: {enabled: true, reporterImage: "stowage.dev/stowage-pav-reporter:dev"}
leaderElection: {leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 1s}
`},
}))

// pavProvisioner makes volumes that are directories. Each claim has a folder on the node, with the directory,
// a log of what the helper pods did, and FIFOs. A pod that finds the FIFO of a point writes to it, and continues
// when it has read a line of FIFO go. A pod that is terminated exits with 0.
const pavProvisioner = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: x}
spec:
  provisioningModes: [Dynamic]
  backoff: {initial: 100ms, max: 1s}
  volumeCreation:
    capacity: "{{ requestedMinCapacity }}"
    podTemplate:
      metadata: &metadata
        labels: {claim: "{{ pvc.metadata.name }}"}
      spec:
        nodeSelector: &selector "{% set yaml = true %}{{ pvc.metadata.annotations.selector | default('{}') }}"
        initContainers: &init
        - name: init
          image: &image "{{ pvc.metadata.annotations.image }}"
          imagePullPolicy: Never
          command: [sh, -ec, 'eval "$AT"; at init']
          env: &env
          - {name: VOLUME, value: "{{ defaultHandle }}"}
          - name: AT
            value: |
              cd /folder
              trap 'exit 0' TERM
              at() { if [ -p $1 ]; then echo >$1; read -r _ <go & wait $!; fi; }
          volumeMounts: &mounts [{name: folder, mountPath: /folder}]
        containers:
        - name: main
          image: *image
          imagePullPolicy: Never
          command:
          - sh
          - -ec
          - |
            eval "$AT"
            at begin
            mkdir "$VOLUME" || { echo twice >>log; exit 1; }
            echo made >>log
            echo "handle-$VOLUME" >/pav/handle
            at end
          env: *env
          volumeMounts: *mounts
        volumes: &volumes
        - {name: folder, hostPath: {path: "{{ pvc.metadata.annotations.folder }}", type: Directory}}
  volumeDeletion:
    podTemplate:
      metadata: *metadata
      spec:
        nodeSelector: *selector
        initContainers: *init
        containers:
        - name: main
          image: *image
          imagePullPolicy: Never
          command:
          - sh
          - -ec
          - |
            eval "$AT"
            at begin
            if [ -d "$VOLUME" ]; then rmdir "$VOLUME"; echo deleted >>log; else echo nothing >>log; fi
            at end
          env: *env
          volumeMounts: *mounts
        volumes: *volumes
  volumeStaging:
    podTemplate: {spec: {containers: [{name: main, image: x}]}}
`

// pav is a test with a PavProvisioner and a class, which have the name of its namespace.
type pav struct {
	*frame.Env
	clients *pavclient.Clients
}

func newPav(t *testing.T) *pav {
	t.Helper()
	e := pavSite.New(t)
	clients, err := pavclient.New(e.Cluster.RESTConfig())
	e.Do(err)
	s := &pav{Env: e, clients: clients}
	t.Cleanup(s.log)
	p := &stowage.PavProvisioner{}
	e.Do(yaml.UnmarshalStrict([]byte(pavProvisioner), p))
	p.Name = e.Namespace
	_, err = clients.Provisioners.Create(e.Context, p, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	e.Do(err)
	frame.Wait(e, clients.Provisioners, p.Name, "accepted", func(p *stowage.PavProvisioner) bool {
		return meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
	})
	e.Create(builders.MakeClass(e.Namespace).Provisioner(p.Name).Immediate().Obj())
	return s
}

// log logs what frame.Env.Dump omits, for a failed test.
func (s *pav) log() {
	if !s.T.Failed() {
		return
	}
	ctx, cancel := deadline.Context(context.Background())
	defer cancel()
	for _, args := range []string{"get pavvolumes --output=yaml", "logs --namespace=stowage-system --selector=app.kubernetes.io/name=stowage-controller --prefix --tail=200"} {
		out, err := s.Cluster.Kubectl(ctx, strings.Fields(args)...)
		s.T.Logf("kubectl %s: %v\n%s", args, err, out)
	}
}

// run runs a script on the node and returns its output.
func (s *pav) run(script string, args ...string) string {
	s.T.Helper()
	out, err := s.Cluster.Node(pavNode).Run(s.Context, nil, append([]string{"sh", "-c", script, "sh"}, args...)...)
	s.Do(err)
	return out
}

// pavClaim is a claim whose creation pod, and then deletion pod, is disrupted.
type pavClaim struct {
	title       string
	annotations map[string]string
	point       string     // init, begin or end: where a helper pod waits for its disruption
	prepare     func(*pav) // before each of the two pods is created
	disrupt     func(*pav, *pavClaim, *corev1.Pod)
	message     string // of the event about the failure; empty if the pod succeeds
	// created and deleted are what helper pods have logged until the volume is created, and from then on.
	created, deleted string

	name    string // of the claim
	volume  string // PersistentVolume and PavVolume, once known
	subject string // of events
	in      string // the namespace of these events
}

func (s *pav) folder(c *pavClaim) string { return "/var/lib/stowage/" + s.Namespace + "/" + c.name }

// prepare lets the next helper pod of each claim wait at its point.
func (s *pav) prepare(claims []*pavClaim) {
	s.T.Helper()
	for _, c := range claims {
		s.run(`mkdir -p "$1" && cd "$1" && >log && { [ -p go ] || mkfifo go; } && { [ -z "$2" ] || mkfifo "$2"; }`, s.folder(c), c.point)
		if c.prepare != nil {
			c.prepare(s)
		}
	}
}

// create creates the claims.
func (s *pav) create(claims []*pavClaim) {
	s.T.Helper()
	for i, c := range claims {
		c.name = fmt.Sprintf("c%d", i)
		c.subject, c.in = c.name, s.Namespace
	}
	s.prepare(claims)
	for _, c := range claims {
		claim := s.Claim(c.name, s.Namespace)
		claim.Annotations = map[string]string{"folder": s.folder(c), "image": realnode.BusyboxImage}
		maps.Copy(claim.Annotations, c.annotations)
		s.Create(claim)
	}
}

// remove deletes the claims.
func (s *pav) remove(claims []*pavClaim) {
	s.T.Helper()
	s.prepare(claims)
	for _, c := range claims {
		s.Do(s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Delete(s.Context, c.name, metav1.DeleteOptions{}))
		c.subject, c.in = c.volume, metav1.NamespaceDefault
	}
}

// reached returns the helper pod of a claim once it waits at the claim's point. No later pod does.
func (s *pav) reached(c *pavClaim, step helperpod.Step) *corev1.Pod {
	s.T.Helper()
	pod := s.waitHelper("", "created", func(p *corev1.Pod) bool {
		return p.Labels["claim"] == c.name && p.Labels[wellknown.PavProvisionerLabel] == s.Namespace && p.Labels[wellknown.PavStepLabel] == string(step)
	})
	if c.point == "" {
		return pod
	}
	s.run(`cd "$1" && read -r _ <"$2"; rm "$2"`, s.folder(c), c.point)
	return s.waitHelper(pod.Name, "at work", func(p *corev1.Pod) bool {
		inits := p.Status.InitContainerStatuses
		return c.point == "init" && len(inits) == 2 && inits[1].State.Running != nil || running(p)
	})
}

// proceed has the helper pod continue that waits.
func (s *pav) proceed(c *pavClaim) { s.T.Helper(); s.run(`echo >"$1"/go`, s.folder(c)) }

// disrupt disrupts the helper pods of all claims.
func (s *pav) disrupt(claims []*pavClaim, step helperpod.Step) {
	s.T.Helper()
	for _, c := range claims {
		if c.disrupt != nil {
			c.disrupt(s, c, s.reached(c, step))
		}
	}
}

// waitCreated waits until the claims are bound, and checks what the helper pods have done.
func (s *pav) waitCreated(claims []*pavClaim) {
	s.T.Helper()
	for _, c := range claims {
		claim := s.WaitPVC(c.name, "bound", func(p *corev1.PersistentVolumeClaim) bool { return p.Status.Phase == corev1.ClaimBound })
		c.volume = claim.Spec.VolumeName
		if want := rules.VolumeName(claim.UID); c.volume != want {
			s.T.Errorf("%s: volume %s, want %s", c.title, c.volume, want)
		}
		if pv := s.WaitPV(c.volume, "there", func(*corev1.PersistentVolume) bool { return true }); pv.Spec.CSI.VolumeHandle != "handle-"+c.volume {
			s.T.Errorf("%s: handle %s, want that of /pav/handle", c.title, pv.Spec.CSI.VolumeHandle)
		}
		s.check(c, rules.CreationFailed, c.created, c.volume)
	}
}

// waitRemoved waits until nothing of the volumes is left, and checks what the helper pods have done.
func (s *pav) waitRemoved(claims []*pavClaim) {
	s.T.Helper()
	for _, c := range claims {
		s.WaitGone("persistentvolume/" + c.volume)
		s.WaitGone("pavvolume/" + c.volume)
		s.check(c, rules.DeletionFailed, c.deleted, "")
	}
	pods, err := s.Client.CoreV1().Pods(pavNamespace).List(s.Context, metav1.ListOptions{LabelSelector: wellknown.PavProvisionerLabel + "=" + s.Namespace})
	s.Do(err)
	if len(pods.Items) > 0 {
		s.T.Errorf("%d helper pods are left, such as %s", len(pods.Items), pods.Items[0].Name)
	}
}

// check compares log and directories of a claim's folder, and waits for the event of a failure.
func (s *pav) check(c *pavClaim, failure rules.Reason, log, directories string) {
	s.T.Helper()
	got := s.run(`cd "$1" && cat log && find . -mindepth 1 -type d`, s.folder(c))
	want := strings.Join(strings.Fields(log), "\n") + "\n"
	if directories != "" {
		want += "./" + directories + "\n"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.T.Errorf("%s: log of the helper pods, and directories (-want +got):\n%s", c.title, diff)
	}
	if c.message != "" {
		s.WaitEvent(c.in, c.subject, string(failure), c.message)
	}
}

// waitHelper waits until is accepts a helper pod, and returns it.
func (s *pav) waitHelper(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	s.T.Helper()
	return frame.Wait(s.Env, s.Client.CoreV1().Pods(pavNamespace), name, what, is)
}

// signal sends a signal to the process of a container.
func (s *pav) signal(signal string, container corev1.ContainerStatus) {
	s.T.Helper()
	s.run(ctr+`kill --signal "$1" "$2"`, signal, strings.TrimPrefix(container.ContainerID, "containerd://"))
}

// label labels the node, with a key of the test.
func (s *pav) label(value any) {
	s.T.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{s.Namespace: value}}})
	s.Do(err)
	_, err = s.Client.CoreV1().Nodes().Patch(s.Context, pavNode, types.MergePatchType, patch, metav1.PatchOptions{})
	s.Do(err)
}
