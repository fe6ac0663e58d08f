//go:build linux

package page

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/pprof/profile"

	"ceiling/internal/browser"
	"ceiling/internal/needs"
	"ceiling/internal/profiles"
	"ceiling/record"
	"ceiling/show/chart"
)

// profiledRun is a run of two processes that spend 60% in shop.price, a quarter of
// all of it in shop.tax, 30% in the kernel and 10% in the runtime.
func profiledRun() chart.Run {
	run := sampleRun(12, 2)
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7,
	}
	objects := map[string]*profile.Mapping{}
	for i, name := range []string{"shop", "kernel"} {
		objects[name] = &profile.Mapping{ID: uint64(i + 1), File: name, HasFunctions: true}
		p.Mapping = append(p.Mapping, objects[name])
	}
	places := map[string]*profile.Location{}
	at := func(name, object string) *profile.Location {
		if places[name] == nil {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: name + ".go"}
			places[name] = &profile.Location{ID: f.ID, Mapping: objects[object], Line: []profile.Line{{Function: f, Line: 12}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, places[name])
		}
		return places[name]
	}
	main, price := at("main.main", "shop"), at("shop.price", "shop")
	for _, s := range []struct {
		ns    int64
		stack []*profile.Location
	}{
		{35e7, []*profile.Location{price, main}}, {25e7, []*profile.Location{at("shop.tax", "shop"), price, main}},
		{30e7, []*profile.Location{at("tcp_sendmsg", "kernel"), main}}, {10e7, []*profile.Location{at("runtime.mallocgc", "shop"), main}},
	} {
		for process, share := range map[string]int64{"390": 3, "391": 1} {
			p.Sample = append(p.Sample, &profile.Sample{Value: []int64{1, s.ns * share / 4}, Location: s.stack,
				Label: map[string][]string{profiles.Process: {process}}})
		}
	}
	packed, err := profiles.Bytes(p)
	if err != nil {
		panic(err)
	}
	run.ProfileFiles = map[string][]byte{"on-cpu.pprof.gz": packed}
	run.Profiling = &record.Profiling{
		Blocks: []record.ProfilingBlock{{ToNs: 1e9, Profiled: true}, {FromNs: 1e9, ToNs: 2e9}},
		Cost:   &record.ProfileCost{Pairs: 1, Needed: 6, WithNs: 12e3, WithoutNs: 11e3},
		Profiles: []record.ProfileOf{{Kind: record.ProfileOnCPU, Unit: "nanoseconds", Total: 1e9, File: "on-cpu.pprof.gz",
			Processes: []record.ProcessPart{{Process: "390", Value: 75e7}, {Process: "391", Value: 25e7}},
			Functions: []record.ProfileFunction{
				{Name: "shop.price", File: "shop.price.go", Line: 12, Self: 35e7, Total: 60e7},
				{Name: "tcp_sendmsg", File: "kernel", Self: 30e7, Total: 30e7}}},
			{Kind: record.ProfileGoMutex, Unit: "nanoseconds", Functions: []record.ProfileFunction{}}},
		GC:        &record.GoGC{Processes: 2, Collections: 300, Pauses: 256, PauseNs: 5e6, P50Ns: 18e3, MaxNs: 2e5, CPUShare: .02},
		Scheduler: &record.GoScheduler{TraceNs: 1e8, Waits: 1000, P50Ns: 900, P99Ns: 40e3, MaxNs: 1e6},
	}
	return run
}

func TestFlame(t *testing.T) {
	run := profiledRun()
	f := flameOf(&run, run.Profiling.Of(record.ProfileOnCPU), "x")
	box := func(name string) Box {
		i := slices.IndexFunc(f.Boxes, func(b Box) bool { return b.Name == name })
		if i < 0 {
			t.Fatalf("no box for %s in %+v", name, f.Boxes)
		}
		return f.Boxes[i]
	}
	if b := box("shop.price"); b.Width != 60 || b.Left != 0 || b.Level != 2 || b.Tone != "own" {
		t.Errorf("%+v", b)
	}
	if b := box("tcp_sendmsg"); b.Width != 30 || b.Left != 60 || b.Level != 2 || b.Tone != "kernel" {
		t.Errorf("%+v", b)
	}
	if b := box("shop.tax"); b.Width != 25 || b.Level != 3 || !strings.Contains(b.Says, "25%, 250 ms") {
		t.Errorf("%+v", b)
	}
	if b := box("runtime.mallocgc"); b.Tone != "runtime" || f.Levels != 4 {
		t.Errorf("%+v, %d levels", b, f.Levels)
	}
	for name, data := range map[string][]byte{"not read": []byte("no profile"), "not there": nil} {
		run.ProfileFiles = map[string][]byte{"on-cpu.pprof.gz": data}
		if data == nil {
			run.ProfileFiles = nil
		}
		if f := flameOf(&run, run.Profiling.Of(record.ProfileOnCPU), "x"); len(f.Boxes) > 0 || f.Note == "" || len(f.Table.Rows) != 2 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// However many functions there are, a graph stays small.
func TestFlameOfManyFunctions(t *testing.T) {
	needs.Time(t)
	run := profiledRun()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}}}
	for i := range 40_000 {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("f%d", i)}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
		p.Function, p.Location = append(p.Function, f), append(p.Location, l)
		s := &profile.Sample{Value: []int64{1000}}
		for depth := range 40 {
			s.Location = append(s.Location, p.Location[(i/(depth+1))])
		}
		p.Sample = append(p.Sample, s)
	}
	packed, err := profiles.Bytes(p)
	if err != nil {
		t.Fatal(err)
	}
	run.ProfileFiles["on-cpu.pprof.gz"] = packed
	f := flameOf(&run, run.Profiling.Of(record.ProfileOnCPU), "x")
	var b bytes.Buffer
	if err := pages().ExecuteTemplate(&b, "block", f); err != nil {
		t.Fatal(err)
	}
	if len(f.Boxes) > boxesMost || b.Len() > 1<<20 {
		t.Errorf("%d boxes, %d bytes", len(f.Boxes), b.Len())
	}
}

func TestProfilesInMarkdown(t *testing.T) {
	text := markdownOf(t, profiledRun())
	for _, want := range []string{"## Profiles", "shop.price", "60%", "75%", "p99 40.0 µs", "Mutex contention: nothing recorded", "last 256"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// testFlame zooms into a function and searches one.
func testFlame(t *testing.T, p *browser.Page) {
	p.Open(fileOf(t, profiledRun()))
	width := func(name string) (share float64) {
		p.Eval(fmt.Sprintf(`(() => { const b = [...document.querySelectorAll(".flame-map i")].find(e => e.textContent === %q);
			return b.getBoundingClientRect().width / b.parentNode.getBoundingClientRect().width })()`, name), &share)
		return share
	}
	near := func(name string, want float64) {
		t.Helper()
		if got := width(name); got < want-.01 || got > want+.01 {
			t.Errorf("%s is %.2f wide, want %.2f", name, got, want)
		}
	}
	near("shop.price", .6)
	near("tcp_sendmsg", .3)
	p.Eval(`[...document.querySelectorAll(".flame-map i")].find(e => e.textContent === "shop.price").click()`, nil)
	near("shop.price", 1)
	near("shop.tax", 25./60)
	near("tcp_sendmsg", 0)
	near("main.main", 1)
	p.Eval(`document.querySelector(".flame-tools button").click()`, nil)
	near("shop.price", .6)
	p.Eval(`(() => { const i = document.querySelector(".flame-tools input"); i.value = "SHOP.TAX"; i.dispatchEvent(new Event("input")) })()`, nil)
	if text := p.Text(".flame-tools [role=status]"); text != "25.0% is in it or in what it calls" {
		t.Errorf("the search says %q", text)
	}
	var found int
	p.Eval(`document.querySelectorAll(".flame-map i.found").length`, &found)
	if found != 1 {
		t.Errorf("%d boxes are marked", found)
	}
	p.Eval(`document.querySelector(".flame-tools input").focus()`, nil)
	browser.Run(p, chromedp.KeyEvent(kb.Enter))
	near("shop.tax", 1)
	if list := p.Violations(); len(list) > 0 {
		t.Errorf("not accessible: %v", list)
	}
	quiet(t, p)
	p.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	p.Open(fileOf(t, profiledRun()))
	near("shop.price", .6)
	if text := p.Text("#profiles table"); !strings.Contains(text, "shop.price") {
		t.Errorf("without script the table says %q", text)
	}
	var tools int
	p.Eval(`[...document.querySelectorAll(".flame-tools")].filter(e => e.getClientRects().length).length`, &tools)
	if tools != 0 {
		t.Error("without script there is a search that does nothing")
	}
}
