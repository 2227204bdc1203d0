// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"stowage.dev/stowage/test/cluster/realnode/layout"
)

// containerdConfig avoids systemd, AppArmor and CAP_SYS_RESOURCE, which the machine may not
// have.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.native",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{{.Registries}}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/kubernetes/cni"
`

// networkConfig gives pods addresses that the machine and all nodes have routes to.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "{{.Pods}}"}]]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: /etc/kubernetes/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: /etc/kubernetes/kubelet.crt
tlsPrivateKeyFile: /etc/kubernetes/kubelet.key
containerRuntimeEndpoint: unix://{{.Socket}}
resolvConf: ""
cgroupDriver: cgroupfs
cgroupRoot: /{{.Group}}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
evictionHard: {memory.available: 50Mi, nodefs.available: 200Mi, nodefs.inodesFree: 1%, imagefs.available: 200Mi, imagefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
volumePluginDir: /var/lib/kubelet/volumeplugins
nodeLeaseDurationSeconds: {{.Lease}}
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/kube-proxy.conf}
hostnameOverride: {{.Name}}
mode: iptables
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// settings fill in the templates.
type settings struct {
	Name, Group, Pods, Socket, Registries, Pause string
	Lease                                        int
}

// writeFiles writes the node's files in /etc.
func (n *Node) writeFiles() error {
	s := settings{
		Name: n.Name, Group: n.group(), Pods: n.cluster.network.slot.pods(n.index),
		Socket: layout.Containerd, Registries: layout.Registries, Pause: BusyboxImage,
		Lease: int(gracePeriod.Seconds() / 2),
	}
	for name, text := range map[string]string{
		"kubernetes/containerd.toml":   containerdConfig,
		"kubernetes/cni/pods.conflist": networkConfig,
		"kubernetes/kubelet.yaml":      kubeletConfig,
		"kubernetes/kube-proxy.yaml":   proxyConfig,
		"hostname":                     "{{.Name}}\n",
		"fstab":                        "", // not the machine's
	} {
		var b bytes.Buffer
		if err := template.Must(template.New(name).Parse(text)).Execute(&b, s); err != nil {
			return err
		}
		if err := n.writeEtc(name, b.Bytes()); err != nil {
			return err
		}
	}
	return n.writeCredentials()
}

// writeCredentials writes the node's unique names and its certificates.
func (n *Node) writeCredentials() error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	cert, key, err := n.cluster.ServingCertificate(n.Name, n.Name, n.Address)
	if err != nil {
		return err
	}
	files := map[string][]byte{"machine-id": fmt.Appendf(nil, "%x\n", id), "kubernetes/kubelet.crt": cert, "kubernetes/kubelet.key": key}
	kubelet, err := n.cluster.KubeconfigFor("system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}
	proxy, err := n.cluster.KubeconfigFor("system:kube-proxy")
	if err != nil {
		return err
	}
	for name, file := range map[string]string{"ca.crt": n.cluster.CAFile(), "kubelet.conf": kubelet, "kube-proxy.conf": proxy} {
		if files["kubernetes/"+name], err = os.ReadFile(file); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := n.writeEtc(name, data); err != nil {
			return err
		}
	}
	return nil
}

// writeEtc writes a file of the node's /etc, while the node does not run.
func (n *Node) writeEtc(name string, data []byte) error {
	file := filepath.Join(n.path("etc"), name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
