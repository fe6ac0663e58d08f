//go:build linux

package page

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ceiling/internal/golden"
	"ceiling/internal/needs"
	"ceiling/internal/secret"
	"ceiling/internal/text"
	"ceiling/record"
	"ceiling/show/chart"
)

func htmlOf(t testing.TB, runs ...chart.Run) string {
	t.Helper()
	d, err := Runs(runs)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := HTML(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func markdownOf(t testing.TB, runs ...chart.Run) string {
	t.Helper()
	d, err := Runs(runs)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Markdown(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The golden files are the reports of runs made up.
func TestMarkdownGolden(t *testing.T) {
	other := sampleRun(12, 4)
	other.ID, other.Spec.Connections, other.Verdict.Outcome = "20261121-094500-k3mc", 128, record.Valid
	other.Environment.CPUModel = "Another CPU"
	for name, runs := range map[string][]chart.Run{"one": {sampleRun(30, 2)}, "two": {sampleRun(12, 2), other}} {
		golden.Text(t, filepath.Join("testdata", name+".md"), markdownOf(t, runs...))
	}
}

func TestVerdictComesFirst(t *testing.T) {
	d, err := Runs([]chart.Run{sampleRun(2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range d.Sections {
		order = append(order, s.ID)
	}
	want := []string{"verdict", "stations", "reasons", "figures", "latency", "time", "cores", "processes", "link", "errors", "environment", "missing"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	two, err := Runs([]chart.Run{sampleRun(2, 2), sampleRun(2, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if two.Sections[0].ID != "verdict" || two.Sections[1].ID != "differences" {
		t.Errorf("two runs begin with %s, %s", two.Sections[0].ID, two.Sections[1].ID)
	}
}

// TestErrorsLead: of a run of errors the card shows their share, not the rate of them, and no button copies the
// command that failed.
func TestErrorsLead(t *testing.T) {
	run := sampleRun(2, 2)
	run.Verdict.Outcome, run.Verdict.Bottleneck, run.Verdict.Next = record.Fail, record.Failures, nil
	run.Requests.Failed, run.Requests.Completed, run.Errors = run.Requests.Completed, 0, nil
	run.Command = []string{"ceiling", "run", "http://10.0.0.2:8080/nope"}
	card := verdictOf(&run, true, nil)[0].(Verdict)
	if card.Figure != "100%" || card.Unit != "errors" || card.Spread != "" || card.Next != "" {
		t.Errorf("%+v", card)
	}
}

// A report of an hour at ten samples a second, on both ends eight cores each,
// stays below 2 MB.
func TestAnHourIsSmall(t *testing.T) {
	needs.Time(t)
	const most = 2_000_000
	seconds := 3600
	if testing.Short() {
		seconds = 600
	}
	run := sampleRun(seconds, 8)
	if n := len(run.Series.Load); n < seconds*10 {
		t.Fatalf("only %d rows", n)
	}
	if n := len(htmlOf(t, run)); n > most {
		t.Errorf("%d bytes, more than %d", n, most)
	} else {
		t.Logf("%d bytes of HTML for %d samples", n, len(run.Series.Load))
	}
	if n := len(markdownOf(t, run)); n > most/10 {
		t.Errorf("%d bytes of Markdown", n)
	}
}

// hostile is what a server might answer to get into the report.
const hostile = "</script></style></title>--><x-hostile onhostile=1>\"'><img src=x onerror=pwned()><script>pwned=1</script>`{{.}}${1}|\\|<x-hostile>\u202e\x1b[2J](javascript:pwned())"

func TestHostileTextStaysText(t *testing.T) {
	run := filledRun(hostile)
	for _, runs := range [][]chart.Run{{run}, {run, sampleRun(2, 2)}} {
		page := htmlOf(t, runs...)
		for _, bad := range []string{"<x-hostile", "<img src=x", "<script>pwned", "\x1b", "\u202e", "{{.}}</"} {
			if i := strings.Index(page, bad); i >= 0 {
				t.Errorf("%q is in the page: …%s", bad, page[max(i-200, 0):i+100])
			}
		}
		zooms := strings.Count(page, `class="points">`)
		if got := strings.Count(strings.ToLower(page), "</script"); got != zooms+1 {
			t.Errorf("%d scripts end, %d were begun", got, zooms+1)
		}
		if n := strings.Count(page, "x-hostile"); n < 40 {
			t.Errorf("the text is there only %d times: the run was not filled", n)
		}
		checkMarkdown(t, markdownOf(t, runs...))
	}
}

// checkMarkdown finds tags, links and broken cells that a text brought along.
func checkMarkdown(t *testing.T, text string) {
	t.Helper()
	fenced, bars := false, 0
	escapes := regexp.MustCompile(`\\[[:punct:]]`)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		bare := escapes.ReplaceAllString(line, "")
		for _, bad := range []string{"<", "](", "hostile`", "`\\", "\x1b", "\u202e"} {
			if strings.Contains(bare, bad) {
				t.Errorf("%q is in %.300s", bad, line)
			}
		}
		if !strings.HasPrefix(line, "|") {
			bars = 0
		} else if n := strings.Count(bare, "|"); bars != 0 && n != bars {
			t.Errorf("a row of %d bars in a table of %d: %.300s", n, bars, line)
		} else {
			bars = n
		}
	}
	if fenced {
		t.Error("a fence is left open")
	}
}

// Whatever a record holds, a page can be made of it.
func TestAnyRecordMakesAPage(t *testing.T) {
	needs.Time(t)
	numbers := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		run := filledRun("x")
		for _, row := range run.Series.Observed.All() {
			scramble(reflect.ValueOf(row).Elem(), numbers)
		}
		for i := range run.Series.Load {
			scramble(reflect.ValueOf(&run.Series.Load[i]).Elem(), numbers)
		}
		scramble(reflect.ValueOf(run.Run).Elem(), numbers)
		if n%3 == 0 {
			run.Response, run.Service = nil, nil
		}
		if n%5 == 0 {
			run.Series = nil
		}
		htmlOf(t, run)
		markdownOf(t, run, run)
	}
}

// scramble puts extreme numbers into some fields.
func scramble(v reflect.Value, numbers *rand.Rand) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		switch numbers.IntN(6) {
		case 0:
			v.SetInt(-1 << (v.Type().Bits() - 1))
		case 1:
			v.SetInt(1<<(v.Type().Bits()-1) - 1)
		case 2:
			v.SetInt(0)
		case 3:
			v.SetInt(-1)
		}
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		if numbers.IntN(4) == 0 {
			v.SetUint(1<<v.Type().Bits() - 1)
		}
	case reflect.Float64:
		v.SetFloat([]float64{0, -1, 1e300, -1e300, 1e-300, 5}[numbers.IntN(6)])
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				scramble(v.Field(i), numbers)
			}
		}
	case reflect.Slice:
		if numbers.IntN(5) == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			scramble(v.Index(i), numbers)
		}
	case reflect.Pointer:
		if numbers.IntN(5) == 0 {
			v.SetZero()
		} else if !v.IsNil() {
			scramble(v.Elem(), numbers)
		}
	}
}

func TestSecretsAreLeftOut(t *testing.T) {
	run := sampleRun(2, 2)
	run.Command = append(run.Command, "-HCookie: id=s3cret", "--header=X-Api-Key: s3cret", "http://me:s3cret@host/", "-H", "accept: text/html")
	run.Target = "http://me:s3cret@host/"
	run.Spec.Targets[0].URL = run.Target
	run.ByTarget = []record.TargetResult{{Target: "GET " + run.Target}}
	other := sampleRun(2, 2)
	other.Spec.Targets[0].Header[0].Value = "Bearer t0psecret"
	run.Spec.Targets[0].Body, other.Spec.Targets[0].Body = []byte("s3cret"), []byte("s3cre2")
	for _, r := range []*chart.Run{&run, &other} {
		r.Command = append(r.Command, "--body=s3cret", "--token", "s3cret", "-b", "s3cret", "http://h/?access_token=s3cret")
	}
	for _, text := range []string{htmlOf(t, run), markdownOf(t, run), htmlOf(t, run, other), markdownOf(t, run, other)} {
		for _, word := range []string{"s3cret", "s3cre2", "t0psecret"} {
			if i := strings.Index(text, word); i >= 0 {
				t.Errorf("a secret is shown: %s", text[max(i-150, 0):i+30])
			}
		}
	}
	page := markdownOf(t, run, other)
	if !strings.Contains(page, "hidden, another") {
		t.Error("that the secrets are not the same is not told")
	}
	if !strings.Contains(page, "6 B, hidden, another") {
		t.Error("that the bodies are not the same is not told")
	}
	hidden := sampleRun(2, 2)
	hidden.Spec.Targets[0].Body = []byte("s3cret")
	hidden.Spec = hidden.Spec.Concealed(secret.New(func() []byte { return []byte("a key") }))
	if text := markdownOf(t, hidden); !strings.Contains(text, "6 B, hidden-") || !strings.Contains(text, "| hidden-") {
		t.Error("the digests of what is hidden are not shown")
	}
	if list := CredentialsOfRun(hidden.Run); len(list) > 1 { // that of the command line
		t.Errorf("found in what is hidden: %q", list)
	}
	if !strings.Contains(markdownOf(t, run), "accept: text/html") {
		t.Error("a field that is no secret is gone")
	}
}

func TestDifferences(t *testing.T) {
	a, b := sampleRun(2, 2), sampleRun(2, 2)
	same := markdownOf(t, a, b)
	if !strings.Contains(same, "Nothing: same test") {
		t.Errorf("equal runs differ:\n%s", same[:2000])
	}
	b.Spec.Seed = 99
	if got := markdownOf(t, a, b); !strings.Contains(got, "Nothing: same test") {
		t.Error("a seed counts as a difference")
	}
	b.Spec.Pipelining, b.Environment.Sysctls = 4, map[string]string{"net.core.somaxconn": "128"}
	b.Spec.Targets[0].Body = []byte("x")
	b.Subject = nil
	got := markdownOf(t, a, b)
	for _, want := range []string{"| `spec.pipelining` | 1 | 4 |", "| `environment.sysctls.net.core.somaxconn` | 4096 | 128 |",
		"`spec.targets[0].body` | – | 1 B, hidden", "| `subject` | – | not found |"} {
		if !strings.Contains(got, want) {
			t.Errorf("the differences lack %s", want)
		}
	}
}

func TestHowManyRuns(t *testing.T) {
	if _, err := Runs(nil); err == nil {
		t.Error("no run makes a page")
	}
	var many []chart.Run
	for range RunsMost + 1 {
		many = append(many, sampleRun(1, 1))
	}
	if _, err := Runs(many); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d runs: %v", len(many), err)
	}
	page := htmlOf(t, many[:RunsMost]...)
	if strings.Count(page, `id="run-`) != 2*RunsMost { // the section and its title
		t.Errorf("%d of %d runs are on the page", strings.Count(page, `id="run-`)/2, RunsMost)
	}
}

// keep writes a run to a file as the program does.
func keep(t *testing.T, run chart.Run) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.ndjson")
	w, err := record.Create(file, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(record.Start{Created: run.Started, Command: run.Command, Spec: run.Spec, Environment: &run.Environment}); err != nil {
		t.Fatal(err)
	}
	for i := range run.Series.Load {
		w.AppendLoad(&run.Series.Load[i])
	}
	for _, row := range run.Series.Observed.All() {
		w.AppendObserved(row)
	}
	for _, name := range chart.LatencyNames() {
		if h, _ := run.Latencies(name); h != nil {
			text, err := h.EncodeV2()
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Histogram(name, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Finish(run.Run); err != nil {
		t.Fatal(err)
	}
	return file
}

// rewrite changes the lines of a record; what change answers nil for goes away.
func rewrite(t *testing.T, file string, change func(line string) []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for line := range strings.Lines(string(text)) {
		out = append(out, change(line)...)
	}
	if err := os.WriteFile(file, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOpen(t *testing.T) {
	file := keep(t, sampleRun(2, 2))
	run, err := Open(record.File{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	if run.Response.Count() == 0 || run.Lag.Count() != run.Response.Count() || len(run.Series.Load) == 0 {
		t.Error("something was not read")
	}
	if got := markdownOf(t, run); !strings.Contains(got, "server CPU") || !strings.Contains(got, "99.99%") {
		t.Error("the page lacks the verdict or the percentiles")
	}

	// A damaged histogram is named, and everything else is shown.
	rewrite(t, file, func(line string) []byte {
		if strings.Contains(line, `"of":"lag"`) {
			line = `{"kind":"histogram","of":"lag","hdr":"HISTFAAA!"}` + "\n"
		}
		return []byte(line)
	})
	run, err = Open(record.File{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	if got := markdownOf(t, run); run.Lag != nil || !strings.Contains(got, "lag time by percentile | read") {
		t.Error("a damaged histogram is not named")
	}

	// A run that was killed: no result, no histograms, half a line.
	rewrite(t, file, func(line string) []byte {
		if strings.HasPrefix(line, `{"kind":"result"`) || strings.HasPrefix(line, `{"kind":"histogram"`) {
			return nil
		}
		return []byte(line)
	})
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)-20], 0o644); err != nil {
		t.Fatal(err)
	}
	run, err = Open(record.File{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	got := markdownOf(t, run)
	for _, want := range []string{"cut off", "the run was killed; do not use these numbers", "**lost**", "Latency by percentile: not measured, because no result was written",
		"Rate over time"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page of a killed run lacks %q", want)
		}
	}
	htmlOf(t, run)
}

func TestOpenRefuses(t *testing.T) {
	newer, empty := filepath.Join(t.TempDir(), "newer.ndjson"), t.TempDir()
	if err := os.WriteFile(newer, []byte(`{"kind":"run","schema":"ceiling.run/99"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{newer: "ceiling.run/99", empty: "holds no record"} {
		if _, err := Open(record.File{Path: path}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzHistogram(f *testing.F) {
	run := sampleRun(1, 1)
	text, err := run.Response.EncodeV2()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(text))
	f.Add([]byte("HISTFAAA"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := record.Contents{Histograms: map[string]string{"response": string(data)}}
		h, err := c.Histogram("response")
		if err != nil || h == nil {
			return
		}
		run := sampleRun(1, 1)
		run.Response = h
		htmlOf(t, run)
	})
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"run": "run", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "p99<5ms": "'p99<5ms'"} {
		if got := text.Word(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
