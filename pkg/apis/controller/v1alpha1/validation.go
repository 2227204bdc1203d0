// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds, inclusive.
const (
	minDelay, maxDelay       = time.Second, 8760 * time.Hour
	minReleases, maxReleases = 1, 10000
	maxCleans                = 10000
)

var (
	policies     = sets.New(NodeLossKeep, NodeLossRelease)
	outOfService = sets.New(OutOfServiceIgnore, OutOfServiceLost)
)

// validate returns nil or an aggregate of *field.Error, one for each fault: it names the
// field by its path and what is allowed. The configuration must be defaulted.
func validate(c *ControllerConfiguration) error {
	var errs field.ErrorList
	if *c.HealthAddress != "" {
		errs = append(errs, validateAddress(field.NewPath("healthAddress"), *c.HealthAddress)...)
	}
	errs = append(errs, validateNodeLoss(field.NewPath("nodeLoss"), &c.NodeLoss)...)
	if n := *c.OrphanCleans.PerHour; n < 0 || n > maxCleans {
		errs = append(errs, field.Invalid(field.NewPath("orphanCleans", "perHour"), n, fmt.Sprintf("must be 0 to %d", maxCleans)))
	}
	connection := field.NewPath("clientConnection")
	if *c.ClientConnection.QPS <= 0 {
		errs = append(errs, field.Invalid(connection.Child("qps"), *c.ClientConnection.QPS, "must be greater than 0"))
	}
	if *c.ClientConnection.Burst <= 0 {
		errs = append(errs, field.Invalid(connection.Child("burst"), *c.ClientConnection.Burst, "must be greater than 0"))
	}
	errs = append(errs, validateElection(field.NewPath("leaderElection"), &c.LeaderElection)...)
	return errs.ToAggregate()
}

func validateNodeLoss(path *field.Path, l *NodeLoss) field.ErrorList {
	var errs field.ErrorList
	if !policies.Has(l.Policy) {
		errs = append(errs, field.NotSupported(path.Child("policy"), l.Policy, sets.List(policies)))
	}
	if d := l.Delay.Duration; d < minDelay || d > maxDelay {
		errs = append(errs, field.Invalid(path.Child("delay"), d.String(), fmt.Sprintf("must be %s to %s", minDelay, maxDelay)))
	}
	if !outOfService.Has(l.OutOfService) {
		errs = append(errs, field.NotSupported(path.Child("outOfService"), l.OutOfService, sets.List(outOfService)))
	}
	if n := *l.ReleasesPerMinute; n < minReleases || n > maxReleases {
		errs = append(errs, field.Invalid(path.Child("releasesPerMinute"), n, fmt.Sprintf("must be %d to %d", minReleases, maxReleases)))
	}
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

func validateAddress(path *field.Path, address string) field.ErrorList {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, address, "must be host:port; host may be left out: "+err.Error())}
	}
	return nil
}

func validateElection(path *field.Path, e *LeaderElection) field.ErrorList {
	if !*e.LeaderElect {
		return nil
	}
	var errs field.ErrorList
	for name, value := range map[string]string{"resourceName": e.ResourceName, "resourceNamespace": e.ResourceNamespace} {
		for _, why := range validation.IsDNS1123Subdomain(value) {
			errs = append(errs, field.Invalid(path.Child(name), value, why))
		}
	}
	if e.RetryPeriod.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("retryPeriod"), e.RetryPeriod.Duration.String(), "must be greater than 0"))
	}
	if e.RenewDeadline.Duration*5 <= e.RetryPeriod.Duration*6 {
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), e.RenewDeadline.Duration.String(), "must be greater than 1.2 times retryPeriod"))
	}
	if e.LeaseDuration.Duration <= e.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), e.LeaseDuration.Duration.String(), "must be greater than renewDeadline"))
	}
	return errs
}
