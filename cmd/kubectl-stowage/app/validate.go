// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

const validateDescription = `validate checks configurations as the components do when they start: those of the provisioner, the
controller, the extender and the scheduler, each alone or in its ConfigMap. A file may have several YAML
documents. A folder is one of the provisioner, with a file for each key of its ConfigMap.`

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate (FILE | FOLDER) ...",
		Short: "Check the configurations of components",
		Long:  validateDescription,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var invalid []error
			for _, path := range args {
				found, err := validate(path)
				for _, v := range found {
					for _, warning := range v.warnings {
						fmt.Fprintf(cmd.OutOrStdout(), "%s: warning: %s\n", path, warning)
					}
					if len(v.faults) == 0 {
						fmt.Fprintf(cmd.OutOrStdout(), "%s: %s is valid\n", path, v.what)
						continue
					}
					invalid = append(invalid, fmt.Errorf("%s: %s is not valid:\n  %s", path, v.what, strings.Join(v.faults, "\n  ")))
				}
				if err != nil {
					invalid = append(invalid, err)
				}
			}
			return errors.Join(invalid...)
		},
	}
}

// verdict is about one configuration.
type verdict struct {
	what             string
	warnings, faults []string
}

// of adds the faults of an error.
func (v verdict) of(err error) verdict {
	v.faults = faults(err)
	return v
}

// faults returns the single faults of an error.
func faults(err error) (all []string) {
	if err == nil {
		return nil
	}
	if several, ok := errors.AsType[provisioner.Errors](err); ok {
		return strings.Split(several.Error(), "\n")
	}
	if several, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, err := range several.Errors() {
			all = append(all, faults(err)...)
		}
		return all
	}
	return []string{err.Error()}
}

// component decodes the configuration of a kind.
type component struct {
	apiVersion string
	decode     func(text []byte) error
}

// components are those whose configuration is an object, by its kind.
var components = map[string]component{
	"ControllerConfiguration": {controller.SchemeGroupVersion.String(), func(text []byte) error {
		_, err := controller.Decode(text)
		return err
	}},
	"ExtenderConfiguration": {extender.SchemeGroupVersion.String(), func(text []byte) error {
		_, err := extender.Decode(text)
		return err
	}},
	"KubeSchedulerConfiguration": {schedulerv1.SchemeGroupVersion.String(), func(text []byte) error {
		_, err := schedulerconfig.Decode(text)
		return err
	}},
}

// validate checks the configurations of a file or a folder. It returns an error if these cannot be read.
func validate(path string) ([]verdict, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read a configuration: %w", err)
	}
	if info.IsDir() {
		return []verdict{provisionerVerdict("the provisioner's folder", func() (*provisioner.ProvisionerConfiguration, error) { return provisioner.DecodeFolder(path) })}, nil
	}
	documents, err := splitDocuments(path)
	if err != nil {
		return nil, err
	}
	var found []verdict
	for _, document := range documents {
		verdicts, err := validateDocument(document)
		if err != nil {
			return found, fmt.Errorf("%s: %w", path, err)
		}
		found = append(found, verdicts...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: must have a configuration, and is empty", path)
	}
	return found, nil
}

func validateDocument(text []byte) ([]verdict, error) {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	if c, known := components[is.Kind]; known {
		return []verdict{c.validate(is, text)}, nil
	}
	if is.Kind != "ConfigMap" {
		return nil, fmt.Errorf("kind: must be one of ConfigMap, %s, and is %q", strings.Join(slices.Sorted(maps.Keys(components)), ", "), is.Kind)
	}
	configMap, err := readConfigMap(text)
	if err != nil {
		return nil, err
	}
	what := "ConfigMap " + configMap.Name
	var found []verdict
	for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
		var is metav1.TypeMeta
		if yaml.Unmarshal([]byte(configMap.Data[key]), &is) != nil {
			continue
		}
		if c, known := components[is.Kind]; known {
			v := c.validate(is, []byte(configMap.Data[key]))
			v.what = what + ", key " + key + ", " + v.what
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		found = append(found, provisionerVerdict(what+" of the provisioner", func() (*provisioner.ProvisionerConfiguration, error) { return provisioner.Decode(configMap.Data) }))
	}
	return found, nil
}

func (c component) validate(is metav1.TypeMeta, text []byte) verdict {
	v := verdict{what: is.Kind}
	if is.APIVersion != c.apiVersion {
		v.faults = []string{fmt.Sprintf("apiVersion: must be %s, and is %q", c.apiVersion, is.APIVersion)}
		return v
	}
	return v.of(c.decode(text))
}

func provisionerVerdict(what string, decode func() (*provisioner.ProvisionerConfiguration, error)) verdict {
	v := verdict{what: what}
	config, err := decode()
	if err != nil {
		return v.of(err)
	}
	classes := "classes"
	if len(config.Classes) == 1 {
		classes = "class"
	}
	v.what += fmt.Sprintf(", with %d %s,", len(config.Classes), classes)
	v.warnings = config.Warnings()
	return v
}

// readConfig reads the provisioner's configuration from a folder or from a ConfigMap's manifest.
func readConfig(path string) (*provisioner.ProvisionerConfiguration, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if info.IsDir() {
		return provisioner.DecodeFolder(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	configMap, err := readConfigMap(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return provisioner.Decode(configMap.Data)
}

func readConfigMap(text []byte) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, configMap); err != nil {
		return nil, fmt.Errorf("read the ConfigMap: %w", err)
	}
	if configMap.Kind != "ConfigMap" {
		return nil, fmt.Errorf("kind: must be ConfigMap, and is %q", configMap.Kind)
	}
	return configMap, nil
}
