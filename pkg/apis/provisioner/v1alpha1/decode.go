// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// Errors are the errors of a configuration, sorted by field, up to maxErrors; at least one.
//
// +k8s:deepcopy-gen=false
type Errors field.ErrorList

// Limits of what users can read. A configuration with very many errors, or of another format,
// must not exhaust memory.
const maxErrors, maxErrorBytes = 100, 2000

// Error has one line for each error, which begins with the field.
func (e Errors) Error() string {
	var lines []string
	for _, err := range e {
		line := err.Error()
		if len(line) > maxErrorBytes {
			line = strings.ToValidUTF8(line[:maxErrorBytes], "") + "..."
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Decode reads the data of a ConfigMap. It returns either a valid configuration with all
// defaults, which the caller owns, or Errors. data is not changed. Safe for concurrent use.
func Decode(data map[string]string) (*ProvisionerConfiguration, error) {
	var d decoding
	values := map[string]any{}
	for key, text := range data {
		value, err := readYAML(text)
		if err != nil {
			d.errs = append(d.errs, field.TypeInvalid(field.NewPath(key), field.OmitValueType{}, err.Error()))
		} else {
			values[key] = value
		}
	}
	convert(values)
	valid, _ := d.prune(nil, values, func(v any) any { return v })
	config := &ProvisionerConfiguration{}
	if err := decodeStrictly(valid, config); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	setDefaults(config)
	unread := d.errs
	for _, err := range validate(config) { // what could not be read is not reported as missing too
		if !slices.ContainsFunc(unread, func(e *field.Error) bool {
			return within(err.Field, e.Field) || strings.HasPrefix(e.Field, err.Field+"[") || strings.HasPrefix(e.Field, err.Field+".")
		}) {
			d.errs = append(d.errs, err)
		}
	}
	if len(d.errs) == 0 {
		return config, nil
	}
	slices.SortStableFunc(d.errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	if len(d.errs) > maxErrors {
		d.errs = append(d.errs[:maxErrors], field.TooMany(field.NewPath("data"), len(d.errs), maxErrors))
	}
	return nil, Errors(d.errs)
}

// within reports whether a field is another one or within it.
func within(name, outer string) bool {
	rest, found := strings.CutPrefix(name, outer)
	return found && (rest == "" || rest[0] == '[' || rest[0] == '.')
}

// readYAML reads one YAML document. Repeated keys are errors.
func readYAML(text string) (value any, err error) {
	documents := goyaml.NewDecoder(strings.NewReader(text))
	var ignored any
	if documents.Decode(&ignored) == nil && !errors.Is(documents.Decode(&ignored), io.EOF) {
		return nil, errors.New("must be one YAML document: remove the separators (--- and ...)")
	}
	if err := utilyaml.UnmarshalStrict([]byte(text), &value); err != nil {
		message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		return nil, fmt.Errorf("not valid YAML: %s", strings.Join(strings.Fields(strings.TrimPrefix(message, "yaml: ")), " "))
	}
	return value, nil
}

// isEmpty reports whether a value counts as absent.
func isEmpty(value any) bool { return value == nil || value == "" }

// convert changes what the reference accepts, and the kind does not: empty values, which are
// removed, and numbers in commands and as cleanTimeout, which become strings.
func convert(values map[string]any) {
	absent := func(of any) func(string, any) bool {
		keys := keysOf(of)
		return func(key string, value any) bool { return isEmpty(value) && slices.Contains(keys, key) }
	}
	maps.DeleteFunc(values, absent(ProvisionerConfiguration{}))
	absentInClass, absentInToleration := absent(Class{}), absent(corev1.Toleration{})
	classes, _ := values["storageClassMap"].(map[string]any)
	for name, value := range classes {
		class, isMap := value.(map[string]any)
		if isEmpty(value) {
			classes[name] = map[string]any{}
		}
		maps.DeleteFunc(class, absentInClass)
		if timeout, ok := class["cleanTimeout"].(int64); isMap && ok && timeout == 0 {
			class["cleanTimeout"] = "0s"
		}
		for _, key := range []string{"blockCleanerCommand", "fsCleanerCommand"} {
			command, _ := class[key].([]any)
			for i, word := range command {
				if number, ok := word.(int64); ok {
					command[i] = strconv.FormatInt(number, 10)
				}
			}
		}
	}
	tolerations, _ := values["jobTolerations"].([]any)
	for _, value := range tolerations {
		if toleration, ok := value.(map[string]any); ok {
			maps.DeleteFunc(toleration, absentInToleration)
		}
	}
}

// decoder reads JSON strictly: unknown fields are errors.
var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))
	return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{Strict: true})
})

// decodeStrictly decodes values, which may lack apiVersion and kind.
func decodeStrictly(values any, into *ProvisionerConfiguration) error {
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	kind := SchemeGroupVersion.WithKind("ProvisionerConfiguration")
	_, _, err = decoder().Decode(data, &kind, into)
	return err
}

// decoding collects the errors of a configuration.
type decoding struct{ errs field.ErrorList }

// prune returns a value without those parts that cannot be decoded, and reports each: the decoder
// stops at the first one, and does not return its path. document returns the configuration that
// has nothing but the value.
func (d *decoding) prune(at *field.Path, value any, document func(any) any) (any, bool) {
	hollow := value
	switch value.(type) {
	case map[string]any:
		hollow = map[string]any{}
	case []any:
		hollow = []any{}
	}
	if err := decodeStrictly(document(hollow), &ProvisionerConfiguration{}); err != nil {
		d.errs = append(d.errs, explain(at, hollow, err))
		return nil, false
	}
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, child := range value {
			if child, ok := d.prune(childOf(at, key), child, func(v any) any { return document(map[string]any{key: v}) }); ok {
				kept[key] = child
			}
		}
		return kept, true
	case []any:
		kept := []any{}
		for i, item := range value {
			item, _ := d.prune(at.Index(i), item, func(v any) any { return document([]any{v}) })
			kept = append(kept, item) // nil for one that cannot be decoded: the others keep their index
		}
		return kept, true
	}
	return value, true
}

// childOf returns the path of a field. Names that users chose are in brackets.
func childOf(at *field.Path, key string) *field.Path {
	switch {
	case at == nil:
		return field.NewPath(key)
	case at.String() == "storageClassMap", at.String() == "labelsForPV", strings.HasSuffix(at.String(), "].devices.nodeSelector"):
		return at.Key(key)
	default:
		return at.Child(key)
	}
}

const (
	wantsUnit  = "must be a time with its unit, such as 90s, 5m or 36h"
	wantsBytes = "must be a number of bytes, such as 200Mi"
)

// formats are the fields that have a format, and kinds what the others must be.
var (
	formats = map[string]string{
		"minResyncPeriod": wantsUnit, "orphanGracePeriod": wantsUnit, "probeTimeout": wantsUnit, "cleanTimeout": wantsUnit,
		"blankProofRate": wantsBytes, "minSize": wantsBytes, "maxSize": wantsBytes,
	}
	kinds = map[reflect.Kind]string{
		reflect.Bool: "must be true or false", reflect.Int32: "must be a whole number", reflect.Int64: "must be a whole number",
		reflect.String: "must be a string: put it in quotes", reflect.Slice: "must be a list, each item on a line of its own after a dash",
		reflect.Map: "must be a map", reflect.Struct: "must be a map",
	}
)

// explain returns the error of a field that cannot be decoded.
func explain(at *field.Path, value any, err error) *field.Error {
	name := at.String()[strings.LastIndexByte(at.String(), '.')+1:]
	if reflect.ValueOf(value).Kind() == reflect.Map || reflect.ValueOf(value).Kind() == reflect.Slice {
		value = field.OmitValueType{}
	}
	mismatch, _ := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case runtime.IsStrictDecodingError(err):
		return field.Forbidden(at, unknown(at, name))
	case formats[name] != "":
		return field.TypeInvalid(at, value, formats[name])
	case mismatch != nil && kinds[mismatch.Type.Kind()] != "":
		return field.TypeInvalid(at, value, kinds[mismatch.Type.Kind()])
	default:
		return field.TypeInvalid(at, value, err.Error())
	}
}

// unknown returns the message about an unknown key.
func unknown(at *field.Path, key string) string {
	var of any = ProvisionerConfiguration{}
	switch {
	case strings.Contains(at.String(), "].devices.include["), strings.Contains(at.String(), "].devices.exclude["):
		of = DeviceRule{}
	case strings.Contains(at.String(), "].devices."):
		of = Devices{}
	case within(at.String(), "storageClassMap"):
		of = Class{}
	case within(at.String(), "diskHealth"):
		of = DiskHealth{}
	case within(at.String(), "jobTolerations"):
		of = corev1.Toleration{}
	}
	allowed := keysOf(of)
	for _, name := range allowed {
		if strings.EqualFold(name, key) {
			return "unknown key: write " + name
		}
	}
	return "unknown key: allowed are " + strings.Join(allowed, ", ")
}

// keysOf returns the names of a struct's fields in JSON.
func keysOf(of any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && len(f.Index) == 1 {
			names = append(names, name)
		}
	}
	return names
}
