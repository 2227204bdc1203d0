// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/component"
	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// Decode turns the content of a configuration file into a defaulted and valid configuration;
// see component.Decode.
func Decode(data []byte) (*ExtenderConfiguration, error) {
	return component.Decode[ExtenderConfiguration](data, SchemeGroupVersion)
}

// SetDefaults fills every field that the user left out with the default that
// docs/extender-configuration.md has; afterwards no pointer is nil.
func (c *ExtenderConfiguration) SetDefaults() {
	component.Default(&c.Mode, ModeFull)
	advisory := c.Mode == ModeAdvisory
	component.Default(&c.Serving.Address, ":8443")
	component.Default(&c.Serving.MaxBodyBytes, new(int64(8<<20)))
	component.Default(&c.HealthAddress, new(":8080"))
	component.Default(&c.Timeouts.Verb.Duration, 8*time.Second)
	hold := 10 * time.Minute
	if advisory {
		hold = 30 * time.Second
	}
	component.Default(&c.Timeouts.Hold.Duration, hold)
	args := configv1.VolumeTopologyArgs{BindingMode: c.BindingMode, Scoring: c.Scoring}
	configv1.SetDefaults_VolumeTopologyArgs(&args)
	c.BindingMode, c.Scoring = args.BindingMode, args.Scoring
	c.ClientConnection.SetDefaults(1000, 2000)
	c.LeaderElection.SetDefaults(!advisory, "kube-system", "stowage-extender")
}

// Bounds, inclusive.
const (
	minBodyBytes = 64 << 10
	maxBodyBytes = 1 << 30

	minVerb, maxVerb = 100 * time.Millisecond, time.Minute
	minHold, maxHold = time.Second, time.Hour
)

var modes = sets.New(ModeFull, ModeAdvisory)

// Validate returns the faults of a defaulted configuration.
func (c *ExtenderConfiguration) Validate() field.ErrorList {
	errs := component.ValidateOneOf(field.NewPath("mode"), c.Mode, modes)
	errs = append(errs, validateNames(field.NewPath("schedulerNames"), c.SchedulerNames)...)
	errs = append(errs, validateServing(field.NewPath("serving"), &c.Serving)...)
	if c.Mode == ModeFull && !c.Serving.Insecure && len(c.Serving.ClientNames) == 0 {
		errs = append(errs, field.Required(field.NewPath("serving", "clientNames"),
			"in mode Full, in which callers can have pods bound; the common name of kube-scheduler's certificate, such as system:kube-scheduler"))
	}
	if *c.HealthAddress != "" {
		_, err := component.ValidateAddress(field.NewPath("healthAddress"), *c.HealthAddress)
		errs = append(errs, err...)
	}
	timeouts := field.NewPath("timeouts")
	errs = append(errs, component.ValidateRange(timeouts.Child("verb"), c.Timeouts.Verb.Duration, minVerb, maxVerb)...)
	errs = append(errs, component.ValidateRange(timeouts.Child("hold"), c.Timeouts.Hold.Duration, minHold, maxHold)...)
	errs = append(errs, c.ClientConnection.Validate(field.NewPath("clientConnection"))...)
	errs = append(errs, c.LeaderElection.Validate(field.NewPath("leaderElection"))...)
	return append(errs, configv1.ValidateBinding(nil, c.BindingMode, &c.Scoring)...)
}

func validateServing(path *field.Path, s *Serving) field.ErrorList {
	host, errs := component.ValidateAddress(path.Child("address"), s.Address)
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
		errs = append(errs, field.Forbidden(path.Child("clientNames"), "insecure requires no certificate"))
	}
	errs = append(errs, validateNames(path.Child("clientNames"), s.ClientNames)...)
	return append(errs, component.ValidateRange(path.Child("maxBodyBytes"), *s.MaxBodyBytes, minBodyBytes, maxBodyBytes)...)
}

func validateNames(path *field.Path, names []string) (errs field.ErrorList) {
	for i, name := range names {
		if name == "" {
			errs = append(errs, field.Required(path.Index(i), "a name"))
		}
	}
	return errs
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
