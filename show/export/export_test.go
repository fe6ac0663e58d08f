//go:build linux

package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ceiling/experiment/spec"
	"ceiling/internal/archive"
	"ceiling/internal/hist"
	"ceiling/internal/leak"
	"ceiling/record"
	"ceiling/verdict/prose"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { leak.Main(m) }

// real is a run of 2 s at 400/s, kept by ceiling run; its series is shortened.
const real = "testdata/record.ndjson"

func open(t *testing.T, file string) *Source {
	t.Helper()
	s, err := Open(record.File{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openRows(t *testing.T, file string) *record.Rows {
	t.Helper()
	r, err := record.OpenRows(record.File{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// written is what a writer writes.
func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// changed is a copy of the record with other lines: those of a kind come from
// change, "series" are all rows together; what it has no answer for stays.
func changed(t *testing.T, change map[string]string) string {
	t.Helper()
	data, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	rows := false
	for line := range strings.Lines(string(data)) {
		kind := kindOf(line)
		if to, there := change[kind]; there {
			line = to
		}
		if to, there := change["series"]; there && isRow(kind) {
			if line = ""; !rows {
				line = to
			}
			rows = true
		}
		out.WriteString(line)
	}
	file := filepath.Join(t.TempDir(), "record.ndjson")
	if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func kindOf(line string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"kind":"`), `"`)
	return kind
}

func isRow(kind string) bool {
	return !slices.Contains([]string{"run", "histogram", "attachment", "result"}, kind)
}

// rowsOf is the series of the record as it is in the file.
func rowsOf(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for line := range strings.Lines(string(data)) {
		if isRow(kindOf(line)) {
			rows.WriteString(line)
		}
	}
	return rows.String()
}

// TestGolden: the whole text of each format, from a real record.
func TestGolden(t *testing.T) {
	s := open(t, real)
	for name, write := range map[string]func(io.Writer) error{
		"response.hgrm":   func(w io.Writer) error { return HGRM(w, s, "response") },
		"lag.hgrm":        func(w io.Writer) error { return HGRM(w, s, "lag") },
		"openmetrics.txt": func(w io.Writer) error { return Prometheus(w, s) },
		"load.csv":        func(w io.Writer) error { return CSV(w, openRows(t, real), record.KindLoad) },
		"cpu.csv":         func(w io.Writer) error { return CSV(w, openRows(t, real), record.KindCPU) },
		"sockets.csv":     func(w io.Writer) error { return CSV(w, openRows(t, real), record.KindSockets) },
	} {
		t.Run(name, func(t *testing.T) {
			got := written(t, write)
			const golden = "testdata/golden.txtar"
			if *update {
				archive.Update(t, golden, name, []byte(got))
			}
			if diff := cmp.Diff(string(archive.Read(t, golden, name)), got); diff != "" {
				t.Errorf("%s:\n%s", golden, diff)
			}
		})
	}
}

// TestJSONIsTheDocument: what was left out of the record's file is the
// histograms alone, and they are the record's.
func TestJSONIsTheDocument(t *testing.T) {
	s := open(t, real)
	var got record.Run
	if err := json.Unmarshal([]byte(written(t, func(w io.Writer) error { return JSON(w, s) })), &got); err != nil {
		t.Fatal(err)
	}
	for of, q := range map[string]*record.Quantiles{"response": &got.Latency.Response, "service": &got.Latency.Service,
		"lag": &got.Latency.Lag} {
		h, err := hist.DecodeV2(q.HDR)
		if err != nil {
			t.Fatal(err)
		}
		if uint64(h.TotalCount()) != q.Count || q.Count == 0 {
			t.Errorf("%s: the histogram counts %d, the document %d", of, h.TotalCount(), q.Count)
		}
		q.HDR = ""
	}
	want := *s.Run
	want.Verdict = prose.Spell(s.Run.Verdict)
	if diff := cmp.Diff(&want, &got); diff != "" {
		t.Error(diff)
	}
	if s.Run.Latency.Response.HDR != "" {
		t.Error("the source was changed")
	}
}

// TestNDJSONIsTheSeries: all rows are there, in their order and as they were.
func TestNDJSONIsTheSeries(t *testing.T) {
	want := rowsOf(t)
	rows := openRows(t, real)
	if got := written(t, func(w io.Writer) error { return NDJSON(w, rows, "") }); got != want {
		t.Error("the rows are not those of the series")
	}
	if rows.Bad != 0 || rows.Problems != nil {
		t.Errorf("%d bad, %v", rows.Bad, rows.Problems)
	}
	got := written(t, func(w io.Writer) error { return NDJSON(w, openRows(t, real), record.KindCPU) })
	if n := strings.Count(got, "\n"); n != 3 || strings.Count(got, `"kind":"cpu"`) != 3 {
		t.Errorf("%d rows of cpu, want 3:\n%s", n, got)
	}
}

// TestTables: every table has a header of distinct names with as many columns
// as each of its lines, and a line for each row or element of its list.
func TestTables(t *testing.T) {
	for _, kind := range Tables() {
		text := written(t, func(w io.Writer) error { return CSV(w, openRows(t, real), kind) })
		lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		head := slices.Sorted(slices.Values(lines[0]))
		if compact := slices.Compact(slices.Clone(head)); len(compact) != len(head) || len(head) < 8 {
			t.Errorf("%s: columns %v", kind, lines[0])
		}
		want := len(elements(t, kind))
		if len(lines)-1 != want {
			t.Errorf("%s: %d lines, want %d", kind, len(lines)-1, want)
		}
	}
	if err := CSV(io.Discard, openRows(t, real), "irqs"); err == nil || !strings.Contains(err.Error(), "unknown table") {
		t.Errorf("a table that is none: %v", err)
	}
}

// TestInterruptsTable: a list within a list is a line for each of the inner ones.
func TestInterruptsTable(t *testing.T) {
	row := record.IRQRow{ObservedHead: record.ObservedHead{Kind: record.KindIRQ, Host: "h", TNs: 1e9, WidthNs: 1e9},
		Lines: []record.IRQLine{{IRQ: 41, Name: "eth0-rx-0", CPUs: []record.IRQCPU{{CPU: 1, Count: 70}, {CPU: 3, Count: 2}}}, {IRQ: 42, Name: "eth0-rx-1"}}}
	list, ok := tableOf(record.KindIRQ)
	if !ok {
		t.Fatal("no table")
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := list.write(w, list.columns(), reflect.ValueOf(&row).Elem()); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], ",41,eth0-rx-0,1,70") || !strings.HasSuffix(lines[1], ",41,eth0-rx-0,3,2") {
		t.Errorf("%q", lines)
	}
}

// elements are the rows of a kind or, in a table with a list, its elements,
// read without package record.
func elements(t *testing.T, kind string) []any {
	t.Helper()
	list, _ := tableOf(kind)
	var all []any
	for line := range strings.Lines(rowsOf(t)) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		switch {
		case row["kind"] != kind:
		case list.list == "":
			all = append(all, row)
		default:
			l, _ := row[list.list].([]any)
			for _, one := range l {
				if list.inner == "" {
					all = append(all, one)
				} else if within, ok := one.(map[string]any)[list.inner].([]any); ok {
					all = append(all, within...)
				}
			}
		}
	}
	return all
}

// hostile is a name that breaks what is not escaped.
const hostile = "=cmd|' /C calc'!A0,\"q\"\r\n# EOF\\\n<script>\xff\u2028"

// TestHostileCells: what a process is called arrives as it was, but for an
// apostrophe before a formula.
func TestHostileCells(t *testing.T) {
	row, err := json.Marshal(&record.SubjectRow{ObservedHead: record.ObservedHead{Kind: record.KindSubject, Host: "a,b"}, Comm: hostile,
		Exe: "/bin/\"x\"", Listeners: []uint64{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	dir := changed(t, map[string]string{"series": string(row) + "\n"})
	text := written(t, func(w io.Writer) error { return CSV(w, openRows(t, dir), record.KindSubject) })
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	cells := map[string]string{}
	for i, name := range lines[0] {
		cells[name] = lines[1][i]
	}
	// encoding/json writes invalid UTF-8 as U+FFFD; csv reads \r\n within quotes as \n.
	want := "'" + strings.ReplaceAll(strings.ToValidUTF8(hostile, "\uFFFD"), "\r\n", "\n")
	if cells["comm"] != want || cells["exe"] != `/bin/"x"` || cells["host"] != "a,b" || cells["listeners"] != "1 2" {
		t.Errorf("%q", cells)
	}
}

// made writes a record of 2 s and opens it; fill fills in the run and its
// response times.
func made(t *testing.T, fill func(*record.Run, *hist.Hist)) *Source {
	t.Helper()
	w, err := record.Create(filepath.Join(t.TempDir(), "x.ndjson"), "20261121-093012-x7f2")
	if err != nil {
		t.Fatal(err)
	}
	started := time.Date(2026, 11, 21, 9, 30, 12, 0, time.UTC)
	sp := spec.Spec{Targets: []spec.Target{{Method: "GET", URL: "http://127.0.0.1:1/", Weight: 1}}, Condition: spec.Condition{Connections: 1}}
	if err := w.Start(record.Start{Created: started, Spec: sp}); err != nil {
		t.Fatal(err)
	}
	run := record.Run{Started: started, Target: sp.Targets[0].URL, Spec: sp, ElapsedS: 2}
	run.Load.Mode, run.Generator.RunDelay = "closed", -1
	h := new(hist.Hist)
	fill(&run, h)
	run.Latency = record.Latency{Response: record.QuantilesOf(h), Service: record.QuantilesOf(h), Lag: record.QuantilesOf(h)}
	text, err := h.EncodeV2()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range Latencies() {
		if err := w.Histogram(of, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(&run); err != nil {
		t.Fatal(err)
	}
	return open(t, w.File().Path)
}

// TestUnfinished: a run that was killed says what it can and refuses the rest.
func TestUnfinished(t *testing.T) {
	data := rowsOf(t)
	dir := changed(t, map[string]string{"histogram": "", "result": "", "series": data + `{"kind":"load","t_ns":5`})
	s := open(t, dir)
	if err := HGRM(io.Discard, s, "response"); err == nil || !strings.Contains(err.Error(), "killed before its histograms") {
		t.Error(err)
	}
	text := written(t, func(w io.Writer) error { return Prometheus(w, s) })
	for _, without := range []string{"ceiling_response", "ceiling_generator_cpu", "ceiling_generator_busiest"} {
		if strings.Contains(text, without) {
			t.Errorf("%s was not measured and is there", without)
		}
	}
	if !strings.Contains(text, "\nceiling_requests_completed_total 8") {
		t.Errorf("no requests in it:\n%s", text)
	}
	if text := written(t, func(w io.Writer) error { return JSON(w, s) }); !strings.Contains(text, `"unfinished": true`) {
		t.Error("the document does not say that the run is unfinished")
	}
	rows := openRows(t, dir)
	if got := written(t, func(w io.Writer) error { return NDJSON(w, rows, "") }); got != data {
		t.Error("the rows before the one that is cut off are not all there")
	}
	if rows.Bad != 0 || !rows.Truncated || !strings.Contains(rows.Problems[0], "killed while it was written") {
		t.Errorf("%v", rows.Problems)
	}
}

// TestNewerSchema: a record of a newer program is refused, not misread.
func TestNewerSchema(t *testing.T) {
	for head, want := range map[string]string{
		`{"kind":"run","schema":"ceiling.run/99"}`: "ceiling.run/99", "": "not a ceiling record", "[]": "not a ceiling record",
		`{"kind":"run","a":{"schema":"x"}}`:   "its schema is \"\"",
		`{"kind":"run","a":[1,2],"schema":7}`: "string",
	} {
		file := changed(t, map[string]string{"run": head + "\n"})
		if _, err := Open(record.File{Path: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: Open: %v", head, err)
		}
		if _, err := record.OpenRows(record.File{Path: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: OpenRows: %v", head, err)
		}
	}
	if _, err := record.OpenRows(record.File{Path: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no record") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestHistogramOfAnotherRun: one that does not belong is not exported.
func TestHistogramOfAnotherRun(t *testing.T) {
	var one hist.Hist
	one.Record(5)
	other, err := one.EncodeV2()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		other:                                 "not of one run",
		"":                                    "has none",
		"HISTFAAA!":                           "decode",
		other[:len(other)/2]:                  "decode",
		"HISTFAAAAB542pNpmSzMwMDABMQAAAEA//8": "decode",
	} {
		file := changed(t, map[string]string{"histogram": `{"kind":"histogram","of":"response","hdr":"` + text + `"}` + "\n"})
		if err := HGRM(io.Discard, open(t, file), "response"); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := open(t, real).Histogram("color"); err == nil {
		t.Error("a latency that is none has a histogram")
	}
}

// TestEmptyRun: a run without a request is written, not divided by.
func TestEmptyRun(t *testing.T) {
	s := made(t, func(*record.Run, *hist.Hist) {})
	for name, write := range map[string]func(io.Writer) error{
		"hgrm":        func(w io.Writer) error { return HGRM(w, s, "lag") },
		"openmetrics": func(w io.Writer) error { return Prometheus(w, s) },
		"json":        func(w io.Writer) error { return JSON(w, s) },
	} {
		if text := written(t, write); strings.Contains(text, "NaN") || text == "" {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// full fails every write, as a full disk does.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left on device") }

// TestWriteErrorsAreTold: no format swallows the error of its output.
func TestWriteErrorsAreTold(t *testing.T) {
	s := open(t, real)
	for name, write := range map[string]func(io.Writer) error{
		"json": func(w io.Writer) error { return JSON(w, s) }, "ndjson": func(w io.Writer) error { return NDJSON(w, openRows(t, real), "") },
		"csv":        func(w io.Writer) error { return CSV(w, openRows(t, real), "load") },
		"hgrm":       func(w io.Writer) error { return HGRM(w, s, "response") },
		"prometheus": func(w io.Writer) error { return Prometheus(w, s) },
	} {
		if err := write(full{}); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRows: whatever the series is, every line that comes out is one JSON
// object in UTF-8, and the table of it is a table.
func FuzzRows(f *testing.F) {
	f.Add([]byte(rowsOf(f))[:2000])
	f.Add([]byte(`{"kind":"load","host":"\xff","busy":1e308}`))
	f.Add([]byte("{\"kind\":\"load\",\"host\":\"\xff\"}\n"))
	f.Add([]byte(`{"kind":"cpu","cores":[{"cpu":1},{}]}` + "\n{"))
	f.Add([]byte(`{"kind":"subject","listeners":[1,2],"comm":"=1+1"}`))
	file := filepath.Join(f.TempDir(), "x.ndjson")
	f.Fuzz(func(t *testing.T, series []byte) {
		if err := os.WriteFile(file, append([]byte(`{"kind":"run","schema":"`+record.Schema+`"}`+"\n"), series...), 0o644); err != nil {
			t.Fatal(err)
		}
		text := written(t, func(w io.Writer) error { return NDJSON(w, openRows(t, file), "") })
		for line := range strings.Lines(text) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil || !strings.HasSuffix(line, "\n") || strings.ToValidUTF8(line, "") != line {
				t.Errorf("%v: %q", err, line)
			}
		}
		for _, kind := range []string{"load", "cpu", "subject", "observer"} {
			table := written(t, func(w io.Writer) error { return CSV(w, openRows(t, file), kind) })
			if _, err := csv.NewReader(strings.NewReader(table)).ReadAll(); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	})
}
