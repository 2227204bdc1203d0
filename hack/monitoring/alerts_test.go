// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// at is when alerts are asked: the series begin two hours before, a sample a minute.
var at = time.Unix(0, 0).Add(2 * time.Hour)

// firing has series at which each alert fires, and others at which it does not.
var firing = map[string]struct{ fires, quiet string }{
	"StowageSchedulerDown": {
		fires: `up{job="stowage-scheduler",instance="a"} 0x120`,
		quiet: "up{job=\"stowage-scheduler\",instance=\"a\"} 0x120\n up{job=\"stowage-scheduler\",instance=\"b\"} 1x120",
	},
	"StowageSchedulerDirectBindingDisabled": {
		fires: `stowage_scheduler_direct_binding_disabled{job="stowage-scheduler"} 1x120`,
		quiet: `stowage_scheduler_direct_binding_disabled{job="stowage-scheduler"} 0x120`,
	},
	"StowageBindingFailing": {
		fires: "stowage_scheduler_bind_duration_seconds_count{job=\"stowage-scheduler\",outcome=\"success\"} 0+90x120\n" +
			" stowage_scheduler_bind_duration_seconds_count{job=\"stowage-scheduler\",outcome=\"timeout\"} 0+10x120",
		quiet: "stowage_scheduler_bind_duration_seconds_count{job=\"stowage-scheduler\",outcome=\"success\"} 0+99x120\n" +
			" stowage_scheduler_bind_duration_seconds_count{job=\"stowage-scheduler\",outcome=\"timeout\"} 0+1x120",
	},
	"StowageBindingSlow": {
		fires: buckets(`stowage_scheduler_bind_stage_duration_seconds_bucket{job="stowage-scheduler",stage="bind_claims",`, "90"),
		quiet: buckets(`stowage_scheduler_bind_stage_duration_seconds_bucket{job="stowage-scheduler",stage="bind_claims",`, "100") + "\n " +
			buckets(`stowage_scheduler_bind_stage_duration_seconds_bucket{job="stowage-scheduler",stage="await_volumes",`, "0"), // provisioners take their time
	},
	"StowageBindConflictsLost": {
		fires: `stowage_scheduler_bind_conflicts_total{job="stowage-scheduler",outcome="lost"} 0+60x120`,
		quiet: `stowage_scheduler_bind_conflicts_total{job="stowage-scheduler",outcome="retried"} 0+60x120`,
	},
	"StowageProvisionerDown": {
		fires: `up{job="stowage-provisioner",node="n",instance="a"} 0x120`,
		quiet: "up{job=\"stowage-provisioner\",node=\"n\",instance=\"old\"} 0x120\n up{job=\"stowage-provisioner\",node=\"n\",instance=\"new\"} 1x120",
	},
	"StowageClassLowOnVolumes": {
		fires: "stowage_provisioner_volumes{node=\"n\",class=\"c\",state=\"Bound\"} 3x120\n stowage_provisioner_volumes{node=\"m\",class=\"c\",state=\"Cleaning\"} 1x120",
		quiet: "stowage_provisioner_volumes{node=\"n\",class=\"c\",state=\"Bound\"} 9x120\n stowage_provisioner_volumes{node=\"m\",class=\"c\",state=\"Available\"} 1x120\n" +
			" stowage_provisioner_volumes{node=\"m\",class=\"d\",state=\"Retained\"} 1x120",
	},
	"StowagePodWaiting": {
		fires: waiting("c", "1"),
		quiet: waiting("c", "0") + "\n " + strings.ReplaceAll(waiting("another", "1"), "\"c\",state", "\"d\",state"),
	},
	"StowageProvisionersSilent": {
		fires: "stowage_controller_silent_provisioners{pod=\"a\"} 0x120\n stowage_controller_silent_provisioners{pod=\"b\"} 7x120",
		quiet: "stowage_controller_silent_provisioners{pod=\"a\"} 0x120\n stowage_controller_silent_provisioners{pod=\"b\"} 0x120",
	},
	"StowageProvisionerScanStalled": {
		fires: `stowage_provisioner_last_scan_timestamp_seconds{node="n"} 600x120`,
		quiet: "stowage_provisioner_last_scan_timestamp_seconds{node=\"n\"} 0+60x120\n stowage_provisioner_last_scan_timestamp_seconds{node=\"new\"} 0x120",
	},
	"StowageProvisionerConfigRejected": {
		fires: `stowage_provisioner_config_reloads_total{node="n",result="error"} 0x100 1x20`,
		quiet: "stowage_provisioner_config_reloads_total{node=\"n\",result=\"error\"} 5x120\n stowage_provisioner_config_reloads_total{node=\"n\",result=\"success\"} 0+1x120",
	},
	"StowageDisksUnlisted": {
		fires: `stowage_provisioner_unlisted_disks{node="n"} 1x120`,
		quiet: `stowage_provisioner_unlisted_disks{node="n"} 0x120`,
	},
	"StowageDiskUnreachable": {
		fires: `stowage_provisioner_volumes{node="n",class="c",state="Missing"} 1x120`,
		quiet: "stowage_provisioner_volumes{node=\"n\",class=\"c\",state=\"Missing\"} 0x120\n stowage_provisioner_volumes{node=\"n\",class=\"c\",state=\"Bound\"} 1x120",
	},
	"StowageDiskFailing": {
		fires: `stowage_provisioner_volumes{node="n",class="c",state="Failing"} 1x120`,
		quiet: "stowage_provisioner_volumes{node=\"n\",class=\"c\",state=\"Failing\"} 0x120\n stowage_provisioner_volumes{node=\"n\",class=\"c\",state=\"Missing\"} 1x120",
	},
	"StowageDiskDegraded": {
		fires: `stowage_provisioner_disk_health{node="n",state="Degraded"} 1x120`,
		quiet: "stowage_provisioner_disk_health{node=\"n\",state=\"Degraded\"} 0x120\n stowage_provisioner_disk_health{node=\"n\",state=\"Failing\"} 1x120",
	},
	"StowageDiskUnreadable": {
		fires: `stowage_provisioner_skipped{node="n",class="c",reason="TimedOut"} 1x120`,
		quiet: `stowage_provisioner_skipped{node="n",class="c",reason="InUse"} 1x120`,
	},
	"StowageCleaningFailing": {
		fires: `local_volume_provisioner_proctable_failed{job="stowage-provisioner",node="n"} 2x120`,
		quiet: "local_volume_provisioner_proctable_failed{job=\"stowage-provisioner\",node=\"n\"} 0x120\n local_volume_provisioner_proctable_failed{job=\"another\",node=\"n\"} 2x120",
	},
	"StowageDiskKept": {
		fires: `stowage_provisioner_skipped{node="n",class="fast",reason="VolumeVanished"} 1x120`,
		quiet: "stowage_provisioner_skipped{node=\"n\",class=\"fast\",reason=\"VolumeVanished\"} 0x120\n stowage_provisioner_skipped{node=\"n\",class=\"fast\",reason=\"RetainedDirty\"} 1x120",
	},
	"StowageCleaningWaits": {
		fires: "stowage_provisioner_clean_queue{node=\"n\"} 1x120\n stowage_provisioner_clean_in_progress{node=\"n\"} 0x120",
		quiet: "stowage_provisioner_clean_queue{node=\"n\"} 1x120\n stowage_provisioner_clean_in_progress{node=\"n\"} 2x120",
	},
	"StowageExtenderDown": {
		fires: `up{job="stowage-extender",instance="a"} 0x120`,
		quiet: `up{job="stowage-extender",instance="a"} 1x120`,
	},
	"StowageExtenderErrors": {
		fires: "stowage_extender_request_duration_seconds_count{verb=\"filter\",outcome=\"ok\"} 0+90x120\n" +
			" stowage_extender_request_duration_seconds_count{verb=\"filter\",outcome=\"ended\"} 0+10x120",
		quiet: `stowage_extender_request_duration_seconds_count{verb="filter",outcome="ok"} 0+90x120`,
	},
	"StowageExtenderSlow": {
		fires: buckets(`stowage_extender_request_duration_seconds_bucket{verb="filter",`, "90"),
		quiet: buckets(`stowage_extender_request_duration_seconds_bucket{verb="bind",`, "90"),
	},
	"StowageExtenderConflicts": {
		fires: "stowage_extender_binds_total{outcome=\"bound\"} 0+10x120\n stowage_extender_binds_total{outcome=\"conflict\"} 0+20x120",
		quiet: "stowage_extender_binds_total{outcome=\"bound\"} 0+20x120\n stowage_extender_binds_total{outcome=\"conflict\"} 0+10x120",
	},
	"StowageControllerDown": {
		fires: `up{job="stowage-controller",instance="a"} 0x120`,
		quiet: `up{job="stowage-controller",instance="a"} 1x120`,
	},
	"StowageControllerNotLeading": {
		fires: "stowage_controller_leading{pod=\"a\"} 0x120\n stowage_controller_leading{pod=\"b\"} 0x120",
		quiet: "stowage_controller_leading{pod=\"a\"} 1x120\n stowage_controller_leading{pod=\"b\"} 0x120",
	},
	"StowageInPlaceStopped": {
		fires: "stowage_controller_in_place_stopped{pod=\"a\"} 1x120\n stowage_controller_in_place_stopped{pod=\"b\"} 0x120",
		quiet: "stowage_controller_in_place_stopped{pod=\"a\"} 0x120\n stowage_controller_in_place_stopped{pod=\"b\"} 0x120",
	},
	"StowageCSIDown": {
		fires: "up{job=\"stowage-csi\",node=\"n\",instance=\"a\"} 0x120\n up{job=\"stowage-csi\",node=\"m\",instance=\"b\"} 1x120",
		quiet: "up{job=\"stowage-csi\",node=\"n\",instance=\"old\"} 0x120\n up{job=\"stowage-csi\",node=\"n\",instance=\"new\"} 1x120",
	},
	"StowagePavProvisionerNotAccepted": {
		fires: "stowage_controller_pav_provisioners{state=\"Accepted\"} 2x120\n stowage_controller_pav_provisioners{state=\"InvalidSpec\"} 1x120",
		quiet: "stowage_controller_pav_provisioners{state=\"Accepted\"} 2x120\n stowage_controller_pav_provisioners{state=\"InvalidSpec\"} 0x120\n" +
			" stowage_controller_pav_provisioners{state=\"Pending\"} 1x120\n stowage_controller_pav_provisioners{state=\"Deleting\"} 1x120",
	},
	"StowagePavVolumesFailing": {
		fires: failing("create", "CreationFailed", "0x110 1x6 0x4"), // another attempt has begun
		quiet: failing("create", "CreationFailed", "1x100 0x20") + failing("create", "ValidationFailed", "1x120") + failing("create", "PodNotRunning", "1x120") +
			failing("delete", "VolumeStaged", "1x120") + failing("stage", "StagingFailed", "1x120"),
	},
	"StowagePavStagingFailing": {
		fires: failing("unstage", "UnstagingFailed", "1x120"),
		quiet: failing("unstage", "UnstagingFailed", "0x120") + failing("stage", "ValidationFailed", "1x120") + failing("create", "CreationFailed", "1x120"),
	},
	"StowagePavPodsNotRunning": {
		fires: failing("stage", "PodNotRunning", "0x110 1x8 0x2"),
		quiet: failing("stage", "PodNotRunning", "1x110 0x10") + failing("stage", "StagingFailed", "1x120"),
	},
	"StowageVolumesUnreachable": {
		fires: `stowage_controller_lost_volumes{cause="NodeGone",state="Kept"} 2x120`,
		quiet: "stowage_controller_lost_volumes{cause=\"NodeGone\",state=\"Waiting\"} 2x120\n stowage_controller_lost_volumes{cause=\"NodeGone\",state=\"Kept\"} 0x120",
	},
	"StowageNodeLossErrors": {
		fires: `stowage_controller_node_loss_errors_total 0+1x120`,
		quiet: `stowage_controller_node_loss_errors_total 7x120`,
	},
	"StowageDuplicateIdentities": {
		fires: "stowage_controller_duplicate_identities{pod=\"a\"} 0x120\n stowage_controller_duplicate_identities{pod=\"b\"} 1x120",
		quiet: "stowage_controller_duplicate_identities{pod=\"a\"} 0x120\n stowage_controller_duplicate_identities{pod=\"b\"} 0x120",
	},
}

// failing is the number of volumes that fail for a reason.
func failing(operation, reason, values string) string {
	return fmt.Sprintf("stowage_controller_pav_failing{operation=%q,reason=%q} %s\n ", operation, reason, values)
}

// waiting is a pod with a claim of a class, and a volume of class c.
func waiting(class, unschedulable string) string {
	return fmt.Sprintf(`kube_pod_spec_volumes_persistentvolumeclaims_info{namespace="x",pod="p-%[1]s",persistentvolumeclaim="data-%[1]s",volume="v"} 1x120
 kube_persistentvolumeclaim_info{namespace="x",persistentvolumeclaim="data-%[1]s",storageclass="%[1]s",volumename=""} 1x120
 kube_pod_status_unschedulable{namespace="x",pod="p-%[1]s"} %[2]sx120
 stowage_provisioner_volumes{node="n",class="c",state="Bound"} 1x120`, class, unschedulable)
}

// buckets is a histogram of 100 observations a minute, so many of them below 0.5 s, all
// others between 10 and 20 s.
func buckets(series, fast string) string {
	return series + `le="0.5"} 0+` + fast + "x120\n " + series + `le="10"} 0+` + fast + "x120\n " +
		series + `le="20"} 0+100x120` + "\n " + series + `le="+Inf"} 0+100x120`
}

// TestAlerts: each alert fires when it should, and only then.
func TestAlerts(t *testing.T) {
	rules := alerts(t)
	for name := range firing {
		if _, ok := rules[name]; !ok {
			t.Errorf("there is no alert %s", name)
		}
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			series, ok := firing[name]
			if !ok {
				t.Fatal("firing has no series for it")
			}
			if value := ask(t, rule.Expr.String(), series.fires); len(value) == 0 {
				t.Error("it does not fire")
			}
			if value := ask(t, rule.Expr.String(), series.quiet); len(value) != 0 {
				t.Errorf("it fires: %v", value)
			}
		})
	}
}

// TestNoneOnNodes: without any pod of a DaemonSet, whose series end with it, there is an alert too, which
// names no node.
func TestNoneOnNodes(t *testing.T) {
	for alert, job := range map[string]string{"StowageProvisionerDown": "stowage-provisioner", "StowageCSIDown": "stowage-csi"} {
		rule := alerts(t)[alert]
		value := ask(t, rule.Expr.String(), `up{job="another"} 1x120`)
		if len(value) != 1 || value[0].Metric.Get("node") != "" {
			t.Errorf("%s: want one alert without a node: %v", alert, value)
		}
		if value := ask(t, rule.Expr.String(), `up{job="`+job+`",node="n"} 0x120`); len(value) != 1 || value[0].Metric.Get("node") != "n" {
			t.Errorf("%s: want one alert, of the node that is down: %v", alert, value)
		}
	}
}

// TestWithoutPav: the rules that every cluster has say nothing about PavProvisioners, which few have.
func TestWithoutPav(t *testing.T) {
	for _, part := range []string{"scheduler", "provisioner", "controller", "extender"} {
		for _, text := range documents(t, part+"/rules.yaml")["PrometheusRule"] {
			if strings.Contains(text, "_pav_") || strings.Contains(text, "stowage-csi") {
				t.Errorf("the rules of the %s are about them", part)
			}
		}
	}
}

// ask evaluates an expression over series.
func ask(t *testing.T, expr, series string) promql.Vector {
	t.Helper()
	store := promqltest.LoadedStorage(t, "load 1m\n "+series)
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 10_000)
	query, err := engine.NewInstantQuery(t.Context(), store, nil, expr, at)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	return append(promql.Vector{}, vector...)
}
