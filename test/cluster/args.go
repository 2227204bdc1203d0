// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// serviceRange is where Services get their addresses from; serviceIP, its
// first, is the API server's own.
const (
	serviceRange = "10.0.0.0/24"
	serviceIP    = "10.0.0.1"
)

// advertiseAddress is the address that a kube-apiserver which listens on loopback advertises,
// instead of searching the machine's interfaces, of which there may be none. It is from a
// block reserved for documentation: no client connects to it. etcd advertises it too: before 3.7 it
// refuses to advertise a socket.
const advertiseAddress = "192.0.2.1"

func etcdArgs(f folder) []string {
	const client, peer = "http://" + advertiseAddress + ":2379", "http://" + advertiseAddress + ":2380"
	return []string{
		"--name=stowage",
		"--data-dir=" + f.etcdData(),
		"--listen-client-urls=unix://" + f.etcdSocket(),
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=unix://" + f.etcdPeerSocket(),
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=stowage=" + peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func (c *Cluster) apiServerArgs() []string {
	advertise := []string{"--advertise-address=" + advertiseAddress, "--endpoint-reconciler-type=none"}
	if c.address != loopback {
		advertise = []string{"--advertise-address=" + c.address, "--kubelet-preferred-address-types=InternalIP"}
	}
	args := append(c.servingArgs(c.apiPort),
		"--etcd-servers=unix://"+c.folder.etcdSocket(),
		"--client-ca-file="+c.folder.caCert(),
		"--requestheader-client-ca-file="+c.folder.proxyCACert(),
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file="+c.folder.serviceAccountKey(),
		"--service-account-key-file="+c.folder.serviceAccountKey(),
		"--service-cluster-ip-range="+serviceRange,
		"--kubelet-certificate-authority="+c.folder.caCert(),
		"--kubelet-client-certificate="+c.folder.kubeletClientCert(),
		"--kubelet-client-key="+c.folder.kubeletClientKey(),
		"--allow-privileged",
		"--shutdown-watch-termination-grace-period=3s", // on SIGTERM it ends watches instead of waiting for them
	)
	args = append(args, advertise...)
	if off := c.config.disabledAdmission(); len(off) > 0 {
		args = append(args, "--disable-admission-plugins="+strings.Join(off, ","))
	}
	return append(args, c.config.APIServer.ExtraArgs...)
}

func (c *Cluster) controllerManagerArgs(port *reservedPort, kubeconfig string) []string {
	m := c.config.ControllerManager
	args := append(c.servingArgs(port), delegatedAuthArgs(kubeconfig)...)
	args = append(args,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--controllers="+strings.Join(m.Controllers, ","),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.folder.serviceAccountKey(),
		"--root-ca-file="+c.folder.caCert(),
		"--flex-volume-plugin-dir="+c.folder.path("flexvolume"), // made if missing
	)
	if m.QPS > 0 {
		args = append(args, "--kube-api-qps="+strconv.FormatFloat(float64(m.QPS), 'f', -1, 32))
	}
	if m.Burst > 0 {
		args = append(args, "--kube-api-burst="+strconv.Itoa(m.Burst))
	}
	return append(args, m.ExtraArgs...)
}

func (c *Cluster) kwokArgs(kubeconfig string) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--manage-all-nodes",
		"--node-ip=127.0.0.1",
		"--config=" + c.folder.stages(),
		// Tests act as the kubelet of cleaning Jobs' pods, which run commands.
		"--disregard-status-with-label-selector=stowage.dev/cleaning",
		"--v=WARN", // otherwise a line for each status it writes
	}
	if c.config.ControllerManager.Runs(nodeLifecycleController) {
		// Only that controller checks heartbeats of nodes.
		args = append(args, fmt.Sprintf("--node-lease-duration-seconds=%d", 40))
	}
	return args
}

// servingArgs are common to all servers built on k8s.io/apiserver.
func (c *Cluster) servingArgs(port *reservedPort) []string {
	return []string{
		"--bind-address=" + port.address,
		"--secure-port=" + strconv.Itoa(port.number),
		"--permit-port-sharing", // with the reservation
		"--tls-cert-file=" + c.folder.serverCert(),
		"--tls-private-key-file=" + c.folder.serverKey(),
	}
}

// delegatedAuthArgs make a component delegate authentication and authorization to the API
// server.
func delegatedAuthArgs(kubeconfig string) []string {
	return []string{
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
}

// stages are what kwok does to nodes and pods: nodes become Ready; pods run, complete if a Job
// owns them, and are removed once deleted. Leases keep nodes Ready.
//
//go:embed stages.yaml
var stages []byte
