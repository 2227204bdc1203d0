// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// Bounds, inclusive.
const (
	minBodyBytes = 64 << 10
	maxBodyBytes = 1 << 30

	minVerb, maxVerb = 100 * time.Millisecond, time.Minute
	minHold, maxHold = time.Second, time.Hour
)

var modes = sets.New(ModeFull, ModeAdvisory)

// validate returns nil or an aggregate of *field.Error, one for each fault: it names the
// field by its path and what is allowed. The configuration must be defaulted.
func validate(c *ExtenderConfiguration) error {
	var errs field.ErrorList
	if !modes.Has(c.Mode) {
		errs = append(errs, field.NotSupported(field.NewPath("mode"), c.Mode, sets.List(modes)))
	}
	errs = append(errs, validateNames(field.NewPath("schedulerNames"), c.SchedulerNames)...)
	errs = append(errs, validateServing(field.NewPath("serving"), &c.Serving)...)
	if c.Mode == ModeFull && !c.Serving.Insecure && len(c.Serving.ClientNames) == 0 {
		errs = append(errs, field.Required(field.NewPath("serving", "clientNames"),
			"in mode Full, in which callers can have pods bound; the common name of kube-scheduler's certificate, such as system:kube-scheduler"))
	}
	if *c.HealthAddress != "" {
		_, err := validateAddress(field.NewPath("healthAddress"), *c.HealthAddress)
		errs = append(errs, err...)
	}
	timeouts := field.NewPath("timeouts")
	errs = append(errs, validateDuration(timeouts.Child("verb"), c.Timeouts.Verb.Duration, minVerb, maxVerb)...)
	errs = append(errs, validateDuration(timeouts.Child("hold"), c.Timeouts.Hold.Duration, minHold, maxHold)...)
	connection := field.NewPath("clientConnection")
	if *c.ClientConnection.QPS <= 0 {
		errs = append(errs, field.Invalid(connection.Child("qps"), *c.ClientConnection.QPS, "must be greater than 0"))
	}
	if *c.ClientConnection.Burst <= 0 {
		errs = append(errs, field.Invalid(connection.Child("burst"), *c.ClientConnection.Burst, "must be greater than 0"))
	}
	errs = append(errs, validateElection(field.NewPath("leaderElection"), &c.LeaderElection)...)
	errs = append(errs, configv1.ValidateBinding(nil, c.BindingMode, &c.Scoring)...)
	return errs.ToAggregate()
}

func validateServing(path *field.Path, s *Serving) field.ErrorList {
	host, errs := validateAddress(path.Child("address"), s.Address)
	files := []struct{ name, value string }{{"certFile", s.CertFile}, {"keyFile", s.KeyFile}, {"clientCAFile", s.ClientCAFile}}
	for _, file := range files {
		switch {
		case s.Insecure && file.value != "":
			errs = append(errs, field.Forbidden(path.Child(file.name), "insecure serves plain HTTP"))
		case !s.Insecure && file.value == "":
			errs = append(errs, field.Required(path.Child(file.name), "only insecure: true, on a loopback address, does without"))
		}
	}
	if s.Insecure && len(errs) == 0 && !loopback(host) {
		errs = append(errs, field.Invalid(path.Child("address"), s.Address, "insecure needs a loopback address, such as 127.0.0.1:8443"))
	}
	if s.Insecure && len(s.ClientNames) > 0 {
		errs = append(errs, field.Forbidden(path.Child("clientNames"), "insecure asks for no certificate"))
	}
	errs = append(errs, validateNames(path.Child("clientNames"), s.ClientNames)...)
	if n := *s.MaxBodyBytes; n < minBodyBytes || n > maxBodyBytes {
		errs = append(errs, field.Invalid(path.Child("maxBodyBytes"), n, fmt.Sprintf("must be %d to %d", minBodyBytes, maxBodyBytes)))
	}
	return errs
}

func validateNames(path *field.Path, names []string) (errs field.ErrorList) {
	for i, name := range names {
		if name == "" {
			errs = append(errs, field.Required(path.Index(i), "a name"))
		}
	}
	return errs
}

func validateAddress(path *field.Path, address string) (host string, errs field.ErrorList) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return host, field.ErrorList{field.Invalid(path, address, "must be host:port; host may be left out: "+err.Error())}
	}
	return host, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func validateDuration(path *field.Path, value, lowest, highest time.Duration) field.ErrorList {
	if value < lowest || value > highest {
		return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("must be %s to %s", lowest, highest))}
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
