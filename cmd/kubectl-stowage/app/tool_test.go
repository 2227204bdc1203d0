// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/commands"
)

// referenceVolume is a volume of the reference implementation, of node a.
func referenceVolume(name string) *builders.PV {
	return builders.MakePV(name).Class("fast").Hostname("a").ProvisionedBy("local-volume-provisioner-a").
		Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/fast/" + name}})
}

// ownVolume is a volume of node a's provisioner.
func ownVolume(name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	pv := referenceVolume(name).Phase(phase).ClaimRef("ns", "claim", "1").Label(wellknown.NodeLabel, localpv.NodeHash("a")).
		Annotation(wellknown.NodeNameAnnotation, "a").ProvisionedBy(localpv.ProvisionedBy("a")).Obj()
	pv.Finalizers = []string{wellknown.LocalVolumeFinalizer}
	return pv
}

// against runs a command with a client.
func against(client kubernetes.Interface, cmd *cobra.Command, f func(*cobra.Command, kubernetes.Interface) error) *cobra.Command {
	return &cobra.Command{Use: cmd.Use, SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, _ []string) error { return f(cmd, client) }}
}

func TestAdopt(t *testing.T) {
	config := file(t, "f", configMap(""))
	conflict := apierrors.NewConflict(corev1.Resource("persistentvolumes"), "v", errors.New("changed"))
	for name, test := range map[string]struct {
		options adoptOptions
		volumes []runtime.Object
		refused error
		prints  []string
		fails   string
		writes  int
	}{
		"nothing to do": {prints: []string{"There are no volumes to adopt."}},
		"without --confirm nothing is changed": {
			volumes: []runtime.Object{referenceVolume("v").Obj()},
			prints:  []string{"v       a     fast   /mnt/fast/v  Available  adopt", "1 to adopt", "Nothing was changed", "--confirm"},
		},
		"with it, all that can be is adopted": {
			options: adoptOptions{confirm: true}, volumes: []runtime.Object{referenceVolume("v").Obj(), referenceVolume("w").Class("slow").Obj()},
			prints: []string{"left alone: the configuration has no class", "Adopted 1."}, fails: "1 volumes of the former provisioner were not adopted", writes: 1,
		},
		"volumes of others are listed, and are no failure": {
			options: adoptOptions{confirm: true}, volumes: []runtime.Object{referenceVolume("v").ProvisionedBy("me").Obj()},
			prints: []string{"1 of others.", "Adopted 0."},
		},
		"a lost race": {
			options: adoptOptions{confirm: true}, volumes: []runtime.Object{referenceVolume("v").Obj(), referenceVolume("w").Obj()}, refused: conflict,
			prints: []string{"v: the volume was changed or deleted meanwhile", "w: ", "Adopted 0."}, fails: "2 of 2 volumes were changed by others at the same time: run this again", writes: 2,
		},
		"a refusal does not keep the next from being tried": {
			options: adoptOptions{confirm: true}, volumes: []runtime.Object{referenceVolume("v").Obj(), referenceVolume("w").Obj()}, refused: errors.New("no rights"),
			prints: []string{"v: patch volume v: no rights", "w: patch volume w: no rights"}, fails: "could not be written", writes: 2,
		},
		"a node that does not exist": {options: adoptOptions{nodes: []string{"b"}}, fails: `node "b" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientOf(test.volumes, test.refused)
			test.options.config = config
			out, err := commands.Output(t, against(client, newAdoptCommand(&cluster{}), test.options.run))
			check(t, out, err, test.prints, test.fails)
			if got := patchesOf(client); got != test.writes {
				t.Errorf("%d writes, want %d", got, test.writes)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	all := tool.Release{}
	all.All = true
	confirmed := all
	confirmed.Confirm = true
	back := confirmed
	back.GiveBack = true
	uninstall := confirmed
	uninstall.StopProvisioners, uninstall.Withdraw = true, true
	free := ownVolume("free", corev1.VolumeAvailable)
	free.Spec.ClaimRef = nil
	deleting := ownVolume("v", corev1.VolumeReleased)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, test := range map[string]struct {
		options tool.Release
		volumes []runtime.Object
		prints  []string
		fails   string
		writes  int
	}{
		"nothing to do": {options: all, prints: []string{"There are no volumes to release."}},
		"without --confirm nothing is changed": {
			options: all, volumes: []runtime.Object{ownVolume("v", corev1.VolumeBound)},
			prints: []string{"ns/claim  data of its claim  release", "1 to release, 0 of them", "Nothing was changed"},
		},
		"with it, what is not clean is listed and released": {
			options: confirmed, volumes: []runtime.Object{deleting},
			prints: []string{"Deleting  ns/claim  NOT CLEANED  release: the volume is removed then", "1 of them with data", "Released 1."}, writes: 1,
		},
		"to uninstall, volumes without a claim are deleted": {
			options: uninstall, volumes: []runtime.Object{free, ownVolume("w", corev1.VolumeBound)},
			prints: []string{"as published       release and delete", "data of its claim  release", "Released 2."}, writes: 2,
		},
		"what cannot be released is kept": {
			options: back, volumes: []runtime.Object{deleting, ownVolume("w", corev1.VolumeBound)},
			prints: []string{"kept: it is being deleted", "Released 1."}, fails: "1 volumes were kept", writes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := clientOf(test.volumes, nil)
			out, err := commands.Output(t, against(client, newReleaseCommand(&cluster{}), func(cmd *cobra.Command, client kubernetes.Interface) error {
				return test.options.Run(cmd.Context(), client, toolOutput(cmd))
			}))
			check(t, out, err, test.prints, test.fails)
			if got := patchesOf(client); got != test.writes {
				t.Errorf("%d writes, want %d", got, test.writes)
			}
		})
	}
}

// TestFlags: invalid flags are rejected before the cluster is read.
func TestFlags(t *testing.T) {
	kubeconfig := "--kubeconfig=" + file(t, "kubeconfig", "apiVersion: v1\nkind: Config\n")
	for name, test := range map[string]struct {
		args  []string
		fails string
	}{
		"adopt without its configuration":             {[]string{"adopt"}, `required flag(s) "config" not set`},
		"adopt by name":                               {[]string{"adopt", "--config=f", "volume"}, "volume"},
		"adopt on files":                              {[]string{"adopt", "--config=f", "--from=f"}, "--from: adopt changes a cluster, and cannot change files: omit --from"},
		"release of nothing":                          {[]string{"release"}, "[all node]"},
		"release of nothing, confirmed":               {[]string{"release", "--confirm"}, "[all node]"},
		"release of all and of one":                   {[]string{"release", "--all", "--node=a"}, "[all node]"},
		"release of one, and of its provisioner":      {[]string{"release", "--node=a", "--stop-provisioners"}, "[node stop-provisioners]"},
		"release to the reference, and deleted":       {[]string{"release", "--all", "--withdraw", "--give-back"}, "[give-back withdraw]"},
		"release while the API server is away":        {[]string{"release", "--all", kubeconfig, "--server=http://127.0.0.1:1"}, "the API server at http://127.0.0.1:1 does not answer; check --kubeconfig, --context and --server: "},
		"acknowledge nothing":                         {[]string{"acknowledge"}, "[all node class]"},
		"acknowledge a reason of nothing":             {[]string{"acknowledge", "--reason=NotEmpty"}, "[all node class]"},
		"acknowledge all, and of a node":              {[]string{"acknowledge", "--all", "--node=a"}, "[all node]"},
		"acknowledge all, and of a class":             {[]string{"acknowledge", "--all", "--class=a"}, "[all class]"},
		"acknowledge on files":                        {[]string{"acknowledge", "--all", "--from=f"}, "--from: acknowledge changes a cluster"},
		"acknowledge a node by an argument":           {[]string{"acknowledge", "--all", "a"}, "a"},
		"a kubeconfig that does not exist":            {[]string{"acknowledge", "--all", "--kubeconfig=/does/not/exist"}, "/does/not/exist"},
		"a context that the kubeconfig does not have": {[]string{"acknowledge", "--all", kubeconfig, "--context=b"}, `context "b" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := commands.Output(t, newTestCommand(), test.args...); err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%v, want %q", err, test.fails)
			}
		})
	}
}

// clientOf has volumes and node a. Writes are rejected if refused is not nil.
func clientOf(volumes []runtime.Object, refused error) *fake.Clientset {
	client := fake.NewClientset(append(volumes, builders.MakeNode("a").Hostname("a").Obj())...)
	if refused != nil {
		client.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	}
	return client
}

func patchesOf(client *fake.Clientset) int {
	n := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			n++
		}
	}
	return n
}

func check(t *testing.T, out string, err error, prints []string, fails string) {
	t.Helper()
	if fails == "" && err != nil || fails != "" && (err == nil || !strings.Contains(err.Error(), fails)) {
		t.Errorf("error %v, want %q", err, fails)
	}
	for _, part := range prints {
		if !strings.Contains(out, part) {
			t.Errorf("it does not print %q:\n%s", part, out)
		}
	}
}
