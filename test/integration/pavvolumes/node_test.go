// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/pav/nodeservice"
	"stowage.dev/stowage/pkg/pav/nodeservice/publish"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/test/integration/fixture"
)

// nodeClients are the clients of the node service of a node.
func nodeClients(e *fixture.Env, node string) *pavclient.Clients {
	e.T.Helper()
	connection := rest.CopyConfig(e.Cluster.RESTConfig())
	connection.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:stowage-system:stowage-csi",
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
	own, err := pavclient.New(connection)
	if err != nil {
		e.T.Fatal(err)
	}
	return own
}

// service is the node service of a node, whose directories are in one of the test.
type service struct {
	e       *fixture.Env
	root    string
	kubelet string
	stop    func()
}

// startService starts the node service of the tests' node.
func startService(e *fixture.Env, root string) *service {
	e.T.Helper()
	s := &service{e: e, root: filepath.Join(root, "pav"), kubelet: filepath.Join(root, "k")}
	dirs, err := stagingdir.New(stagingdir.Config{Root: s.root, Proc: "/proc", Sys: "/sys", Dev: "/dev"})
	if err != nil {
		e.T.Fatal(err)
	}
	publisher, err := publish.New(publish.Config{KubeletDir: s.kubelet, Proc: "/proc"})
	if err != nil {
		e.T.Fatal(err)
	}
	node, err := nodeservice.New(nodeservice.Config{
		Node: nodeName, BootID: "boot-1", KubeletDir: s.kubelet, MaxVolumes: 7,
		Clients: nodeClients(e, nodeName), Dirs: dirs, Publisher: publisher, Mountinfo: mounts.Self,
	})
	if err != nil {
		e.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.Context())
	var running sync.WaitGroup
	running.Go(func() { logEarly(ctx, node.Run(ctx)) })
	s.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	e.T.Cleanup(s.stop)
	return s
}

// shortDir is a directory whose sockets have short paths.
func shortDir(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("", "pav")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// makes is the outcome of a staging pod that runs, after it made a directory its volume.
func (s *service) makes(pod *corev1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil {
			if err := os.MkdirAll(filepath.Join(s.root, strings.TrimPrefix(v.HostPath.Path, pavdir.StagingRoot), "volume"), 0o755); err != nil {
				panic(err)
			}
		}
	}
	ready(pod)
}

// dial connects to a socket once it exists.
func dial(e *fixture.Env, socket string) *grpc.ClientConn {
	e.T.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { _ = connection.Close() })
	return connection
}

// register finds the driver as kubelet does, and returns a client of its endpoint.
func (s *service) register() csi.NodeClient {
	s.e.T.Helper()
	var info *registration.PluginInfo
	s.e.Wait("the driver's registration socket", func() bool {
		sockets, err := filepath.Glob(filepath.Join(s.kubelet, "plugins_registry/*.sock"))
		if err != nil {
			s.e.T.Fatal(err)
		}
		for _, socket := range sockets {
			client := registration.NewRegistrationClient(dial(s.e, socket))
			// A service that starts removes the sockets of provisioners that are gone: no server may follow.
			found, err := client.GetInfo(s.e.Context(), &registration.InfoRequest{}, grpc.WaitForReady(false))
			if err == nil && found.Name == s.e.Namespace {
				info = found
			}
		}
		return info != nil
	})
	if info.Type != registration.CSIPlugin || len(info.SupportedVersions) == 0 {
		s.e.T.Errorf("registered as %+v", info)
	}
	return csi.NewNodeClient(dial(s.e, info.Endpoint))
}

var fileSystem = &csi.VolumeCapability{
	AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
}

// A volume is staged, published, unpublished and unstaged, also by a service that was restarted in between,
// and nothing of it is left.
func TestNodeService(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	e := fixture.New(t)
	root := shortDir(t)
	s := startService(e, root)
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(func(string, int) outcome { return s.makes }))
	pv := user(e, "c", nodeName)
	handle := pv.Spec.CSI.VolumeHandle
	node := s.register()
	if info, err := node.NodeGetInfo(e.Context(), &csi.NodeGetInfoRequest{}); err != nil || info.NodeId != nodeName || info.MaxVolumesPerNode != 7 {
		t.Errorf("info %+v, %v", info, err)
	}
	target := filepath.Join(s.kubelet, "pods/p/volumes/kubernetes.io~csi/pv/mount")
	e.Do(func(context.Context) error { return os.MkdirAll(filepath.Dir(target), 0o755) })
	e.Do(func(context.Context) error {
		return os.WriteFile(filepath.Join(filepath.Dir(target), "vol_data.json"), []byte(`{"driverName":"`+e.Namespace+`","volumeHandle":"`+handle+`"}`), 0o600)
	})
	publishing := &csi.NodePublishVolumeRequest{VolumeId: handle, TargetPath: target, StagingTargetPath: "/x", VolumeCapability: fileSystem}
	if _, err := node.NodePublishVolume(e.Context(), publishing); err != nil {
		t.Errorf("publish a volume that is not staged any more: %v", err)
	}
	stage := func() {
		t.Helper()
		if _, err := node.NodeStageVolume(e.Context(), &csi.NodeStageVolumeRequest{VolumeId: handle, StagingTargetPath: "/x", VolumeCapability: fileSystem}); err != nil {
			t.Fatal(err)
		}
	}
	stage()
	stage()
	name := stowage.PavStagingName(e.Namespace, handle, nodeName)
	if staging := staged(e, name); staging.Spec.Volume == nil || staging.Spec.Volume.Attempt != 1 {
		t.Errorf("spec %+v, want the volume of attempt 1", staging.Spec)
	}
	for range 2 {
		if _, err := node.NodePublishVolume(e.Context(), publishing); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := node.NodeUnstageVolume(e.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: "/x"}); status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), target) {
		t.Errorf("unstage while a pod has the volume: %v, want Aborted with the target path", err)
	}
	s.stop()
	s = startService(e, root)
	node = s.register()
	stage()
	if stats, err := node.NodeGetVolumeStats(e.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: target}); err != nil || len(stats.Usage) != 2 || stats.Usage[0].Total == 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	for range 2 {
		if _, err := node.NodeUnpublishVolume(e.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: target}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := node.NodeUnstageVolume(e.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: "/x"}); err != nil {
			t.Fatal(err)
		}
	}
	gone(e, clients.Stagings, &stowage.PavStaging{}, name)
	if left, err := os.ReadDir(s.root); err != nil || len(left) > 0 {
		t.Errorf("directories of the volume are left: %v, %v", left, err)
	}
}

// What was staged is not published after something else took its place, until it is staged again.
func TestReplacedVolume(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	e := fixture.New(t)
	s := startService(e, shortDir(t))
	provide(e, withStaging, corev1.PersistentVolumeReclaimDelete, stages(func(string, int) outcome { return s.makes }))
	handle := user(e, "c", nodeName).Spec.CSI.VolumeHandle
	node := s.register()
	stage := func() error {
		_, err := node.NodeStageVolume(e.Context(), &csi.NodeStageVolumeRequest{VolumeId: handle, StagingTargetPath: "/x", VolumeCapability: fileSystem})
		return err
	}
	if err := stage(); err != nil {
		t.Fatal(err)
	}
	name := stowage.PavStagingName(e.Namespace, handle, nodeName)
	uid := string(staged(e, name).UID)
	at := filepath.Join(pavdir.AttemptPath(s.root, name[:32], uid, 1), "volume")
	e.Do(func(context.Context) error { return os.Rename(at, at+"-before") })
	e.Do(func(context.Context) error { return os.Mkdir(at, 0o755) })
	target := filepath.Join(s.kubelet, "pods/p/volumes/kubernetes.io~csi/pv/mount")
	_, err := node.NodePublishVolume(e.Context(), &csi.NodePublishVolumeRequest{VolumeId: handle, TargetPath: target, StagingTargetPath: "/x", VolumeCapability: fileSystem})
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "another file") {
		t.Errorf("publish: %v, want that the volume is another file", err)
	}
	if err := stage(); err != nil {
		t.Fatal(err)
	}
	if again := staged(e, name); again.Status.StagedAttempt != 3 || again.Spec.BootID != "boot-1/1" {
		t.Errorf("staged by attempt %d in boot %s, want 3, after attempt 2 unstaged the volume", again.Status.StagedAttempt, again.Spec.BootID)
	}
	if _, err := node.NodeUnstageVolume(e.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: "/x"}); err != nil {
		t.Fatal(err)
	}
}

// The token of a node service writes the PavStagings of its own node, and of these the spec.
func TestNodeRights(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	own, other := nodeClients(e, nodeName), nodeClients(e, e.Name("other"))
	staging := func(handle string, change func(*stowage.PavStaging)) *stowage.PavStaging {
		s := &stowage.PavStaging{
			ObjectMeta: metav1.ObjectMeta{Name: stowage.PavStagingName(e.Namespace, handle, nodeName)},
			Spec:       stowage.PavStagingSpec{Provisioner: e.Namespace, Handle: handle, NodeName: nodeName, BootID: "b"},
		}
		change(s)
		return s
	}
	none := func(*stowage.PavStaging) {}
	create := func(by *pavclient.Clients, s *stowage.PavStaging) error {
		_, err := by.Stagings.Create(e.Context(), s, metav1.CreateOptions{})
		return err
	}
	existing := fixture.Get(e, func(ctx context.Context) (*stowage.PavStaging, error) {
		return own.Stagings.Create(ctx, staging("exists", none), metav1.CreateOptions{})
	})
	t.Cleanup(func() {
		_ = clients.Stagings.Delete(context.WithoutCancel(e.Context()), existing.Name, metav1.DeleteOptions{})
	})
	patch := func(by *pavclient.Clients, patch string, subresource ...string) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error { // with the controller, which reports on it
			changed, err := clients.Stagings.Get(e.Context(), existing.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(patch), changed); err != nil {
				return err
			}
			if len(subresource) > 0 {
				_, err = by.Stagings.UpdateStatus(e.Context(), changed, metav1.UpdateOptions{})
			} else {
				_, err = by.Stagings.Update(e.Context(), changed, metav1.UpdateOptions{})
			}
			return err
		})
	}
	for row, err := range map[string]error{
		"create for another node": create(other, staging("h", none)),
		"create with a finalizer": create(own, staging("h", func(s *stowage.PavStaging) { s.Finalizers = []string{"stowage.dev/pav-staging"} })),
		"create as unstaged":      create(own, staging("h", func(s *stowage.PavStaging) { s.Annotations = map[string]string{"stowage.dev/pav-unstaged": "true"} })),
		"create with a revision":  create(own, staging("h", func(s *stowage.PavStaging) { s.Spec.UseRevision = stowage.UseRevisionLatest })),
		"change another node's":   patch(other, `{"spec":{"bootID":"c"}}`),
		"count as unstaged":       patch(own, `{"metadata":{"annotations":{"stowage.dev/pav-unstaged":"true"}}}`),
		"change a finalizer":      patch(own, `{"metadata":{"finalizers":["a.b/c"]}}`),
		"change the revision":     patch(own, `{"spec":{"useRevision":"Latest"}}`),
		"write the status":        patch(own, `{"status":{"phase":"Staged"}}`, "status"),
		"delete another node's":   other.Stagings.Delete(e.Context(), existing.Name, metav1.DeleteOptions{}),
		"patch":                   patchErr(own.Stagings.Patch(e.Context(), existing.Name, types.MergePatchType, []byte(`{"spec":{"bootID":"c"}}`), metav1.PatchOptions{})),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: error %v, want that it is forbidden", row, err)
		}
	}
	if err := patch(own, `{"spec":{"bootID":"c","clearedAttempt":1}}`); err != nil {
		t.Error(err)
	}
	if err := own.Stagings.Delete(e.Context(), existing.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func patchErr(_ *stowage.PavStaging, err error) error { return err }
