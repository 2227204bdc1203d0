// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleanjob

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"path"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

const (
	// keptFinished is how long a Job that has ended is kept for inspection, in seconds. Its
	// outcome is in the report.
	keptFinished = 3600
	// stopping is a container's grace period, in seconds: to complete a step, as the
	// provisioner has.
	stopping = 30
)

// Settings are what all Jobs have in common.
type Settings struct {
	Namespace string
	// Image is the provisioner's; PullPolicy and PullSecrets belong to it.
	Image       string
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
	// Tolerations are for taints that evict; none tolerates all, as the provisioner does.
	Tolerations []corev1.Toleration
}

// Job returns the Job of an order. It shares with the settings only memory that is never
// changed.
func (o *Order) Job(s Settings) *batchv1.Job {
	labels := map[string]string{
		"app.kubernetes.io/name": "stowage-cleaning",
		wellknown.CleaningLabel:  o.VolumeUID,
		wellknown.NodeLabel:      localpv.NodeHash(o.Node),
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(o.VolumeUID, o.Attempt), Namespace: s.Namespace, Labels: labels,
			Annotations: map[string]string{
				wellknown.NodeNameAnnotation: o.Node, wellknown.AttemptAnnotation: o.Attempt, wellknown.CleaningPathAnnotation: path.Join(o.HostDir, o.Key.Name),
			},
		},
		Spec: batchv1.JobSpec{
			// One pod, once: the provisioner requests further attempts, with increasing delay.
			Completions: new(int32(1)), Parallelism: new(int32(1)), BackoffLimit: new(int32(0)),
			TTLSecondsAfterFinished: new(int32(keptFinished)),
			// The Job has not failed before its pod has ended.
			PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       o.pod(s),
			},
		},
	}
	if o.Timeout > 0 {
		seconds := int64(math.Ceil(o.Timeout.Seconds()))
		job.Spec.ActiveDeadlineSeconds = &seconds
	}
	return job
}

func (o *Order) pod(s Settings) corev1.PodSpec {
	tolerations := s.Tolerations
	if len(tolerations) == 0 {
		tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return corev1.PodSpec{
		NodeName:      o.Node, // where the disk is, without the scheduler
		RestartPolicy: corev1.RestartPolicyNever,
		// It does not access the API server.
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(stopping)),
		Tolerations:                   tolerations,
		ImagePullSecrets:              s.PullSecrets,
		Containers:                    []corev1.Container{o.container(s)},
		Volumes:                       o.volumes(),
	}
}

func (o *Order) container(s Settings) corev1.Container {
	return corev1.Container{
		Name: "clean", Image: s.Image, ImagePullPolicy: s.PullPolicy,
		Args: o.arguments(),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		TerminationMessagePath:   ResultFile, // not in /dev, which is the node's
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          o.security(),
		VolumeMounts:             o.mounts(),
	}
}

// security is as little as the work takes.
func (o *Order) security() *corev1.SecurityContext {
	context := &corev1.SecurityContext{
		RunAsUser:              new(int64(0)), // disks, and files of any user, are root's to remove
		RunAsNonRoot:           new(false),
		ReadOnlyRootFilesystem: new(true),
	}
	if o.Identity.Kind() == disk.Device {
		// The device cgroup allows only privileged containers to open disks.
		context.Privileged = new(true)
		return context
	}
	context.Privileged = new(false)
	context.AllowPrivilegeEscalation = new(false)
	context.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	// A type that may write where no other container may; of no effect without SELinux.
	context.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	context.Capabilities = &corev1.Capabilities{
		Drop: []corev1.Capability{"ALL"},
		Add: []corev1.Capability{
			"DAC_OVERRIDE",    // enter directories and unlink files of any user
			"FOWNER",          // in directories with the sticky bit, and flags of others' files
			"LINUX_IMMUTABLE", // clear the flags immutable and append-only
			"CHOWN", "FSETID", // make lost+found root's again
		},
	}
	return context
}

// folder is the class's discovery directory at its own path, tickets is TicketFolder, devices
// is /dev.
const folder, tickets, devices = "class", "tickets", "dev"

func (o *Order) volumes() []corev1.Volume {
	class := hostPath(folder, o.HostDir)
	if o.Identity.Kind() == disk.Device {
		return []corev1.Volume{class, hostPath(devices, "/dev")}
	}
	return []corev1.Volume{class, hostPath(tickets, TicketFolder)}
}

func hostPath(name, at string) corev1.Volume {
	kind := corev1.HostPathDirectory
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: at, Type: &kind}}}
}

func (o *Order) mounts() []corev1.VolumeMount {
	// Mounts and unmounts of the host must propagate.
	class := corev1.VolumeMount{Name: folder, MountPath: o.HostDir, MountPropagation: new(corev1.MountPropagationHostToContainer)}
	if o.Identity.Kind() == disk.Device {
		class.ReadOnly = true // only the link to the device is read
		return []corev1.VolumeMount{class, {Name: devices, MountPath: "/dev"}}
	}
	return []corev1.VolumeMount{class, {Name: tickets, MountPath: TicketFolder, ReadOnly: true}}
}

// arguments returns those of stowage-provisioner. Each is one argument, whatever it contains.
func (o *Order) arguments() []string {
	args := []string{
		"clean",
		"--class=" + o.Key.Class,
		"--directory=" + o.HostDir,
		"--name=" + o.Key.Name,
		"--volume=" + o.Volume,
		"--volume-mode=" + string(o.Mode),
		"--identity=" + string(o.Identity),
		"--step=" + o.Step,
		"--ticket=" + path.Join(TicketFolder, Ticket(o.Identity, o.Attempt)),
		"--result=" + ResultFile,
	}
	if len(o.Command) > 0 {
		args = append(append(args, "--"), o.Command...)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$", "$$") // kubelet puts variables in for $(NAME)
	}
	return args
}

const (
	// TicketFolder is where the provisioner leaves the tickets that allow Jobs to start. It is
	// in /dev, which is in memory: after a restart of the node no Job that was requested before
	// starts.
	TicketFolder = "/dev/stowage"
	// ResultFile is where the Job's container writes its result, for kubelet to read.
	ResultFile = "/result"
)

// Name is the name of an attempt's Job. It fits into a label.
func Name(volumeUID, attempt string) string { return "clean-" + volumeUID + "-" + attempt }

// TicketPrefix is what the names of all tickets of a disk begin with.
func TicketPrefix(identity disk.Identity) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16]) + "-"
}

// Ticket is the name of the ticket in TicketFolder that an attempt's Job has to hold.
func Ticket(identity disk.Identity, attempt string) string { return TicketPrefix(identity) + attempt }
