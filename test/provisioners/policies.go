// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioners

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

const (
	// probe is the name of a node, and of a class, that do not exist.
	probe = "policy-probe"
)

// waitPolicies returns when the API server limits provisioners to the volumes and reports of their
// own node, and to the classes that they may publish. It applies policies some time after
// they are created, and sends no event when it does.
func waitPolicies(ctx context.Context, c *cluster.Cluster) error {
	config := rest.CopyConfig(c.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + Namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + Namespace, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {probe}},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	reports, err := diskreports.NewClient(config)
	if err != nil {
		return err
	}
	ofNoClass, problem := localpv.Volume(localpv.Request{
		Node:  localpv.Node{Name: probe, Hostname: probe},
		Class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: probe}},
		Disk: disk.Fact{
			Key: disk.Key{Class: probe, Name: probe}, HostPath: "/mnt/" + probe, Kind: disk.Mount, Identity: "fs:" + probe + ":/", Bytes: 1 << 30,
		},
		Offer: localpv.Offer{Mode: disk.Filesystem}, Generation: 1,
	})
	if problem != nil {
		return problem
	}
	unlabelled := ofNoClass.DeepCopy()
	delete(unlabelled.Labels, wellknown.NodeLabel)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	create := func(volume *corev1.PersistentVolume) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.CoreV1().PersistentVolumes().Create(ctx, volume, dryRun)
			return err
		}
	}
	for policy, ask := range map[string]func(context.Context) error{
		"volumes":   create(unlabelled),
		"placement": create(ofNoClass),
		"reports": func(ctx context.Context) error {
			_, err := reports.Create(ctx, &stowage.LocalDiskReport{
				ObjectMeta: metav1.ObjectMeta{Name: "another"}, Spec: stowage.LocalDiskReportSpec{NodeName: "another", Page: 1},
			}, dryRun)
			return err
		},
	} {
		if err := waitRefused(ctx, "stowage-provisioner-"+policy, ask); err != nil {
			return err
		}
	}
	return nil
}

// waitRefused sends a request that a policy forbids until it is refused.
func waitRefused(ctx context.Context, policy string, ask func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, deadline.Wait(), true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // no object shows it
		last = ask(ctx)
		return last != nil && strings.Contains(last.Error(), "ValidatingAdmissionPolicy '"+policy+"'"), nil
	})
	if err != nil {
		return fmt.Errorf("wait until policy %s is in force: %w", policy, errors.Join(err, last))
	}
	return nil
}
