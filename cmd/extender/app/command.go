// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-extender command: configuration and flags,
// client and informers, leader election, serving.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/component"
	"stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/extender"
	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/pkg/server/command"
	"stowage.dev/stowage/pkg/server/leader"
)

const (
	componentName = "stowage-extender"

	longDescription = `stowage-extender serves the extender protocol of kube-scheduler: it filters and
ranks the nodes that have volumes for a pod, and in mode Full binds volumes and pod.

It is for clusters that can configure kube-scheduler but not replace it; see
docs/extender.md. Its own configuration is in docs/extender-configuration.md.`
)

// NewCommand returns the stowage-extender command. It runs until the command's context is
// done.
func NewCommand() *cobra.Command {
	return command.New(command.Config[*v1alpha1.ExtenderConfiguration]{
		Name: componentName, Short: "Serve kube-scheduler's extender protocol for volumes", Long: longDescription,
		File: "file with an ExtenderConfiguration (extender.config.stowage.dev/v1alpha1)",
		Default: func() (*v1alpha1.ExtenderConfiguration, error) {
			return nil, errors.New("--config is required: certificates have no default")
		},
		Decode: v1alpha1.Decode,
		Connection: func(settings *v1alpha1.ExtenderConfiguration) component.ClientConnection {
			return settings.ClientConnection
		},
		Summary: func(settings *v1alpha1.ExtenderConfiguration) string { return "mode " + string(settings.Mode) },
		Run:     run,
	})
}

// run serves until ctx ends or the lease is lost.
func run(ctx context.Context, settings *v1alpha1.ExtenderConfiguration, connection *rest.Config, secure *server.Secure) error {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	r := newReplica(settings, client)
	r.secure = secure
	if *settings.LeaderElection.LeaderElect {
		r.lead = func(ctx context.Context, work func(context.Context) error) error {
			return leader.Run(ctx, leader.Config{Name: componentName, Election: settings.LeaderElection, Connection: connection, Work: work})
		}
	}
	if marks, err := marksPods(ctx, client.Discovery().RESTClient()); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to determine whether MutatingAdmissionPolicy is served")
	} else if !marks {
		klog.FromContext(ctx).Info("MutatingAdmissionPolicy is not served: kube-scheduler calls the extender only for pods that are marked by other means",
			"apiVersion", policyVersion)
	}
	return r.serve(ctx)
}

// policyVersion has the kind of the policy that marks pods for the extender, from Kubernetes 1.36 on.
const policyVersion = "admissionregistration.k8s.io/v1"

// discoveryTimeout limits how long a question that only the log needs delays the start.
const discoveryTimeout = 5 * time.Second

// marksPods reports whether the API server serves policyVersion's MutatingAdmissionPolicy.
func marksPods(ctx context.Context, client rest.Interface) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	var served metav1.APIResourceList
	if err := client.Get().AbsPath("/apis/" + policyVersion).Do(ctx).Into(&served); err != nil {
		return false, fmt.Errorf("list the resources of %s: %w", policyVersion, err)
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "mutatingadmissionpolicies" }), nil
}

// replica is one process of the extender.
type replica struct {
	settings *v1alpha1.ExtenderConfiguration
	client   kubernetes.Interface
	// lead calls work while this replica leads; nil: all replicas answer.
	lead func(ctx context.Context, work func(context.Context) error) error
	// secure serves probes and metrics over TLS; nil: plain HTTP.
	secure *server.Secure
	// listener accepts calls; nil: at the configured address.
	listener net.Listener

	made    *extender.Extender
	leading atomic.Bool
	served  chan struct{} // closed when all calls have ended
}

func newReplica(settings *v1alpha1.ExtenderConfiguration, client kubernetes.Interface) *replica {
	return &replica{settings: settings, client: client, served: make(chan struct{})}
}

func (r *replica) serve(ctx context.Context) (err error) {
	// Calls and binds in progress when ctx ends run to completion, for which they need
	// the informers.
	lifetime, end := context.WithCancel(context.WithoutCancel(ctx))
	informers := newInformers(r.client)
	defer informers.Shutdown()
	defer end()
	if r.made, err = extender.New(lifetime, extender.Config{Settings: r.settings, Client: r.client, Informers: informers}); err != nil {
		return err
	}
	r.leading.Store(r.lead == nil)
	klog.FromContext(ctx).Info("Starting the extender", "version", command.Version(), "mode", r.settings.Mode, "address", r.settings.Serving.Address)

	informers.Start(lifetime.Done())
	defer r.made.Wait()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(r.served)
		serving := r.settings.Serving
		return server.ServeCalls(ctx, server.CallsConfig{
			Address: serving.Address, Listener: r.listener, Handler: onlyLeader(&r.leading, r.made.Handler()),
			CertFile: serving.CertFile, KeyFile: serving.KeyFile, ClientCAFile: serving.ClientCAFile,
			ClientNames: serving.ClientNames,
		})
	})
	if *r.settings.HealthAddress != "" {
		group.Go(func() error {
			return server.Serve(ctx, server.Config{
				Address: *r.settings.HealthAddress,
				Ready:   r.ready,
				Secure:  r.secure,
			})
		})
	}
	if r.lead != nil {
		group.Go(func() error { return r.lead(ctx, r.work) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// work answers until ctx ends, and returns when no bind is in progress: the next leader
// does not know what they have reserved. If the lease is lost, another replica may
// already lead: work returns at once and the process terminates, which closes the
// connections of schedulers, so that they reconnect to the new leader.
func (r *replica) work(ctx context.Context) error {
	r.leading.Store(true)
	<-ctx.Done()
	r.leading.Store(false)
	if errors.Is(context.Cause(ctx), leader.ErrLeaseLost) {
		return nil
	}
	<-r.served
	r.made.Wait()
	return nil
}

// errStandby means that another replica answers.
var errStandby = errors.New("standing by: another replica leads")

func (r *replica) ready(string) error {
	if err := r.made.Ready(); err != nil || r.leading.Load() {
		return err
	}
	return errStandby
}

// onlyLeader rejects calls while another replica leads.
func onlyLeader(leading *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !leading.Load() {
			http.Error(w, errStandby.Error(), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newInformers creates informers without what the cache never reads: terminated pods, and
// managed fields.
func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	factory.InformerFor(&v1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		running := fields.AndSelectors(
			fields.OneTermNotEqualSelector("status.phase", string(v1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(v1.PodFailed)))
		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, byNamespace,
			func(o *metav1.ListOptions) { o.FieldSelector = running.String() })
	})
	return factory
}

// trim removes the managed fields of an object, and of a pod the containers and most of
// the status: for all pods of a cluster these are most of the memory.
func trim(object any) (any, error) {
	if pod, ok := object.(*v1.Pod); ok {
		pod.Spec.Containers, pod.Spec.InitContainers, pod.Spec.EphemeralContainers = nil, nil, nil
		pod.Status = v1.PodStatus{Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName}
	}
	return loop.WithoutManagedFields(object)
}
