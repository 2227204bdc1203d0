// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"stowage.dev/stowage/pkg/apis/component"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

// placement is the ConfigMap that the provisioners' policy of new volumes reads.
func placement(workloads []*workload) snapshot.Name {
	return snapshot.Name{Namespace: namespaceOf(workloads, provisionerPart), Name: "stowage-provisioner-nodes"}
}

// settings is the ConfigMap of the provisioners, unless their DaemonSet mounts another one.
func settings(workloads []*workload) snapshot.Name {
	return snapshot.Name{Namespace: namespaceOf(workloads, provisionerPart), Name: "stowage-provisioner"}
}

// configs are the configurations of the parts. Each is nil if it could not be read, or is not valid.
type configs struct {
	// provisioners are those of all DaemonSets, which may be several for nodes of different disks.
	provisioners []*provisioner.ProvisionerConfiguration
	controller   *controller.ControllerConfiguration
	extender     *extender.ExtenderConfiguration
	// lease is that of the scheduler's leader, and args those of the plugin in its first profile that has it.
	lease *snapshot.Name
	args  *configv1.VolumeTopologyArgs
	// errs are why one is not valid, by ConfigMap.
	errs map[snapshot.Name]error
}

// configName is the ConfigMap that a workload mounts as its configuration; false if there is none.
func (w *workload) configName() (snapshot.Name, bool) {
	for _, volume := range w.pod.Volumes {
		if volume.Name == "config" && volume.ConfigMap != nil {
			return snapshot.Name{Namespace: w.namespace, Name: volume.ConfigMap.Name}, true
		}
	}
	return snapshot.Name{}, false
}

// Configs returns the names of the ConfigMaps of the installation in a snapshot that has its workloads.
func Configs(s *snapshot.Snapshot) []snapshot.Name {
	workloads := find(s)
	names := []snapshot.Name{placement(workloads), settings(workloads)}
	for _, w := range workloads {
		if name, ok := w.configName(); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// readConfigs decodes the configuration of each workload. Of several of a part other than provisioners it keeps
// that of the first.
func (a *assessment) readConfigs() configs {
	c := configs{errs: map[snapshot.Name]error{}}
	for _, w := range slices.Backward(a.workloads) {
		name, ok := w.configName()
		if !ok {
			continue
		}
		if m := a.configMap(name); m != nil {
			c.errs[name] = c.decode(w.part, m)
		}
	}
	return c
}

// decode decodes the configuration of a part.
func (c *configs) decode(p *part, m *corev1.ConfigMap) (err error) {
	text := []byte(m.Data["config.yaml"])
	switch p.name {
	case provisionerPart:
		var decoded *provisioner.ProvisionerConfiguration
		if decoded, err = provisioner.Decode(m.Data); err == nil {
			c.provisioners = append(c.provisioners, decoded)
		}
	case controllerPart:
		c.controller, err = controller.Decode(text)
	case extenderPart:
		c.extender, err = extender.Decode(text)
	case schedulerPart:
		c.lease, c.args, err = decodeScheduler(text)
	}
	return err
}

func (a *assessment) configMap(name snapshot.Name) *corev1.ConfigMap {
	return snapshot.Find[*corev1.ConfigMap](a.s, name.Namespace, name.Name)
}

// decodeScheduler decodes and checks the configuration of a scheduler, as it does itself at start. lease is that of
// its leader; nil without leader election.
func decodeScheduler(text []byte) (lease *snapshot.Name, args *configv1.VolumeTopologyArgs, err error) {
	config, err := schedulerconfig.Decode(text)
	if err != nil {
		return nil, nil, err
	}
	for _, profile := range config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if decoded, ok := plugin.Args.(*configv1.VolumeTopologyArgs); ok && args == nil {
				args = decoded
			}
		}
	}
	if args == nil {
		return nil, nil, fmt.Errorf("profiles: none enables %s", configv1.PluginName)
	}
	if e := config.LeaderElection; e.LeaderElect {
		lease = &snapshot.Name{Namespace: e.ResourceNamespace, Name: e.ResourceName}
	}
	return lease, args, nil
}

// election returns the Lease of a workload's leader; nil if none is elected or the configuration is not known.
func (c *configs) election(w *workload) *snapshot.Name {
	of := func(e *component.LeaderElection) *snapshot.Name {
		if !*e.LeaderElect {
			return nil
		}
		return &snapshot.Name{Namespace: e.ResourceNamespace, Name: e.ResourceName}
	}
	switch {
	case w.part.name == controllerPart && c.controller != nil:
		return of(&c.controller.LeaderElection)
	case w.part.name == extenderPart && c.extender != nil:
		return of(&c.extender.LeaderElection)
	case w.part.name == schedulerPart:
		return c.lease
	}
	return nil
}

// configPages are where each part's configuration is described.
var configPages = map[string]string{
	schedulerPart:   guide.Page("configuration", "enabling-the-plugin"),
	extenderPart:    guide.Page("extender-configuration", "configuration-of-the-extender"),
	provisionerPart: guide.Page("provisioner-configuration", "keys-of-the-configmap"),
	controllerPart:  guide.Page("controller-configuration", "configuration-of-the-controller"),
}

// config checks the configuration of a workload. Static pods and the node service have none.
func (a *assessment) config(w *workload) {
	name, ok := w.configName()
	if !ok {
		return
	}
	m := a.configMap(name)
	title := fmt.Sprintf("ConfigMap %s/%s", name.Namespace, name.Name)
	if m == nil {
		if !snapshot.Complete[*corev1.ConfigMap](a.s) {
			a.add(w.part.name, checkConfig, "", unknown("configmaps"))
			return
		}
		a.add(w.part.name, checkConfig, "", problem(title+" does not exist, so no pod of it can start", w.part.apply(), guide.Page("install", "what-there-is")))
		return
	}
	edit, link := fmt.Sprintf("kubectl -n %s edit configmap %s", name.Namespace, name.Name), configPages[w.part.name]
	if err := a.configs.errs[name]; err != nil {
		a.add(w.part.name, checkConfig, "", problem(title+" is not valid: "+oneLine(err), edit, link))
		return
	}
	var found []*finding
	if w.part.name == provisionerPart {
		if decoded, err := provisioner.Decode(m.Data); err == nil {
			for _, text := range decoded.Warnings() {
				found = append(found, warning(title+", "+text, edit, link))
			}
		}
	}
	if c := a.configs.controller; w.part.name == controllerPart && c != nil && c.Namespace != namespaceOf(a.workloads, provisionerPart) {
		found = append(found, problem(fmt.Sprintf("%s has namespace %s, but the provisioners are in %s: the controller does not find them",
			title, c.Namespace, namespaceOf(a.workloads, provisionerPart)), edit, link))
	}
	a.add(w.part.name, checkConfig, title+" is valid", found...)
}

// oneLine is an error without line breaks. Of many errors it has the first.
func oneLine(err error) string {
	text := err.Error()
	if several, ok := errors.AsType[provisioner.Errors](err); ok && len(several) > 1 {
		first, _, _ := strings.Cut(text, "\n")
		text = first + ", and " + format.Count(len(several)-1, "other error")
	}
	return strings.Join(strings.Fields(text), " ")
}

// classes checks that the classes of the provisioners' configuration exist, and that their policy allows them.
func (a *assessment) classes() {
	if len(a.configs.provisioners) == 0 {
		return
	}
	link := guide.Page("provisioner", "what-becomes-a-volume")
	var names []string
	for _, c := range a.configs.provisioners {
		names = slices.AppendSeq(names, maps.Keys(c.Classes))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var found []*finding
	placement := placement(a.workloads)
	if m := a.configMap(placement); m != nil {
		allowed := strings.FieldsFunc(m.Data["classes"], func(r rune) bool { return r == ',' || r == ' ' })
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(allowed, name) })
		if len(missing) > 0 {
			found = append(found, problem(fmt.Sprintf("the admission policy does not allow volumes of %s: classes of ConfigMap %s/%s lacks it", format.List(missing, few), m.Namespace, m.Name),
				fmt.Sprintf("kubectl -n %s edit configmap %s", m.Namespace, m.Name), link))
		}
	} else if snapshot.Complete[*corev1.ConfigMap](a.s) {
		found = append(found, problem(fmt.Sprintf("ConfigMap %s/%s does not exist: no volume can be created", placement.Namespace, placement.Name), "apply manifests/provisioner, or with Helm run helm upgrade", link))
	}
	classes := snapshot.By[*storagev1.StorageClass](a.s)
	for _, name := range names {
		class := classes[snapshot.Name{Name: name}]
		switch {
		case class == nil && snapshot.Complete[*storagev1.StorageClass](a.s):
			found = append(found, problem("StorageClass "+name+" does not exist: its disks are not published", "create it as in manifests/provisioner/storageclass.yaml", guide.Link("StorageClassMissing", guide.Reasons)))
		case class != nil && ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingImmediate:
			found = append(found, warning("StorageClass "+name+" binds immediately: claims can get a volume where their pod cannot run", "recreate it with volumeBindingMode WaitForFirstConsumer", link))
		}
	}
	notReady := map[string][]string{}
	for node, report := range localdisks.Read(a.s).Nodes {
		for _, class := range report.Status.Classes {
			if !class.Ready && slices.Contains(names, class.Name) {
				notReady[class.Name+" is not ready: "+class.Reason] = append(notReady[class.Name+" is not ready: "+class.Reason], node)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(notReady)) {
		nodes := notReady[text]
		slices.Sort(nodes)
		found = append(found, problem("class "+text+" on "+format.List(nodes, few), "kubectl describe localdiskreport "+nodes[0], guide.Tombstones.Link()))
	}
	if !snapshot.Complete[*storagev1.StorageClass](a.s) {
		found = append(found, unknown("storageclasses"))
	}
	a.add(provisionerPart, checkClasses, format.List(names, few), found...)
}
