package journal

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/record/recordtest"
)

// summed is a run of 10 s whose figures agree with each other: 12,345 requests a second on
// 64 connections, 4,500 bytes each, for 1.2 cores of two.
func summed(change func(r *record.Run, h *hist.Hist)) (*record.Run, *hist.Hist) {
	r, _ := sampleRun(runID, 1)
	h := new(hist.Hist)
	h.RecordN(int64(64_000_000_000)/12_345, r.Requests.Completed)
	r.Latency.Response = record.QuantilesOf(h)
	r.Generator.UserNs, r.Generator.SystemNs = 1e9, 3e9
	if change != nil {
		change(r, h)
	}
	return r, h
}

// summedJournal has an entry about one such run.
func summedJournal(t *testing.T, body string, change func(r *record.Run, h *hist.Hist)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "j")
	writeEntry(t, dir, "0001-a", "runs:\n  first: "+runID+"\n", "\n"+body+"\n")
	check(t, os.MkdirAll(filepath.Join(dir, "0001-a", recordsDir), 0o755))
	r, h := summed(change)
	keepRun(t, fileOf(filepath.Join(dir, "0001-a", recordsDir), runID), r, h)
	return dir
}

// words are what a page has to read, without its markup.
func words(html []byte) string {
	text := regexp.MustCompile(`(?s)<style.*?</style>|<[^>]*>`).ReplaceAllString(string(html), " ")
	return strings.Join(strings.Fields(strings.NewReplacer("&#43;", "+", "&#39;", "'").Replace(text)), " ")
}

// Laws are worked out of a run's figures.
func TestArithmetic(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{{little (run "first")}}`, "Little's law 12,345 req/s rate × 5.18 ms mean response time = 64.0 requests in flight " +
			"The loop keeps 64 connections × 1 = 64 in flight: 0.0% off."},
		{`{{shareOfLink (run "first") "1Gbit/s"}}`, "12,345 req/s rate × 4.50 kB read per request = 444 Mbit/s above TCP ÷ 1.00 Gbit/s link = 44% of the link " +
			"An assumed link: the record has no link speed."},
		{`{{shareOfLink (run "first") "100Mbit/s"}}`, "= 444% of the link An assumed link: the record has no link speed. It would be the bottleneck."},
		{`{{utilization (run "first")}}`, "12,345 req/s rate × 97.2 µs server CPU per request = 1.20 cores in use by the server The machine has 2 cores: 60% of it."},
		{`{{ends (run "first")}}`, "generator 0.40 32.4 µs 41% – server 1.20 97.2 µs – –"},
		{`{{workers (run "first")}}`, "process 1 – 1.20 100% generator's thread 1 64 0.41 –"},
	} {
		s := build(t, summedJournal(t, c.text, nil))
		if got := words(s.Files["0001-a.html"]); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// The boxes of a request's path are those of the run's own page, and lead to it; an end of
// the path that nobody watched is no box.
func TestPathOfARequest(t *testing.T) {
	s := build(t, summedJournal(t, `{{path (run "first")}}`, func(r *record.Run, _ *hist.Hist) {
		r.Latency.Service.MeanNs = 5e6
		r.Verdict.Evidence = []record.Evidence{{What: "generator.run_delay", Says: recordtest.Say("it ran")}}
		r.Verdict.Stations = nil
		for i, share := range []float64{.02, .03, .7, .1, .05, .1} {
			r.Verdict.Stations = append(r.Verdict.Stations, record.Station{Name: record.PlaceNames()[i], Share: share, Low: share / 2, High: share})
		}
	}))
	got, path := string(s.Files["0001-a.html"]), regexp.MustCompile(`(?s)<div class="path-of">.*?</ol></div>`)
	if want := "mean 5.00 ms client 100 µs 2% 50.0–100 µs thread 41% network 150 µs 3% 75.0–150 µs server queue 3.50 ms 70% 1.75–3.50 ms"; !strings.Contains(
		words([]byte(got)), want) {
		t.Errorf("got %q, want %q", words([]byte(got)), want)
	}
	page := path.FindString(string(s.Files[recordPage(runID)]))
	if there := strings.ReplaceAll(path.FindString(got), `href="`+recordPage(runID), `href="`); there != page || page == "" ||
		!strings.Contains(page, `<a href="#figures">client</a>`) || !strings.Contains(page, `<a href="#evidence">bottleneck</a>`) {
		t.Errorf("the entry has %s, the page of the run %s", there, page)
	}
	if strings.Contains(page, "#queues") {
		t.Error("a box leads to a chart that the page has not got")
	}
	for text, want := range map[string]string{`{{path "first"}}`: "it takes a run", `{{path (run "first")}}`: "where the time goes was not measured"} {
		got := mistakesOf(t, summedJournal(t, text, func(r *record.Run, _ *hist.Hist) { r.Verdict.Stations = nil }))
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

// A law that the record does not keep fails the build, with its line; so does one that it
// has no figures for.
func TestArithmeticThatFails(t *testing.T) {
	for _, c := range []struct {
		text, want string
		change     func(r *record.Run, h *hist.Hist)
	}{
		{`{{little (run "first")}}`, "rate × response time is 64.0 requests in flight, -50% off the 128 that the loop keeps: the record contradicts itself",
			func(r *record.Run, _ *hist.Hist) { r.Load.Connections = 128 }},
		{`{{little (run "first")}}`, "no response time was measured",
			func(r *record.Run, _ *hist.Hist) { r.Latency.Response = record.Quantiles{} }},
		{`{{utilization (run "first")}}`, "the server's CPU was not measured", func(r *record.Run, _ *hist.Hist) { r.Subject = nil }},
		{`{{utilization (run "first")}}`, "the server used 4.00 of 2 cores: the record contradicts itself",
			func(r *record.Run, _ *hist.Hist) { r.Subject.Processes[0].CPUNs = 40e9 }},
		{`{{shareOfLink (run "first")}}`, "the record has no link speed; assume one, as in", nil},
		{`{{shareOfLink (run "first") "1GB/s"}}`, "invalid link speed", nil},
		{`{{shareOfLink (run "first") "1Gbit/s"}}`, "the record's link has 10.0 Gbit/s, not 1Gbit/s",
			func(r *record.Run, _ *hist.Hist) { r.Spec.LinkBitsPerSecond = 10e9 }},
		{`{{workers (run "first")}}`, "the server's processes were not measured", func(r *record.Run, _ *hist.Hist) { r.Subject = nil }},
		{`{{little "first"}}`, "it takes a run, a curve of one point, a point, or a cell", nil},
		{`{{table "first" "points"}}`, "first is not a sweep: it has no points", nil},
		{`text {{little (run "first")}}`, "must be in its own paragraph", nil},
		{`{{litle (run "first")}}`, "unknown {{litle}}; near: little", nil},
	} {
		got := mistakesOf(t, summedJournal(t, c.text, c.change))
		if len(got) != 1 || !strings.HasPrefix(got[0], "0001-a/entry.md:12: ") || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	// Nothing is worked out of what is still to be measured, and nothing is refused.
	dir := filepath.Join(t.TempDir(), "j")
	writeEntry(t, dir, "0001-a", "status: planned\nruns:\n  later:\n",
		"\n{{little (run \"later\")}}\n\n{{ends ((curve \"later\" \"a\").At 3)}}\n\n{{shareOfLink (curve \"later\") \"1Gbit/s\"}}\n\n{{table \"later\" \"points\"}}\n")
	if got := words(build(t, dir).Files["0001-a.html"]); strings.Count(got, "Not measured yet") != 4 {
		t.Errorf("of a record to come: %s", got)
	}
}

// How connections and CPU spread over the processes that share a port.
func TestWorkersShareAPort(t *testing.T) {
	dir := summedJournal(t, `{{workers (run "first")}}`, func(r *record.Run, _ *hist.Hist) {
		r.Subject.Processes = []record.SubjectProcess{{PID: 390, Comm: "shop", CPUNs: 3e9}, {PID: 391, Comm: "shop", CPUNs: 9e9}}
	})
	file := fileOf(filepath.Join(dir, "0001-a", recordsDir), runID)
	first := true
	rewrite(t, file, func(kind string, line []byte) []byte {
		if kind != "load" || !first {
			return line
		}
		first = false
		return append([]byte(`{"kind":"listener","host":"load1","t_ns":1000000000,"width_ns":1000000000,"listeners":[{"inode":7,"addr":"127.0.0.1:8080","queue":0,"max":128},`+
			`{"inode":8,"addr":"127.0.0.1:8080","queue":0,"max":128}],"connections":[{"pid":390,"connections":40},{"pid":391,"connections":24}]}`+"\n"), line...)
	})
	got := words(build(t, dir).Files["0001-a.html"])
	for _, want := range []string{"2 listening sockets share 127.0.0.1:8080 by SO_REUSEPORT", "process 1 24 0.90 75% process 2 40 0.30 25%"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q: %s", want, got)
		}
	}
}

// A sweep's points are a table and, for other programs, a file.
func TestPoints(t *testing.T) {
	dir := sampleJournal(t)
	runs := 0
	file := fileOf(filepath.Join(dir, "0002-plans", recordsDir), sweepID)
	rewrite(t, file, func(kind string, line []byte) []byte {
		text := string(line)
		if kind == "answer" { // the first point's runs are those of the plan
			text = strings.Replace(text, `"run_ids":[]`, fmt.Sprintf(`"run_ids":["%[1]s-run1","%[1]s-run2"]`, sweepID[:15]), 1)
			text = strings.Replace(text, `"server":"fast"`, `"server":"=fast"`, 1)
		}
		if kind == "result" {
			if runs++; runs == 2 {
				text = strings.Replace(text, `"completed_per_s":12345`, `"completed_per_s":12445`, 1)
			}
		}
		return []byte(text)
	})
	entry := filepath.Join(dir, "0002-plans", entryFile)
	text := regexp.MustCompile(`(?s)## A sweep.*?## A search`).ReplaceAllString(mustRead(t, entry), "## A sweep\n\n{{table \"sweep\" \"points\"}}\n\n## A search")
	text = regexp.MustCompile(`(?m)^(finding|hero): .*\n(  .*\n)*`).ReplaceAllString(text, "")
	check(t, os.WriteFile(entry, []byte(strings.Replace(text, "question:", "finding: F\nquestion:", 1)), 0o644))
	s := build(t, dir)
	page := string(s.Files["0002-plans.html"])
	if got := words([]byte(page)); !strings.Contains(got, "=fast 16 12,395 ± 71 ≥ 800 µs ≥ 1.05 ms ≥ 1.20 ms ≥ 1.25 ms ≥ 1.29 ms 55.6 ± 0.0 MB/s 64 broken: 0.0799 3") {
		t.Errorf("the table: %s", got)
	}
	if !strings.Contains(page, `<a href="runs/`+sweepID+`.csv" download>CSV</a>`) ||
		!strings.Contains(string(s.Files[recordPage(sweepID)]), `<a href="`+sweepID+`.csv" download>CSV</a>`) {
		t.Error("no link to the CSV")
	}
	rows, err := csv.NewReader(strings.NewReader(string(s.Files[csvPage(sweepID)]))).ReadAll()
	check(t, err)
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	if len(rows) != 1+6 {
		t.Fatalf("%d rows", len(rows))
	}
	for name, want := range map[string]string{"server": "'=fast", "load": "16", "per_s": "12395", "per_s_deviation": "70.7106781", "in_flight": "64",
		"read_bytes_per_s": "55552500", "server_cores": "1.2"} {
		if got := rows[1][at[name]]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if rows[2][at["per_s"]] != "38000" || rows[2][at["p50_ns"]] != "" {
		t.Errorf("a point without records of its runs: %q", rows[2])
	}
}

// Where and how it was measured is taken from the records.
func TestSetup(t *testing.T) {
	s := build(t, sampleJournal(t))
	for name, list := range map[string][]string{
		"0001-base.html": {"generator Example CPU, Linux 6.18.4 2 16.0 GB loopback", "server the same machine the same the same loopback",
			"generator first ceiling run http://127.0.0.1:8080/read", "server first ran already: /srv/shop (its arguments are not recorded)"},
		"0002-plans.html": {"generator sweep ceiling run x.yaml", "server fast ran already, at http://127.0.0.1:8080; its command is not recorded"},
	} {
		got := words(s.Files[name])
		for _, want := range list {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	if strings.Contains(string(s.Files["0003-next.html"]), "j-setup") {
		t.Error("an entry without records has a setup")
	}
}
