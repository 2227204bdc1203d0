// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// example is a report in which every field has a value.
func example() *LocalDiskReport {
	then := metav1.Unix(1760000000, 0)
	return &LocalDiskReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: "stowage.dev/v1alpha1", Kind: "LocalDiskReport"},
		ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Spec: LocalDiskReportSpec{NodeName: "node1", Page: 1, Tombstones: []Tombstone{{
			Identity: "wwn:5000c500a1b2c3d6", Class: "fast", Name: "disk3", Volume: "local-pv-3", VolumeUID: "uid",
			Generation: 1, State: TombstoneRetained, Since: &then, Released: &then,
		}}},
		Status: LocalDiskReportStatus{
			LastTransitionTime: &then,
			Summary:            &Summary{Volumes: 1, Capacity: resource.MustParse("2Gi"), Free: resource.MustParse("1Gi"), Bound: 2, Cleaning: 3, Skipped: 4, Failing: 6, Trouble: 5},
			Conditions: []metav1.Condition{{
				Type: ConditionConfigValid, Status: metav1.ConditionFalse, Reason: "UnknownKey",
				Message: "storageClassMap.fast has no key hostdir", LastTransitionTime: then, ObservedGeneration: 1,
			}},
			Classes: []ClassStatus{{
				Name: "fast", HostDir: "/mnt/fast", Ready: true, Reason: "Unreadable", Message: "no such directory", Since: &then,
			}},
			Entries: []Entry{{
				Class: "fast", Name: "disk1", Path: "/mnt/fast/disk1",
				State: EntryCleaning, Reason: "CleanFailed", Message: "will be retried", Since: &then,
				Kind: "Device", Mode: "Block", Bytes: 1 << 40, Identity: "wwn:5000c500a1b2c3d4",
				Volume: "local-pv-1", Generation: 1, Link: LinkWithheld, Filesystem: "ext4:0f0e0d0c-0b0a-4908-8706-050403020100",
				BlankProof:      &BlankProof{StartTime: &then, DoneBytes: 1, TotalBytes: 2, Attempts: 3, LastError: "read error"},
				Acknowledgement: "wwn:5000c500a1b2c3d4/uid",
				Cleaning: &Cleaning{
					Method: "zero", StartTime: &then, DoneBytes: 1, TotalBytes: 1 << 40, Attempts: 2, LastError: "input/output error",
					Request: &CleaningRequest{Attempt: "0123456789abcdef", VolumeUID: "uid", Identity: "wwn:5000c500a1b2c3d4", Step: "zero 1:0/1099511627776"},
				},
			}},
			Truncated: 1,
			Tombstones: []Tombstone{{
				Identity: "wwn:5000c500a1b2c3d5", Class: "fast", Name: "disk2", Volume: "local-pv-2", VolumeUID: "uid",
				Generation: 1, State: TombstonePublished, Since: &then, Released: &then,
			}},
			Jobs: []CleaningJob{{
				Path: "/mnt/fast/disk1", Attempt: "0123456789abcdef", State: CleaningJobRunning, Job: "clean-uid-0123456789abcdef",
				Reason: "ImagePullBackOff", Message: "no such image", Step: "zero 1:0/1099511627776", Since: &then,
			}},
		},
	}
}

// unset are the paths of the fields without a value.
func unset(report *LocalDiskReport) []string {
	return append(zeros("spec", reflect.ValueOf(report.Spec)), zeros("status", reflect.ValueOf(report.Status))...)
}

func zeros(path string, value reflect.Value) []string {
	if value.IsZero() {
		return []string{path}
	}
	switch value.Kind() {
	case reflect.Pointer:
		return zeros(path, value.Elem())
	case reflect.Slice:
		return zeros(path+"[0]", value.Index(0))
	case reflect.Struct:
		if value.Type() == reflect.TypeFor[metav1.Time]() || value.Type() == reflect.TypeFor[resource.Quantity]() {
			return nil
		}
		var found []string
		for structField, held := range value.Fields() {
			found = append(found, zeros(path+"."+structField.Name, held)...)
		}
		return found
	default:
		return nil
	}
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	text, err := runtime.Encode(codecs.LegacyCodec(SchemeGroupVersion), example())
	if err != nil {
		t.Fatal(err)
	}
	got, err := runtime.Decode(codecs.UniversalDeserializer(), text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runtime.Object(example()), got); diff != "" {
		t.Error(diff)
	}
	if got := Resource("localdiskreports").String(); got != "localdiskreports.stowage.dev" {
		t.Errorf("the resource is %s", got)
	}
}

func TestCopySharesNothing(t *testing.T) {
	t.Parallel()
	report := example()
	duplicate := report.DeepCopy()
	duplicate.Status.Entries[0].Cleaning.Attempts++
	duplicate.Status.Entries[0].Cleaning.Request.Step = "other"
	duplicate.Status.Jobs[0].State = CleaningJobFailed
	duplicate.Status.Tombstones[0].Name = "other"
	duplicate.Spec.Tombstones[0].Name = "other"
	duplicate.Status.Summary.Volumes++
	if diff := cmp.Diff(example(), report); diff != "" {
		t.Errorf("changing the copy changed the original: %s", diff)
	}
}
