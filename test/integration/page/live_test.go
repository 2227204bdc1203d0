// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/test/browser"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/ui"
)

// disksOf are the volumes that the page shows on nodes, by use, as node/volume=bytes.
func disksOf(p *browser.Page, nodes ...string) map[string][]string {
	script := fmt.Sprintf(`Object.fromEntries(Object.entries(Object.groupBy(%s.flatMap((name) => shown.model.nodes.get(name)?.disks ?? []), (d) => d.use))
		.map(([use, disks]) => [use, disks.map((d) => d.node + "/" + d.volume + "=" + d.bytes).sort()]))`, quoted(nodes))
	return browser.Eval[map[string][]string](p, script)
}

func quoted(v any) string {
	text, _ := json.Marshal(v) // of strings
	return string(text)
}

// shows is an expression that is true when a volume has a use on the page.
func shows(volume, use string) string {
	return fmt.Sprintf(`[...shown.model.nodes.values()].some((n) => n.disks.some((d) => d.volume === %q && d.use === %q))`, volume, use)
}

// TestContent: the map has the volumes of the API server in the colours of their uses, and follows them.
func TestContent(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	p := browser.Start(t).Page(t)
	e.Shared()
	e.AddNodes(e.Node("a").Zone("zone-a"), e.Node("b").Zone("zone-b"))
	e.CreatePVs(e.LocalPV("free", "a").Capacity("5Gi"), e.LocalPV("used", "b").Capacity("10Gi"))
	e.CreatePVC(e.PVC("data").Request("10Gi"))
	e.WaitScheduled(e.CreatePod(e.Pod("db").PVC("data")), "b")
	e.WaitPV("used", "bound", func(pv *corev1.PersistentVolume) bool { return pv.Status.Phase == corev1.VolumeBound })

	ui.Serve(t, "--kubeconfig", e.Cluster.Kubeconfig(), "-n", e.Namespace).Open(p)
	if got := browser.Eval[string](p, `location.href + document.cookie`); strings.Contains(got, "token") || strings.Contains(got, "stowage-ui") {
		t.Errorf("scripts see the secrets of the session: %s", got)
	}
	p.Wait(shows(e.Name("used"), "Bound"))
	want := map[string][]string{"Free": {e.Name("a") + "/" + e.Name("free") + "=5368709120"}, "Bound": {e.Name("b") + "/" + e.Name("used") + "=10737418240"}}
	if diff := cmp.Diff(want, disksOf(p, e.Name("a"), e.Name("b"))); diff != "" {
		t.Errorf("volumes by use (-want +got):\n%s", diff)
	}
	checkColours(t, p)
	if got := p.Text("#connection"); got != "Live" {
		t.Errorf("the connection is %q", got)
	}

	var took []time.Duration
	for i := range 5 { // one of them on a machine that does other work
		name := fmt.Sprint("new-", i)
		begin := time.Now()
		e.CreatePVs(e.LocalPV(name, "a").Capacity("1Gi"))
		p.Wait(shows(e.Name(name), "Free"))
		if took = append(took, time.Since(begin)); took[i] < time.Second {
			break
		}
	}
	if slices.Min(took) >= time.Second {
		t.Errorf("new volumes are on the page after %s", took)
	}
	e.DeletePV("free")
	p.Wait("!(" + shows(e.Name("free"), "Free") + ")")
}

// checkColours compares the colour of each visible disk with that of the legend.
func checkColours(t *testing.T, p *browser.Page) {
	t.Helper()
	script := `(async () => {
		const { levels, rowOf } = await import("/assets/layout.js");
		const { uses } = await import("/assets/states.js");
		shown.zoom(levels.length - 1);
		shown.draw();
		const wrong = [];
		for (let cell = 0; cell < shown.made.disks.length; cell++) {
			const use = uses[shown.made.uses[cell]];
			const y = shown.made.rows[rowOf(shown.made, cell)].y + 14 + 3 - shown.root.scrollTop; // in the margin of 14, above the text
			if (use.pattern || y < 0 || y > shown.canvas.height) continue;
			const [r, g, b] = shown.context.getImageData(shown.made.xs[cell] + 14 + 4, y, 1, 1).data;
			const legend = getComputedStyle(document.querySelector(".swatch.use-" + use.name.toLowerCase())).backgroundColor;
			if (legend !== "rgb(" + [r, g, b].join(", ") + ")") wrong.push(shown.made.disks[cell].volume + " is " + [r, g, b] + ", the legend " + legend);
		}
		return wrong;
	})()`
	if wrong := browser.Eval[[]string](p, script); len(wrong) > 0 {
		t.Errorf("colours: %s", strings.Join(wrong, "; "))
	}
}

// TestAnswers: the page says of a waiting pod what why says, of a disk that the keyboard chooses, too, and of replicas what
// fit says.
func TestAnswers(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	p := browser.Start(t).Page(t)
	e.AddNodes(e.Node("a"), e.Node("b"))
	e.CreatePVs(e.LocalPV("one", "a").Capacity("5Gi"), e.LocalPV("two", "b").Capacity("5Gi"), e.LocalPV("three", "b").Capacity("6Gi"))
	e.CreatePVC(e.PVC("data").Request("10Gi"))
	pod := e.Pod("db").PVC("data").Obj()
	pod.Spec.SchedulerName = schedulerconfig.Name // which does not run: the pod waits
	e.CreatePodObject(pod)
	flags := []string{"--kubeconfig", e.Cluster.Kubeconfig(), "-n", e.Namespace}

	ui.Serve(t, flags...).Open(p)
	p.Wait(`[...document.querySelectorAll("#waiting article")].some((a) => a.innerText.includes("no fitting volume") || a.textContent.includes("add a volume"))`)
	var report inspect.PodReport
	decode(t, run(t, append([]string{"why", "pod", "db", "-o", "json"}, flags...)...), &report)
	sentence := fmt.Sprintf(`[...document.querySelectorAll("#waiting article")].find((a) => a.querySelector("h3").textContent.includes(%q)).querySelector(".sentence").textContent`, e.Namespace+"/db")
	if diff := cmp.Diff(report.Sentence, browser.Eval[string](p, sentence)); diff != "" {
		t.Errorf("the sentence of the waiting pod (-why +page):\n%s", diff)
	}

	p.Keys("/", e.Name("three"))
	p.Wait(`document.querySelector("#matches").textContent === "1 match"`)
	p.Keys(kb.Enter)
	p.Wait(fmt.Sprintf(`document.querySelector("#spoken").textContent.includes(%q)`, e.Name("three")))
	browser.Eval[any](p, `document.querySelector("#map").focus()`)
	p.Keys(kb.Enter)
	p.Wait(`document.querySelector("#details .sentence")`)
	var volume inspect.StorageReport
	decode(t, run(t, append([]string{"why", "pv", e.Name("three"), "-o", "json"}, flags...)...), &volume)
	if diff := cmp.Diff(ageless(volume.Sentences...), ageless(strings.Split(browser.Eval[string](p, `[...document.querySelectorAll("#details > p:not(.badges, .note, .muted)")].map((e) => e.textContent).join("|")`), "|")...)); diff != "" {
		t.Errorf("the sentences of the volume (-why +page):\n%s", diff)
	}
	p.Keys(kb.Escape, kb.Home, kb.ArrowRight)
	if got := p.Text("#search"); got != "" {
		t.Errorf("Escape leaves %q in the search", got)
	}

	checkFit(e, p, flags)
}

// checkFit compares the answer and the disks of what-if with those of fit.
func checkFit(e *fixture.Env, p *browser.Page, flags []string) {
	e.T.Helper()
	class := e.SeenPV("one").Spec.StorageClassName
	for _, replicas := range []string{"2", "4"} {
		script := fmt.Sprintf(`document.querySelector("#tab-fit").click(); const form = document.querySelector("#fit form");
			form.querySelector("[name=size]").value = "5Gi"; form.querySelector("[name=class]").value = %q; form.replicas.value = %q; form.onePerNode.checked = false;
			document.querySelector("#fit .answer").replaceChildren(); form.requestSubmit()`, class, replicas)
		browser.Eval[any](p, "(() => {"+script+"})()")
		p.Wait(`document.querySelector("#fit .verdict")`)
		var report inspect.Fit
		decode(e.T, run(e.T, append([]string{"fit", "--claims", "5Gi:" + class, "--replicas", replicas, "-o", "json"}, flags...)...), &report)
		want := []string{report.Sentence}
		for _, r := range report.Replicas {
			for _, c := range r.Claims {
				if r.Node != "" {
					want = append(want, c.Volume)
				}
			}
		}
		slices.Sort(want[1:])
		got := browser.Eval[[]string](p, `[document.querySelector("#fit .verdict").textContent, ...[...shown.model.lit].sort()]`)
		if diff := cmp.Diff(want, got); diff != "" {
			e.T.Errorf("the answer and the volumes of %s replicas (-fit +page):\n%s", replicas, diff)
		}
	}
}

var age = regexp.MustCompile(`for \d+[smh]`)

// ageless returns texts without ages, which the two readers see at different times.
func ageless(texts ...string) []string {
	for i, text := range texts {
		texts[i] = age.ReplaceAllString(text, "for some time")
	}
	return texts
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// TestOutage: the page says that the API server is away, keeps what it has, and follows the cluster again when it is
// back.
func TestOutage(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	p := browser.Start(t).Page(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("old", "a").Capacity("5Gi"))
	way := newOutage(t, strings.TrimPrefix(e.Cluster.URL(), "https://"))
	ui.Serve(t, "--kubeconfig", e.Cluster.Kubeconfig(), "-n", e.Namespace, "--server", "https://"+way.listener.Addr().String()).Open(p)
	p.Wait(shows(e.Name("old"), "Free") + ` && document.querySelector("#connection").textContent === "Live"`)

	way.set(true)
	p.Wait(`document.querySelector("#connection").textContent === "Not connected" && !document.querySelector("#banner").hidden && document.querySelector("#banner").textContent.includes("The map is that of")`)
	p.Wait(shows(e.Name("old"), "Free"))
	e.CreatePVs(e.LocalPV("new", "a").Capacity("5Gi"))
	way.set(false)
	p.Wait(shows(e.Name("new"), "Free") + ` && document.querySelector("#connection").textContent === "Live" && document.querySelector("#banner").hidden`)
}

// TestFewerRights: to a user who may list the pods and claims of one namespace alone the page names what is not seen, and never
// that something fits.
func TestFewerRights(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	p := browser.Start(t).Page(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("one", "a").Capacity("5Gi"))
	e.CreatePVC(e.PVC("data").Request("1Gi"))
	pod := e.Pod("db").PVC("data").Obj()
	pod.Spec.SchedulerName = schedulerconfig.Name
	e.CreatePodObject(pod)
	user := e.Name("owner")
	e.Grant(user, []string{"pods", "persistentvolumeclaims"}, []string{"list", "watch"})
	kubeconfig, err := e.Cluster.KubeconfigFor(user)
	if err != nil {
		t.Fatal(err)
	}

	ui.Serve(t, "--kubeconfig", kubeconfig, "-n", e.Namespace).Open(p)
	p.Wait(`document.querySelector("#banner").textContent.includes("You may not list")`)
	p.Wait(`document.querySelector("#waiting article .sentence")?.textContent.includes("cannot be said")`)
	for _, resource := range []string{"nodes", "persistentvolumes"} {
		if banner := p.Text("#banner"); !strings.Contains(banner, resource) {
			t.Errorf("the page does not say that %s are not seen: %s", resource, banner)
		}
	}
	script := `(() => { document.querySelector("#tab-fit").click(); const form = document.querySelector("#fit form"); form.querySelector("[name=size]").value = "1Gi"; form.requestSubmit() })()`
	browser.Eval[any](p, script)
	p.Wait(`document.querySelector("#fit .answer").children.length > 1 || document.querySelector("#fit .error")`)
	if answer := p.Text("#fit .answer"); strings.Contains(answer, " fit.") || strings.Contains(answer, "fits") {
		t.Errorf("what-if says on what it did not see: %s", answer)
	}
}
