// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode/layout"
	"stowage.dev/stowage/test/deadline"
)

// registryPort is that of the registry at the machine's address on the nodes' network, which no
// other cluster has.
const registryPort = "5443"

// registry is Docker's registry, as Debian has it.
type registry struct {
	address     string // host and port
	authorities string // folder of the certificate that vouches for it
}

// newRegistry runs a registry beside a cluster, from which its nodes pull.
func newRegistry(s *empty) registry {
	s.T.Helper()
	binary, err := exec.LookPath("docker-registry")
	s.Do(err)
	server, err := url.Parse(s.Cluster.RESTConfig().Host)
	s.Do(err)
	dir := s.T.TempDir()
	r := registry{address: net.JoinHostPort(server.Hostname(), registryPort), authorities: s.T.TempDir()}
	certificate, key, err := cert.GenerateSelfSignedCertKey(server.Hostname(), []net.IP{net.ParseIP(server.Hostname())}, nil)
	s.Do(err)
	s.Do(os.WriteFile(filepath.Join(r.authorities, "registry.crt"), certificate, 0o600))
	s.Do(os.WriteFile(filepath.Join(dir, "registry.key"), key, 0o600))
	config := filepath.Join(dir, "config.yml")
	s.Do(os.WriteFile(config, fmt.Appendf(nil, `version: 0.1
storage:
  filesystem:
    rootdirectory: %s/images
http:
  addr: %s
  tls:
    certificate: %s/registry.crt
    key: %[1]s/registry.key
`, dir, r.address, r.authorities), 0o600))
	_, err = s.Cluster.StartProcess(cluster.ProcessOptions{Name: "registry", Binary: binary, Args: []string{"serve", config}})
	s.Do(err)
	s.Do(r.wait(s.Context, certificate))
	_, err = s.node.Run(s.Context, strings.NewReader(string(certificate)), "sh", "-c",
		`mkdir -p "$1" && cat >"$1/ca.crt" && printf 'ca = "%s/ca.crt"\n' "$1" >"$1/hosts.toml"`, "sh", filepath.Join(layout.Registries, r.address))
	s.Do(err)
	return r
}

// wait waits until the registry answers.
func (r *registry) wait(ctx context.Context, authority []byte) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, deadline.Wait(), true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // an external program without events
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.address+"/v2/", nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if last = err; err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for the registry: %w (%w)", err, last)
	}
	return nil
}
