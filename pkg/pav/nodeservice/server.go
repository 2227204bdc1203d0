// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/nodeservice/publish"
	"stowage.dev/stowage/pkg/pav/report"
)

const (
	// callLimit limits a call, and callMargin is how long before the caller's deadline it ends, so that
	// kubelet receives the reason: it gives up after 2 minutes (csiTimeout in
	// k8s.io/kubernetes/pkg/volume/csi).
	callLimit, callMargin = 110 * time.Second, 2 * time.Second
	// maxHandle is the longest handle in bytes (size limits of the CSI specification).
	maxHandle = 128
)

// server serves the Identity and the Node service of one driver.
type server struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	service *Service
	driver  string
}

// GetPluginInfo implements csi.IdentityServer.
func (s *server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.driver, VendorVersion: "v1"}, nil
}

// GetPluginCapabilities implements csi.IdentityServer.
func (s *server) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Probe implements csi.IdentityServer.
func (s *server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(s.service.Synced())}, nil
}

// NodeGetInfo implements csi.NodeServer.
func (s *server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.service.Node, MaxVolumesPerNode: s.service.MaxVolumes}, nil
}

// NodeGetCapabilities implements csi.NodeServer.
func (s *server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

// NodeStageVolume implements csi.NodeServer. It mounts nothing at the staging path of the request.
func (s *server) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	v, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(r.VolumeCapability)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	return &csi.NodeStageVolumeResponse{}, again(ctx, v.stage(ctx, kind))
}

// NodeUnstageVolume implements csi.NodeServer.
func (s *server) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	v, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	return &csi.NodeUnstageVolumeResponse{}, again(ctx, v.unstage(ctx))
}

// NodePublishVolume implements csi.NodeServer.
func (s *server) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	v, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(r.VolumeCapability)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	return &csi.NodePublishVolumeResponse{}, again(ctx, v.publish(ctx, r, kind))
}

// NodeUnpublishVolume implements csi.NodeServer. It needs no API server.
func (s *server) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	v, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	// Not files.do: a hung operation on the volume must not keep it mounted.
	return &csi.NodeUnpublishVolumeResponse{}, again(ctx, v.Publisher.Unpublish(r.TargetPath))
}

// NodeGetVolumeStats implements csi.NodeServer.
func (s *server) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	v, err := s.volume(r.VolumeId)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	var stats publish.Stats
	err = v.examine(ctx, func(context.Context) (err error) {
		stats, err = v.Publisher.Stats(r.VolumePath)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	usage := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: stats.Bytes, Used: stats.BytesUsed, Available: stats.BytesAvailable}}
	if stats.Kind == report.Directory {
		usage = append(usage, &csi.VolumeUsage{Unit: csi.VolumeUsage_INODES, Total: stats.Inodes, Used: stats.InodesUsed, Available: stats.InodesAvailable})
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, again(ctx, err)
}

// volume returns the volume of a handle.
func (s *server) volume(handle string) (volume, error) {
	if handle == "" || len(handle) > maxHandle || strings.Contains(handle, "^") {
		return volume{}, status.Errorf(codes.InvalidArgument, "volume_id has %d bytes, must have 1 to %d, and no ^", len(handle), maxHandle)
	}
	return volume{s.service, s.driver, handle}, nil
}

// kindOf returns what a volume has to be.
func kindOf(capability *csi.VolumeCapability) (report.Kind, error) {
	switch {
	case capability.GetBlock() != nil:
		return report.BlockDevice, nil
	case capability.GetMount() != nil:
		return report.Directory, nil
	default:
		return "", status.Error(codes.InvalidArgument, "volume_capability has no access type")
	}
}

// limited returns a context that ends before kubelet gives up.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Now().Add(callLimit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-callMargin).Before(limit) {
		limit = deadline.Add(-callMargin)
	}
	return context.WithDeadline(ctx, limit)
}

// again returns an error after which kubelet assumes that the operation may have had an effect, and
// repeats it (isFinalError in k8s.io/kubernetes/pkg/volume/csi/csi_client.go).
func again(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, publish.ErrTarget):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	klog.FromContext(ctx).V(2).Info("A call of kubelet failed", "reason", err.Error())
	return status.Error(codes.Aborted, err.Error())
}

// publish mounts the staged volume at a target path.
func (v volume) publish(ctx context.Context, r *csi.NodePublishVolumeRequest, kind report.Kind) error {
	staging := v.staging(v.name())
	if staging == nil || !v.identified(staging) { // the informer may lag behind NodeStageVolume
		var err error
		if staging, err = v.get(ctx); err != nil {
			return err
		}
	}
	if staging == nil || !v.identified(staging) {
		var err error
		if staging, err = v.stageAgain(ctx, kind); err != nil {
			return err
		}
	}
	options := publish.Options{
		ReadOnly: r.Readonly || readOnlyMode(r.VolumeCapability.GetAccessMode().GetMode()),
		Flags:    r.VolumeCapability.GetMount().GetMountFlags(),
	}
	return v.examine(ctx, func(ctx context.Context) error {
		opened, err := v.Dirs.Open(v.attempt(staging))
		if err != nil {
			return err
		}
		defer opened.Close()
		if err := same(staging.Spec.Volume, opened.Staged(staging.Status.StagedAttempt)); err != nil {
			return err
		}
		if options.ReadOnly {
			if err := v.Dirs.ReadOnly(opened); err != nil {
				return err
			}
		}
		if ctx.Err() != nil { // kubelet may have unpublished the volume meanwhile, and removed the pod
			return context.Cause(ctx)
		}
		return v.Publisher.Publish(opened, r.TargetPath, options)
	})
}

// stageAgain has a volume staged that was unstaged, or lost, while kubelet had it: for a pod that starts then,
// kubelet does not call NodeStageVolume again. It waits for a short time only, in which kubelet does nothing else
// with the volume, and not at all while another pod has it.
func (v volume) stageAgain(ctx context.Context, kind report.Kind) (*stowage.PavStaging, error) {
	if err := v.unused(v.key()); err != nil {
		return nil, fmt.Errorf("volume %s is not staged any more: %w", v.handle, err)
	}
	ctx, cancel := context.WithTimeout(ctx, responds)
	defer cancel()
	if err := v.stage(ctx, kind); err != nil {
		return nil, err
	}
	staging, err := v.get(ctx)
	switch {
	case err != nil:
		return nil, err
	case staging == nil:
		return nil, v.missing()
	case !v.identified(staging):
		return nil, v.waits(staging)
	}
	return staging, nil
}

// identified reports whether the volume is staged, and known.
func (v volume) identified(s *stowage.PavStaging) bool {
	return v.isStaged(s) && s.Spec.Volume != nil && s.Spec.Volume.Attempt == s.Status.StagedAttempt
}

func readOnlyMode(mode csi.VolumeCapability_AccessMode_Mode) bool {
	return mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
}
