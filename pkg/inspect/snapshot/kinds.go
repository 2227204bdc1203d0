// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Object is a pointer to an API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is a kind of objects that a snapshot can hold.
type Kind struct {
	// Resource is how the API server serves it.
	Resource schema.GroupVersionResource
	// Kind is the name in manifests.
	Kind string
	// Namespaced: objects have a namespace.
	Namespaced bool

	pointer reflect.Type // *corev1.Pod
	list    reflect.Type // corev1.PodList
}

// scheme has all kinds.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(s))
	utilruntime.Must(stowage.AddToScheme(s))
	return s
}()

const (
	clusterScoped = false
	namespaced    = true
)

// The kinds, by what reads them.
var (
	// scheduling are what a scheduler's plugins read.
	scheduling = []Kind{
		kind[corev1.Pod, corev1.PodList](corev1.SchemeGroupVersion, "pods", namespaced),
		kind[corev1.Node, corev1.NodeList](corev1.SchemeGroupVersion, "nodes", clusterScoped),
		kind[corev1.Namespace, corev1.NamespaceList](corev1.SchemeGroupVersion, "namespaces", clusterScoped),
		kind[corev1.PersistentVolume, corev1.PersistentVolumeList](corev1.SchemeGroupVersion, "persistentvolumes", clusterScoped),
		kind[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](corev1.SchemeGroupVersion, "persistentvolumeclaims", namespaced),
		kind[corev1.Service, corev1.ServiceList](corev1.SchemeGroupVersion, "services", namespaced),
		kind[corev1.ReplicationController, corev1.ReplicationControllerList](corev1.SchemeGroupVersion, "replicationcontrollers", namespaced),
		kind[appsv1.ReplicaSet, appsv1.ReplicaSetList](appsv1.SchemeGroupVersion, "replicasets", namespaced),
		kind[appsv1.StatefulSet, appsv1.StatefulSetList](appsv1.SchemeGroupVersion, "statefulsets", namespaced),
		kind[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](policyv1.SchemeGroupVersion, "poddisruptionbudgets", namespaced),
		kind[storagev1.StorageClass, storagev1.StorageClassList](storagev1.SchemeGroupVersion, "storageclasses", clusterScoped),
		kind[storagev1.CSINode, storagev1.CSINodeList](storagev1.SchemeGroupVersion, "csinodes", clusterScoped),
		kind[storagev1.CSIDriver, storagev1.CSIDriverList](storagev1.SchemeGroupVersion, "csidrivers", clusterScoped),
		kind[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacityList](storagev1.SchemeGroupVersion, "csistoragecapacities", namespaced),
		kind[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList](storagev1.SchemeGroupVersion, "volumeattachments", clusterScoped),
		kind[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](schedulingv1.SchemeGroupVersion, "priorityclasses", clusterScoped),
		kind[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](resourcev1.SchemeGroupVersion, "resourceclaims", namespaced),
		kind[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](resourcev1.SchemeGroupVersion, "resourceslices", clusterScoped),
		kind[resourcev1.DeviceClass, resourcev1.DeviceClassList](resourcev1.SchemeGroupVersion, "deviceclasses", clusterScoped),
	}
	// own are the kinds of stowage.dev.
	own = []Kind{
		kind[stowage.LocalDiskReport, stowage.LocalDiskReportList](stowage.SchemeGroupVersion, "localdiskreports", clusterScoped),
		kind[stowage.LocalDisk, stowage.LocalDiskList](stowage.SchemeGroupVersion, "localdisks", clusterScoped),
		kind[stowage.LocalDiskTombstone, stowage.LocalDiskTombstoneList](stowage.SchemeGroupVersion, "localdisktombstones", clusterScoped),
		kind[stowage.PavProvisioner, stowage.PavProvisionerList](stowage.SchemeGroupVersion, "pavprovisioners", clusterScoped),
		kind[stowage.PavVolume, stowage.PavVolumeList](stowage.SchemeGroupVersion, "pavvolumes", clusterScoped),
		kind[stowage.PavStaging, stowage.PavStagingList](stowage.SchemeGroupVersion, "pavstagings", clusterScoped),
	}
	// installation are what an installation of Stowage consists of.
	installation = []Kind{
		kind[appsv1.Deployment, appsv1.DeploymentList](appsv1.SchemeGroupVersion, "deployments", namespaced),
		kind[appsv1.DaemonSet, appsv1.DaemonSetList](appsv1.SchemeGroupVersion, "daemonsets", namespaced),
		kind[batchv1.Job, batchv1.JobList](batchv1.SchemeGroupVersion, "jobs", namespaced),
		kind[corev1.ConfigMap, corev1.ConfigMapList](corev1.SchemeGroupVersion, "configmaps", namespaced),
		kind[corev1.ServiceAccount, corev1.ServiceAccountList](corev1.SchemeGroupVersion, "serviceaccounts", namespaced),
		kind[corev1.Event, corev1.EventList](corev1.SchemeGroupVersion, "events", namespaced),
		kind[coordinationv1.Lease, coordinationv1.LeaseList](coordinationv1.SchemeGroupVersion, "leases", namespaced),
		kind[rbacv1.ClusterRole, rbacv1.ClusterRoleList](rbacv1.SchemeGroupVersion, "clusterroles", clusterScoped),
		kind[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](rbacv1.SchemeGroupVersion, "clusterrolebindings", clusterScoped),
		kind[rbacv1.Role, rbacv1.RoleList](rbacv1.SchemeGroupVersion, "roles", namespaced),
		kind[rbacv1.RoleBinding, rbacv1.RoleBindingList](rbacv1.SchemeGroupVersion, "rolebindings", namespaced),
		kind[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList](admissionv1.SchemeGroupVersion, "validatingadmissionpolicies", clusterScoped),
		kind[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList](admissionv1.SchemeGroupVersion, "validatingadmissionpolicybindings", clusterScoped),
		kind[admissionv1.MutatingAdmissionPolicy, admissionv1.MutatingAdmissionPolicyList](admissionv1.SchemeGroupVersion, "mutatingadmissionpolicies", clusterScoped),
		kind[admissionv1.MutatingAdmissionPolicyBinding, admissionv1.MutatingAdmissionPolicyBindingList](admissionv1.SchemeGroupVersion, "mutatingadmissionpolicybindings", clusterScoped),
	}
)

var byResource, byPointer = func() (map[schema.GroupResource]Kind, map[reflect.Type]Kind) {
	resources, pointers := map[schema.GroupResource]Kind{}, map[reflect.Type]Kind{}
	for _, k := range Kinds() {
		resources[k.Resource.GroupResource()] = k
		pointers[k.pointer] = k
	}
	return resources, pointers
}()

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Concat(scheduling, own, installation) }

// Scheduling returns the kinds that the plugins of a scheduler read.
func Scheduling() []Kind { return slices.Clone(scheduling) }

// KindOf returns the kind of objects of a type, which must be one of a snapshot's.
func KindOf[T Object]() Kind { return byPointer[reflect.TypeFor[T]()] }

// New returns an empty object of the kind.
func (k Kind) New() runtime.Object { return reflect.New(k.pointer.Elem()).Interface().(runtime.Object) }

func kind[T, L any](version schema.GroupVersion, resource string, namespaced bool) Kind {
	t := reflect.TypeFor[T]()
	return Kind{
		Resource: version.WithResource(resource), Kind: t.Name(), Namespaced: namespaced,
		pointer: reflect.PointerTo(t), list: reflect.TypeFor[L](),
	}
}
