//go:build linux

package page

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"ceiling/experiment/spec"
	"ceiling/internal/browser"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/live"
)

// A server that is measured chooses some of the texts. None of them becomes
// more than text.
func TestHostileTextsStayText(t *testing.T) {
	needs.Program(t, "chromium")
	const evil = `<img src=x onerror="window.owned=1"><script>window.owned=1</script>{{7*7}}`
	r, s := fixture(t)
	r.Verdict.Because, r.Verdict.Bottleneck, r.Verdict.Outcome, r.Verdict.Next = recordtest.Says(evil), evil, evil, recordtest.Says(evil)
	r.Verdict.Evidence, r.Verdict.Caveats = []record.Evidence{{Says: recordtest.Say(evil)}}, recordtest.Says(evil)
	r.Verdict.Stations[0].Name = evil
	r.Spec.Targets[0].URL, r.StoppedEarly = evil, evil
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: evil, Spec: r.Spec})
	for _, row := range s.Observed.All() { // names of programs and interfaces
		switch row := row.(type) {
		case *record.ProcessRow:
			row.Comm = evil
		case *record.NetDevRow:
			row.Iface = evil
		case *record.CPURow:
			row.Host = evil
		}
	}
	b.Rows(s)
	b.Lost(record.NotMeasured{What: evil, Why: evil})
	b.Step(live.Plan{Kind: evil, Number: 1, Doing: evil})
	b.Measured(live.FinishedRun{Measured: record.Measured{Outcome: evil, Bottleneck: evil, StoppedEarly: evil}, Doing: evil})
	b.RunEnded(r)
	p := browser.Start(t)()
	p.Open(server.URL())
	p.Wait(`document.querySelectorAll("#runs tbody tr").length == 1 && document.querySelector("#verdict .bottleneck") !== null`)
	for _, id := range []string{"#title", "#id", "#doing", ".outcome", ".bottleneck", ".because", ".next", "#evidence", "#caveats", ".path",
		"#plan-says", "#cores .points-list", "#cores .caption", "#link", "#missing", "#runs"} {
		var text string
		p.Eval(`document.querySelector("`+id+`").textContent`, &text)
		if !strings.Contains(text, evil) {
			t.Errorf("%s does not show the text: %q", id, text)
		}
	}
	var owned, elements bool
	p.Eval(`window.owned === 1`, &owned)
	p.Eval(`document.body.querySelector("img, body script:not([type])") !== null`, &elements)
	if owned || elements {
		t.Errorf("script ran: %v; elements were made: %v", owned, elements)
	}
	p.Eval("1", nil)
	for len(p.Errors) > 0 {
		t.Errorf("the console has %s", <-p.Errors)
	}
}

// marks counts the runs in the charts of a plan.
const marks = `[...document.querySelectorAll("#plan .dot")].reduce((n, d) => n + +d.dataset.points, document.querySelectorAll("#plan .early").length)`

// On a phone nothing is cut off and nothing has to be pushed sideways; the keys
// read single points.
func TestPhoneAndKeys(t *testing.T) {
	needs.Program(t, "chromium")
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(s)
	for n := range 30 {
		b.Measured(live.FinishedRun{Measured: record.Measured{Step: record.Step{Number: n + 1}, CompletedPerS: 1234567, Outcome: "valid",
			Bottleneck: "server CPU"},
			Doing: "http://127.0.0.1:18080/read, 100 connections, repeat 1"})
	}
	b.Step(live.Plan{Kind: "sweep", Number: 31, All: 40, LeftRuns: 10, LeftS: 60, Doing: "something"})
	b.RunEnded(r)
	p := browser.Start(t)()
	p.SetViewport(360, 740, 2, true)
	p.Open(server.URL())
	p.Wait(`+document.querySelector("#rate").dataset.points == ` + strconv.Itoa(len(s.Load)))
	p.Wait(`document.querySelectorAll("#runs tbody tr").length == 30`)
	p.Wait(marks + ` == 30`)
	var wide int
	p.Eval(`document.documentElement.scrollWidth`, &wide)
	if wide > 360 {
		t.Errorf("the page is %d wide on 360", wide)
	}
	for _, dark := range []bool{false, true} {
		p.SetMedia("", dark)
		for _, v := range p.Violations() {
			t.Errorf("dark %v: %s", dark, v)
		}
	}
	p.Eval(`document.querySelector("#rate .live").focus()`, nil)
	browser.Run(p, chromedp.KeyEvent(kb.ArrowLeft))
	first := p.Text("#rate [role=status]")
	browser.Run(p, chromedp.KeyEvent(kb.ArrowLeft))
	second := p.Text("#rate [role=status]")
	if !strings.Contains(first, "completed") || first == second {
		t.Errorf("the keys read %q, then %q", first, second)
	}
	var drawn bool
	p.Eval(`(() => {
		const canvas = document.querySelector("#response canvas"), c = canvas.getContext("2d");
		return c.getImageData(0, 0, canvas.width, canvas.height).data.some(v => v);
	})()`, &drawn)
	if !drawn {
		t.Error("nothing is drawn")
	}
}

// The path of a request is six boxes, the bottleneck outlined; a box leads to what shows
// it, and leaves the address alone. Below them is the same over time.
func TestPathOfARequest(t *testing.T) {
	needs.Program(t, "chromium")
	r, s := fixture(t)
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	p := browser.Start(t)()
	p.Open(server.URL() + "#t=0.5,2")
	p.Wait(`document.querySelector("#stations .quiet")?.textContent == "collecting data…"`)
	b.Rows(between(s, begin, 25e8))
	if !b.Form() {
		t.Fatal("no verdict was formed")
	}
	p.Wait(`document.querySelectorAll(".path li").length == 6`)
	if text := p.Text(".path li:first-child"); !strings.Contains(text, "not yet known") {
		t.Errorf("the client's box of a run that is followed: %q", text)
	}
	p.Eval(`document.querySelector("#stations summary").click(); document.querySelector("#stations summary").focus()`, nil)
	b.Rows(between(s, 25e8, 1<<62))
	b.RunEnded(r)
	p.Wait(`document.querySelector("#connection").dataset.state == "ended"`)
	p.Wait(`document.activeElement.closest("#stations details[open]") !== null`) // an update leaves what a reader has opened
	var seen struct {
		Names, Limits []string
		Wide, Parts   float64
		Queues        int
	}
	p.Eval(`(() => {
		const items = [...document.querySelectorAll(".path li")], wide = items.map(li => li.getBoundingClientRect().width);
		return { names: items.map(li => li.firstChild.textContent), limits: items.filter(li => li.matches(".limits")).map(li => li.firstChild.textContent),
			wide: wide[2] / wide[0], parts: document.querySelectorAll(".path-of .bar .limits").length,
			queues: document.querySelectorAll("#path-time rect.st-queue").length };
	})()`, &seen)
	if strings.Join(seen.Names, " ") != "client network server queue server network client queue" || strings.Join(seen.Limits, " ") != "server" ||
		seen.Wide < 2 || seen.Parts != 1 || seen.Queues < 2 {
		t.Errorf("%+v", seen)
	}
	for _, c := range [][2]string{{"3", "#path-time"}, {"4", "#cores"}, {"2", "#link"}} {
		p.Eval(`document.querySelector(".path li:nth-child(`+c[0]+`) > a").click()`, nil)
		p.Wait(`document.querySelector(".pointed").matches("` + c[1] + `") && location.hash == "#t=0.5,2"`)
	}
	p.Eval(`document.querySelector(".path em a").click()`, nil)
	p.Wait(`document.querySelector(".pointed").matches("#evidence")`)
	p.Eval("1", nil)
	for len(p.Errors) > 0 {
		t.Errorf("the console has %s", <-p.Errors)
	}
}

// Response times are a heat map; both charts have one crosshair and one zoom, which stands in the address.
func TestHeatMapAndZoom(t *testing.T) {
	needs.Program(t, "chromium")
	r, s := fixture(t)
	for i := range s.Load {
		var h hist.Hist
		h.RecordN(700_000, s.Load[i].Completed)
		h.RecordN(9_000_000, 3)
		s.Load[i].Response = record.StepsOf(&h)
	}
	r.Verdict.Stalls = []record.Stall{{FromNs: 1e8, ToNs: 3e8}}
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(s)
	b.RunEnded(r)
	p := browser.Start(t)()
	p.Open(server.URL())
	p.Wait(`+document.querySelector("#response").dataset.points == ` + strconv.Itoa(len(s.Load)))
	shades := func() (n int) { // pixels in the colour of the heat map at any opacity over the card's white
		p.Eval(`(() => {
			const canvas = document.querySelector("#response canvas"), d = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
			let n = 0;
			for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - 0x80) + Math.abs(d[i + 1] - 0x8b) + Math.abs(d[i + 2] - 0xa3) < 12) n++;
			return n;
		})()`, &n)
		return n
	}
	if n := shades(); n < 100 {
		t.Errorf("%d pixels of a heat map", n)
	}
	p.Eval(`document.querySelector("#rate .live").focus()`, nil)
	browser.Run(p, chromedp.KeyEvent(kb.ArrowLeft))
	if rate, times := p.Text("#rate .now"), p.Text("#response .now"); rate == "" || times == "" {
		t.Errorf("one crosshair for both: %q, %q", rate, times)
	}
	p.Eval(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }))`, nil)
	p.Wait(`location.hash.startsWith("#t=")`)
	p.Eval(`document.querySelector("#rate .zoom button:last-child").click()`, nil)
	p.Wait(`location.hash == ""`)
	p.Eval("1", nil)
	for len(p.Errors) > 0 {
		t.Errorf("the console has %s", <-p.Errors)
	}
}

// Where the program is gone the page says so, and asks a person before it goes
// on trying for ever.
func TestProgramIsGone(t *testing.T) {
	needs.Program(t, "chromium")
	r, s := fixture(t)
	b := live.NewBoard()
	at := porttest.Free(t, "127.0.0.1")
	server, err := Start(at, b)
	if err != nil {
		t.Fatal(err)
	}
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(s)
	p := browser.Start(t)()
	p.Open(server.URL())
	p.Wait(`+document.querySelector("#rate").dataset.points > 0`)
	if err := server.Close(0); err != nil {
		t.Error(err)
	}
	p.Wait(`document.querySelector("#connection").dataset.state == "lost"`)
	p.Wait(`document.querySelector("#trouble button") !== null`)
	if text := p.Text("#trouble"); !strings.Contains(text, "Lost connection to ceiling") || !strings.Contains(text, "ceiling show "+r.ID) {
		t.Error(text)
	}
	grey := `getComputedStyle(document.querySelector("main")).filter == "grayscale(1)" && document.querySelector("#connection").textContent == "lost" &&
		document.querySelector("#doing").textContent.endsWith("lost")`
	p.Wait(grey)
	again, err := Start(at, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Close(time.Second); err != nil {
			t.Error(err)
		}
	})
	p.Eval(`document.querySelector("#trouble button").click()`, nil)
	p.Wait(`document.querySelector("#connection").dataset.state == "live" && +document.querySelector("#rate").dataset.points == ` +
		strconv.Itoa(len(s.Load)))
	p.Wait(`document.querySelector("#doing").textContent == "running" && getComputedStyle(document.querySelector("main")).filter == "none"`)
}

// A search grows as a ladder: every attempt at its rate, those that were ended early as
// triangles, and the limit; the answer stands above it when it is known.
func TestPlanGrows(t *testing.T) {
	needs.Program(t, "chromium")
	r, s := fixture(t)
	slo, err := spec.ParseSLO("p99<5ms")
	if err != nil {
		t.Fatal(err)
	}
	r.Spec.SLO = slo
	b := live.NewBoard()
	server := serve(t, b)
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(s)
	attempt := func(n int, perS float64, p99 int64, outcome record.Outcome, early string) {
		b.Measured(live.FinishedRun{Measured: record.Measured{Step: record.Step{Number: n}, CompletedPerS: perS,
			TargetPerS: perS, Outcome: outcome,
			StoppedEarly: early, Response: record.Quantiles{Count: 9, P99Ns: p99}}, Doing: "an attempt"})
	}
	b.Step(live.Plan{Kind: "find", Number: 2, LeftRuns: 3, Doing: "an attempt"})
	attempt(1, 1000, 1e6, record.Pass, "")
	p := browser.Start(t)()
	p.Open(server.URL())
	p.Wait(marks + ` == 2`)
	attempt(2, 4000, 50e6, record.Fail, "cannot be met")
	p.Wait(marks + ` == 4`)
	var seen struct {
		Early, Fail, Limits int
		Above               bool
		Title, Answer       string
	}
	b.PlanEnded(&record.Plan{Ending: record.Ending{Ended: record.EndedConverged,
		Search: &record.Search{Capacity: record.Estimate{Mid: 1000}, Says: recordtest.Say("1,000 req/s it is")}}})
	p.Wait(`document.querySelector("#plan .verdict") !== null`)
	p.Eval(`({ early: document.querySelectorAll("#plan .early").length,
		fail: document.querySelectorAll("#plan .early.tone-1").length, limits: document.querySelectorAll("#plan path.limit").length,
		above: document.querySelector("#run-times .early").getBoundingClientRect().bottom < document.querySelector("#run-times path.limit").getBoundingClientRect().top,
		title: document.querySelector("#plan h2").textContent, answer: document.querySelector("#plan .because").textContent })`, &seen)
	if seen.Early != 2 || seen.Fail != 2 || seen.Limits != 1 || !seen.Above || seen.Title != "The plan" || seen.Answer != "1,000 req/s it is." {
		t.Errorf("%+v", seen)
	}
	p.Eval("1", nil)
	for len(p.Errors) > 0 {
		t.Errorf("the console has %s", <-p.Errors)
	}
}
