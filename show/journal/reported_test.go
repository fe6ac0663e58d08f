package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const wrkOutput = `Running 10s test @ http://10.0.0.2:8080/read
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms  300.00us   9.00ms   80.00%
    Req/Sec    31.00k     1.00k   33.00k    70.00%
  Latency Distribution
     50%    0.98ms
     75%    1.10ms
     90%    1.40ms
     99%    2.10ms
  620000 requests in 10.00s, 2.70GB read
Requests/sec:  62000.00
Transfer/sec:    276.00MB
`

// Figures of another tool are marked with it, wherever they stand.
func TestReportedFigures(t *testing.T) {
	dir := t.TempDir()
	entry := filepath.Join(dir, "0001-other")
	if err := os.MkdirAll(filepath.Join(entry, recordsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{entryFile: "", "records/wrk.txt": wrkOutput, "records/note.txt": "no tool wrote this"} {
		if err := os.WriteFile(filepath.Join(entry, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := &Entry{Dir: entry, Name: "0001-other"}
	for inside, want := range map[string]string{
		`(reported "records/wrk.txt").Rate`: "62,000 req/s (reported by wrk)", `(reported "records/wrk.txt").P99`: "2.10 ms (reported by wrk)",
		`(reported "records/wrk.txt").Answered`: "620,000 (reported by wrk)", `(reported "records/wrk.txt").Reporter`: "wrk",
		`times (reported "records/wrk.txt").P50 (reported "records/wrk.txt").P99`: "2.14",
	} {
		a, err := e.answer(inside)
		if err != nil || !strings.Contains(a.text(), want) {
			t.Errorf("%s: %q, %v; want %q", inside, a.text(), err, want)
		}
	}
	for inside, want := range map[string]string{
		`(reported "records/wrk.txt").P999`: "wrk does not report it", `(reported "records/none.txt").Rate`: "no such file",
		`(reported "../../wrk.txt").Rate`: "not in the entry's folder", `(reported "records/note.txt").Rate`: "records/note.txt",
		`(reported "records/wrk.txt").Speed`: "unknown .Speed", `(reported "records/wrk.txt")`: "has figures",
	} {
		if _, err := e.answer(inside); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", inside, err, want)
		}
	}
}
