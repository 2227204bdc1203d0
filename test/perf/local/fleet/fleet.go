// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet measures what the provisioners of many nodes cost the API server: an etcd, a
// kube-apiserver, a volume for each disk, and the watches that the provisioners would have,
// each on its own connection. There are no nodes and no provisioners.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
)

// The objects in the cluster.
const (
	nodes          = 1000
	volumesPerNode = 10
	updates        = 2000
	// updatesPerSecond leave the API server time for a thousand watchers: it drops those
	// that cannot follow, which would reconnect and hide their cost.
	updatesPerSecond = 100
	// watchingAll is how many watch all volumes: more would take longer than it is worth,
	// since each costs the same.
	watchingAll = 50
)

// Config configures Measure.
type Config struct {
	Binaries cluster.Binaries
	Rounds   int
	// Progress receives progress messages.
	Progress func(format string, args ...any)
}

type setup struct {
	Config
	cluster *cluster.Cluster
	client  kubernetes.Interface
	names   []string // of volumes
	version int
}

// Measure runs all arms in turn, round by round.
func Measure(ctx context.Context, config Config) (measured figures.Set, err error) {
	config.Progress("control plane")
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: config.Binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s := &setup{Config: config, cluster: c, client: c.Client()}
	if err := s.makeVolumes(ctx); err != nil {
		return nil, err
	}
	byArm := map[string]figures.Set{}
	arms := []string{none, filtered, all}
	for round := range config.Rounds {
		for _, arm := range arms {
			line, err := s.run(ctx, arm, round+1)
			if err != nil {
				return nil, fmt.Errorf("%s watching, round %d: %w", arm, round+1, err)
			}
			byArm[arm] = append(byArm[arm], line)
		}
	}
	for _, arm := range arms {
		measured = append(measured, byArm[arm]...)
	}
	return measured, nil
}

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

// makeVolumes makes volumes as provisioners do.
func (s *setup) makeVolumes(ctx context.Context) error {
	s.Progress("%d volumes", nodes*volumesPerNode)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast-disks"}}
	s.names = make([]string, nodes*volumesPerNode)
	return parts.Each(ctx, len(s.names), func(ctx context.Context, i int) error {
		node, name := nodeName(i%nodes), fmt.Sprintf("disk-%d", i/nodes)
		volume, problem := localpv.Volume(localpv.Request{
			Node: localpv.Node{Name: node, Hostname: node}, Class: class, Generation: time.Now().Unix(),
			Disk: disk.Fact{
				Key: disk.Key{Class: class.Name, Name: name}, HostPath: "/mnt/fast-disks/" + name, Kind: disk.Mount,
				Identity: disk.Identity(fmt.Sprintf("fs:%032x:/", i)), Bytes: 100 << 30,
			},
			Offer: localpv.Offer{Mode: disk.Filesystem},
		})
		if problem != nil {
			return problem
		}
		s.names[i] = volume.Name
		_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		return err
	})
}

// update changes as many volumes as there are updates, spread evenly over the nodes.
func (s *setup) update(ctx context.Context) error {
	s.version++
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/version":"%d"}}}`, s.version)
	pace := flowcontrol.NewTokenBucketRateLimiter(updatesPerSecond, 1)
	defer pace.Stop()
	return parts.Each(ctx, updates, func(ctx context.Context, i int) error {
		if err := pace.Wait(ctx); err != nil {
			return err
		}
		_, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, s.names[i], types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
