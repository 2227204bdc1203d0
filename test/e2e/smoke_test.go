// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// TestNodes: pods on two nodes write to local volumes and others read it, also after a node lost
// its power; kubectl exec and logs work, and a pod asks the API server who it is.
func TestNodes(t *testing.T) {
	e := frame.New(t)
	const path = "/mnt/disks/fast/1"
	disk := realnode.Disk{Kind: realnode.Ext4, Path: path, Size: 32 << 20}
	nodes := e.AddNodes(frame.Node("a", disk), frame.Node("b", disk))
	class := e.Name("fast")
	e.Create(e.Class(class))
	for _, short := range []string{"a", "b"} {
		e.Create(e.LocalVolume(short, class, short, path), e.Claim(short, class),
			e.OnNode(e.Shell("writer-"+short, "echo written on "+short+" >/data/"+short+"/word; sync", short), short))
	}
	for _, short := range []string{"a", "b"} {
		e.WaitPod("writer-"+short, "done", frame.Succeeded)
		e.Create(e.Shell("reader-"+short, "cat /data/"+short+"/word; exec sleep 1000000", short))
	}
	for _, short := range []string{"a", "b"} {
		pod := e.WaitPod("reader-"+short, "ready", frame.Ready)
		if want := e.Name(short); pod.Spec.NodeName != want {
			t.Errorf("pod %s runs on %s, want the volume's node %s", pod.Name, pod.Spec.NodeName, want)
		}
		want := "written on " + short + "\n"
		if got := e.Exec(pod.Name, "cat", "/data/"+short+"/word"); got != want {
			t.Errorf("exec reads %q in pod %s, want %q", got, pod.Name, want)
		}
		if got := e.Kubectl("logs", pod.Name); got != want {
			t.Errorf("the log of pod %s is %q, want %q", pod.Name, got, want)
		}
	}

	e.Do(nodes[0].Kill())
	e.Kubectl("wait", "--for=condition=Ready=Unknown", "--timeout=-1s", "node/"+nodes[0].Name)
	e.Do(nodes[0].Start(e.Context))
	if got, err := nodes[0].Run(e.Context, nil, "cat", path+"/word"); err != nil || strings.TrimSpace(got) != "written on a" {
		t.Errorf("after the power cut the disk has %q, %v", got, err)
	}
}

// TestInside: a pod on the pod network reaches the API server under the Service's address
// with its token, which names the node.
func TestInside(t *testing.T) {
	e := frame.New(t)
	e.AddNodes(frame.Node("a"))
	e.Create(e.OnNode(e.Shell("asks", "exec sleep 1000000"), "a"))
	e.WaitPod("asks", "ready", frame.Ready)
	token := e.Exec("asks", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
	review, err := e.Client.AuthenticationV1().TokenReviews().Create(e.Context,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{review.Status.User.Username, strings.Join(review.Status.User.Extra["authentication.kubernetes.io/node-name"], " ")}
	if diff := cmp.Diff([]string{"system:serviceaccount:" + e.Namespace + ":default", e.Name("a")}, got); diff != "" {
		t.Errorf("the token's user and node (-want +got):\n%s", diff)
	}
	if out := e.Exec("asks", "sh", "-c", "nc -w 30 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo connected"); out != "connected\n" {
		t.Errorf("a connection to the API server prints %q", out)
	}
}
