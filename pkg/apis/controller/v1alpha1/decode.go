// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/component"
)

// Decode turns the content of a configuration file into a defaulted and valid configuration;
// see component.Decode.
func Decode(data []byte) (*ControllerConfiguration, error) {
	return component.Decode[ControllerConfiguration](data, SchemeGroupVersion)
}

// Default returns the configuration that is used without a file.
func Default() (*ControllerConfiguration, error) {
	c := &ControllerConfiguration{}
	c.SetDefaults()
	return c, nil
}

// SetDefaults fills every field that the user left out with the default that
// docs/controller-configuration.md has; afterwards no pointer is nil.
func (c *ControllerConfiguration) SetDefaults() {
	component.Default(&c.HealthAddress, new(":8080"))
	component.Default(&c.Namespace, "stowage-system")
	component.Default(&c.NodeLoss.Policy, NodeLossKeep)
	component.Default(&c.NodeLoss.Delay.Duration, 5*time.Minute)
	component.Default(&c.NodeLoss.OutOfService, OutOfServiceIgnore)
	component.Default(&c.NodeLoss.ReleasesPerMinute, new(int32(10)))
	component.Default(&c.OrphanCleans.PerHour, new(int32(10)))
	component.Default(&c.PavVolumes.Namespace, "stowage-pav")
	c.ClientConnection.SetDefaults(50, 100)
	c.LeaderElection.SetDefaults(true, c.Namespace, "stowage-controller")
}

// Bounds, inclusive.
const (
	minDelay, maxDelay       = time.Second, 8760 * time.Hour
	minReleases, maxReleases = 1, 10000
	maxCleans                = 10000
	maxAnnotations           = 16
)

var (
	policies     = sets.New(NodeLossKeep, NodeLossRelease)
	outOfService = sets.New(OutOfServiceIgnore, OutOfServiceLost)
)

// Validate returns the faults of a defaulted configuration.
func (c *ControllerConfiguration) Validate() (errs field.ErrorList) {
	if *c.HealthAddress != "" {
		_, errs = component.ValidateAddress(field.NewPath("healthAddress"), *c.HealthAddress)
	}
	errs = append(errs, validateNamespace(field.NewPath("namespace"), c.Namespace)...)
	errs = append(errs, validateNodeLoss(field.NewPath("nodeLoss"), &c.NodeLoss)...)
	errs = append(errs, component.ValidateRange(field.NewPath("orphanCleans", "perHour"), *c.OrphanCleans.PerHour, 0, maxCleans)...)
	if c.PavVolumes.Enabled && c.PavVolumes.ReporterImage == "" {
		errs = append(errs, field.Required(field.NewPath("pavVolumes", "reporterImage"), "is the image of a container of each helper pod"))
	}
	errs = append(errs, validateNamespace(field.NewPath("pavVolumes", "namespace"), c.PavVolumes.Namespace)...)
	errs = append(errs, validateAnnotations(field.NewPath("claimBinder", "bindNow", "annotations"), c.ClaimBinder.BindNow.Annotations)...)
	errs = append(errs, c.ClientConnection.Validate(field.NewPath("clientConnection"))...)
	return append(errs, c.LeaderElection.Validate(field.NewPath("leaderElection"))...)
}

func validateNamespace(path *field.Path, name string) (errs field.ErrorList) {
	for _, why := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, why))
	}
	return errs
}

func validateAnnotations(path *field.Path, annotations []BindAnnotation) (errs field.ErrorList) {
	if len(annotations) > maxAnnotations {
		errs = append(errs, field.TooMany(path, len(annotations), maxAnnotations))
	}
	seen := sets.New[BindAnnotation]()
	for i, annotation := range annotations {
		for _, problem := range validation.IsQualifiedName(annotation.Key) {
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), annotation.Key, problem))
		}
		if seen.Has(annotation) {
			errs = append(errs, field.Duplicate(path.Index(i), annotation.Key))
		}
		seen.Insert(annotation)
	}
	return errs
}

func validateNodeLoss(path *field.Path, l *NodeLoss) field.ErrorList {
	errs := component.ValidateOneOf(path.Child("policy"), l.Policy, policies)
	errs = append(errs, component.ValidateRange(path.Child("delay"), l.Delay.Duration, minDelay, maxDelay)...)
	errs = append(errs, component.ValidateOneOf(path.Child("outOfService"), l.OutOfService, outOfService)...)
	errs = append(errs, component.ValidateRange(path.Child("releasesPerMinute"), *l.ReleasesPerMinute, minReleases, maxReleases)...)
	seen := sets.New[string]()
	for i, owner := range l.RecreatingOwners {
		at := path.Child("recreatingOwners").Index(i)
		if seen.Has(owner) {
			errs = append(errs, field.Duplicate(at, owner))
		} else {
			errs = append(errs, validateOwner(at, owner)...)
		}
		seen.Insert(owner)
	}
	return errs
}

var kindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// validateOwner accepts kinds of custom resources. Of the built-in kinds only StatefulSets and
// pods recreate claims; separate rules apply to them.
func validateOwner(path *field.Path, owner string) field.ErrorList {
	kind := schema.ParseGroupKind(owner)
	if kindName.MatchString(kind.Kind) && strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io") &&
		len(validation.IsDNS1123Subdomain(kind.Group)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, owner, "must be Kind.group of a custom resource, such as Cluster.postgresql.cnpg.io; claims of StatefulSets and generic ephemeral ones are released without being listed")}
}
