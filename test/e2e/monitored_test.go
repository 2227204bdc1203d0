// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/operatorkinds"
)

// installOperatorKinds installs the kinds of the Prometheus operator on a cluster.
func installOperatorKinds(ctx context.Context, c *realnode.Cluster) error {
	files, err := operatorkinds.Files(ctx)
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "--filename="+file); err != nil {
			return err
		}
	}
	_, err = c.Kubectl(ctx, append([]string{"wait", "--for=condition=Established", "customresourcedefinition"}, operatorkinds.Names...)...)
	return err
}

// monitor has the checked fields of a ServiceMonitor or PodMonitor.
type monitor struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Selector            metav1.LabelSelector `json:"selector"`
		JobLabel            string               `json:"jobLabel"`
		Endpoints           []endpoint           `json:"endpoints"`
		PodMetricsEndpoints []endpoint           `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// endpoint is the address of a target.
type endpoint struct {
	Port            string `json:"port"`
	Scheme          string `json:"scheme"`
	Path            string `json:"path"`
	BearerTokenFile string `json:"bearerTokenFile"`
	TLSConfig       struct {
		InsecureSkipVerify bool `json:"insecureSkipVerify"`
	} `json:"tlsConfig"`
}

// target is a scrape target of Prometheus.
type target struct {
	endpoint
	job, pod, url string
}

// TestScraped does with the applied monitors what the Prometheus operator and Prometheus do: it
// finds their targets, and scrapes these with the token of a service account that has the role of
// docs/monitoring.md.
func TestScraped(t *testing.T) {
	site.Parallel(t)
	e := site.New(t)
	stranger, prometheus := account(e, "stranger"), account(e, "prometheus")
	role := e.Name("metrics-reader")
	e.Kubectl("create", "clusterrolebinding", role, "--clusterrole=stowage-metrics-reader", "--serviceaccount="+e.Namespace+":prometheus")
	t.Cleanup(func() { e.Kubectl("delete", "clusterrolebinding", role) })
	soon(e, "the service account may get /metrics", func() bool { return mayScrape(e, "prometheus") })

	asked := map[string]bool{}
	for _, found := range targets(e) {
		asked[found.job] = true
		status, text := scrape(e, found, prometheus)
		if status != http.StatusOK || !strings.Contains(text, "\nstowage_") && !strings.Contains(text, "\nscheduler_") {
			t.Errorf("%s of pod %s answers %d, with %d bytes", found.url, found.pod, status, len(text))
		}
		want := http.StatusOK
		if found.BearerTokenFile != "" {
			want = http.StatusForbidden
		}
		if status, _ := scrape(e, found, stranger); status != want {
			t.Errorf("%s of pod %s answers %d to a service account without rights, want %d", found.url, found.pod, status, want)
		}
	}
	want := map[string]bool{"stowage-scheduler": true, "stowage-provisioner": true, "stowage-controller": true}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("jobs that have targets (-want +got):\n%s", diff)
	}
}

// targets are those of all monitors, except provisioners that other tests restart or stop with
// their node.
func targets(e *frame.Env) []target {
	e.T.Helper()
	var list struct {
		Items []monitor `json:"items"`
	}
	e.Do(json.Unmarshal([]byte(e.Kubectl("get", "servicemonitors,podmonitors", "--all-namespaces", "--output=json")), &list))
	var all []target
	for _, m := range list.Items {
		found := podTargets
		if m.Kind == "ServiceMonitor" {
			found = serviceTargets
		}
		all = append(all, found(e, m)...)
	}
	return all
}

// podTargets are the pods of a PodMonitor.
func podTargets(e *frame.Env, m monitor) []target {
	e.T.Helper()
	pods, err := e.Client.CoreV1().Pods(m.Metadata.Namespace).List(e.Context, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&m.Spec.Selector)})
	e.Do(err)
	var all []target
	for _, pod := range pods.Items {
		job := pod.Labels[m.Spec.JobLabel]
		if job == "stowage-provisioner" && pod.Spec.NodeName != "one" && pod.Spec.NodeName != "three" {
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				for _, how := range m.Spec.PodMetricsEndpoints {
					if port.Name == how.Port {
						all = append(all, newTarget(how, job, pod.Name, pod.Status.PodIP, port.ContainerPort))
					}
				}
			}
		}
	}
	return all
}

// serviceTargets are the pods behind the Services of a ServiceMonitor.
func serviceTargets(e *frame.Env, m monitor) []target {
	e.T.Helper()
	services, err := e.Client.CoreV1().Services(m.Metadata.Namespace).List(e.Context, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&m.Spec.Selector)})
	e.Do(err)
	var all []target
	for _, service := range services.Items {
		slices, err := e.Client.DiscoveryV1().EndpointSlices(service.Namespace).List(e.Context, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service.Name})
		e.Do(err)
		for _, slice := range slices.Items {
			for _, port := range slice.Ports {
				for _, how := range m.Spec.Endpoints {
					if *port.Name != how.Port {
						continue
					}
					for _, to := range slice.Endpoints {
						all = append(all, newTarget(how, service.Labels[m.Spec.JobLabel], to.TargetRef.Name, to.Addresses[0], *port.Port))
					}
				}
			}
		}
	}
	return all
}

func newTarget(how endpoint, job, pod, address string, port int32) target {
	scheme := how.Scheme
	if scheme == "" {
		scheme = "http"
	}
	return target{how, job, pod, scheme + "://" + net.JoinHostPort(address, strconv.Itoa(int(port))) + how.Path}
}

// scrape requests a target as its monitor configures, and returns status and body.
func scrape(e *frame.Env, from target, token string) (int, string) {
	e.T.Helper()
	request, err := http.NewRequestWithContext(e.Context, http.MethodGet, from.url, nil)
	e.Do(err)
	if from.BearerTokenFile != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: from.TLSConfig.InsecureSkipVerify}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	e.Do(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	e.Do(err)
	return response.StatusCode, string(text)
}

// account makes a service account in the test's namespace, and returns a token of it.
func account(e *frame.Env, name string) string {
	e.T.Helper()
	accounts := e.Client.CoreV1().ServiceAccounts(e.Namespace)
	_, err := accounts.Create(e.Context, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	e.Do(err)
	request, err := accounts.CreateToken(e.Context, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	e.Do(err)
	return request.Status.Token
}

// mayScrape reports whether a service account of the test's namespace may get /metrics.
func mayScrape(e *frame.Env, name string) bool {
	e.T.Helper()
	review, err := e.Client.AuthorizationV1().SubjectAccessReviews().Create(e.Context, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:                  "system:serviceaccount:" + e.Namespace + ":" + name,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		},
	}, metav1.CreateOptions{})
	e.Do(err)
	return review.Status.Allowed
}

// soon retries until the API server has applied a change that has no event.
func soon(e *frame.Env, what string, so func() bool) {
	e.T.Helper()
	err := wait.PollUntilContextCancel(e.Context, 50*time.Millisecond, true, func(context.Context) (bool, error) { //nolint:forbidigo // there is no event
		return so(), nil
	})
	if err != nil {
		e.T.Fatalf("wait until %s: %v", what, err)
	}
}
