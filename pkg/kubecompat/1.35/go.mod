// One minor of Kubernetes for hack/update-gomod.sh. All other requirements are those of the
// go.mod at the top of the repository, which replaces this module by its folder.
module stowage.dev/kubecompat

go 1.26.0

require k8s.io/kubernetes v1.35.4
