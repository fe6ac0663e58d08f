package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ceiling/internal/archive"
)

var update = flag.Bool("update", false, "write the golden files anew")

// outputs are the outputs of testdata by name, and those that are refused.
func outputs(t testing.TB) []archive.File {
	t.Helper()
	var list []archive.File
	for _, f := range archive.All(t, samples) {
		if !strings.HasSuffix(f.Name, golden) {
			list = append(list, f)
		}
	}
	results, err := os.ReadFile(vegetaFile)
	if err != nil {
		t.Fatal(err)
	}
	return append(list, archive.File{Archive: "testdata/vegeta.txtar", Name: filepath.Base(vegetaFile), Data: results})
}

const (
	samples    = "testdata/*.txtar"
	golden     = ".golden"
	vegetaFile = "testdata/vegeta_results.bin" // no text
)

// TestGolden reads every output in testdata and compares all that is made of
// it; look at the golden files when they change.
func TestGolden(t *testing.T) {
	if *update {
		writeVegetaResults(t, vegetaFile)
	}
	read := 0
	for _, file := range outputs(t) {
		if file.Name == "wrk_refused.txt" {
			continue
		}
		read++
		t.Run(file.String(), func(t *testing.T) {
			r, err := Parse(file.Data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(&r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			if *update {
				archive.Update(t, file.Archive, file.Name+golden, got)
			}
			if diff := cmp.Diff(string(archive.Read(t, file.Archive, file.Name+golden)), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if read < 38 {
		t.Errorf("only %d outputs were read", read)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return archive.Read(t, samples, name)
}

func parsed(t *testing.T, name string) Result {
	t.Helper()
	r, err := Parse(read(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMissingIsNotZero: a quantile that was not printed is not there.
func TestMissingIsNotZero(t *testing.T) {
	for _, c := range []struct {
		file string
		q    float64
		ns   int64
		ok   bool
	}{
		{"wrk.txt", .99, 0, false},
		{"wrk_latency.txt", .5, 112_000, true},
		{"wrk_latency.txt", .99, 4_130_000, true},
		{"wrk_latency.txt", .999, 0, false},
		{"wrk2.txt", .5, 1_010_000, true},
		{"wrk2.txt", .9999, 8_520_000, true},
		{"vegeta.json", .95, 310_552, true},
		{"vegeta_old.json", .9, 0, false},
		{"oha.json", .9999, 4_529_852, true},
		{"oha_refused.json", .5, 0, false},
		{"autocannon_bare.txt", .975, 2_000_000, true},
		{"k6_export.json", .99, 0, false},
		{"k6_export.json", .95, 9_110_000, true},
		{"k6_summary.json", .999, 990_250_000, true},
		{"k6_v1.json", .5, 2_000_000, true},
	} {
		r := parsed(t, c.file)
		if ns, ok := r.Quantile(c.q); ns != c.ns || ok != c.ok {
			t.Errorf("%s: quantile %g is %d, %v; want %d, %v", c.file, c.q, ns, ok, c.ns, c.ok)
		}
	}
	if r := parsed(t, "oha_refused.json"); r.MeanNs != nil || r.MinNs != nil || r.MaxNs != nil {
		t.Error("a run without a response has a latency")
	}
	if r := parsed(t, "vegeta_old.json"); r.MinNs != nil {
		t.Error("an old report of vegeta has a minimum")
	}
}

// TestCaveats: what each tool is known not to say is said for it.
func TestCaveats(t *testing.T) {
	for file, want := range map[string][]string{
		"wrk.txt":             {"closed loop", "without --latency", "estimate"},
		"wrk_dead.txt":        {"events, not requests"},
		"wrk2.txt":            {"1 ms"},
		"hey.txt":             {"coordinated omission"},
		"oha.json":            {"closed loop unless it was given -q", "64 requests in flight"},
		"autocannon_bare.txt": {"resolution 1 ms", "coordinated omission"},
		"vegeta.json":         {"-max-workers"},
		"vegeta_failed.json":  {"500 requests without an answer"},
		"k6_export.json":      {"coordinated omission", "http_req_blocked"},
		"k6_summary.json":     {"500 iterations were due and never begun"},
	} {
		r := parsed(t, file)
		all := strings.Join(r.Caveats, "\n")
		for _, text := range want {
			if !strings.Contains(all, text) {
				t.Errorf("%s: no caveat has %q:\n%s", file, text, all)
			}
		}
		if strings.Contains(all, "over its time") {
			t.Errorf("%s: its rate was found not to fit:\n%s", file, all)
		}
	}
}

// TestFromAndLoop: response times are not mixed with service times.
func TestFromAndLoop(t *testing.T) {
	for file, want := range map[string][2]string{
		"wrk.txt": {FromSent, Closed}, "wrk2.txt": {FromDue, Open}, "vegeta.json": {FromDue, Open}, "hey.txt": {FromSent, Closed},
		"oha.json": {FromSent, ""}, "autocannon_bare.txt": {FromSent, ""}, "k6_export.json": {FromSent, ""}, "k6_summary.json": {FromSent, Open},
	} {
		if r := parsed(t, file); r.From != want[0] || r.Loop != want[1] {
			t.Errorf("%s: latency from %q in a loop %q, want %q", file, r.From, r.Loop, want)
		}
	}
}

// TestWhatDoesNotAddUpIsSaid changes one figure of a good output.
func TestWhatDoesNotAddUpIsSaid(t *testing.T) {
	change := func(file, old, new string) []byte {
		t.Helper()
		data := read(t, file)
		if !bytes.Contains(data, []byte(old)) {
			t.Fatalf("%s has no %q", file, old)
		}
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string // in a caveat
	}{
		{"wrk's rate", change("wrk.txt", "Requests/sec:  87792.33", "Requests/sec: 187792.33"), "its count over its time"},
		{"oha's rate", change("oha.json", `"requestsPerSec": 144817`, `"requestsPerSec": 44817`), "its count over its time"},
		{"wrk2's quantiles", change("wrk2.txt", "99.000%    2.33ms", "99.000%    1.33ms"), "is below its quantile"},
		{"wrk's transfer, as 10^6 bytes", change("wrk.txt", "11.89MB", "12.47MB"), "bytes per response × its rate are 12.5 MB/s: the figure fits in powers of 1000 only"},
		{"wrk's transfer, as 2^20 bytes of 2^20", change("wrk.txt", "11.89MB", "11.34MB"), "the figure fits in powers of 1024 only"},
		{"wrk's transfer", change("wrk.txt", "11.89MB", "13.89MB"), "it prints a transfer of 14.6 MB/s"},
		{"ab's transfer", change("ab_keepalive.txt", "112609.06", "12609.06"), "it prints a transfer of 12.9 MB/s"},
		{"hey's million", change("hey.txt", "[200]\t", "[200]\t99"), "one million"},
	} {
		r, err := Parse(c.data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if all := strings.Join(r.Caveats, "\n"); !strings.Contains(all, c.want) {
			t.Errorf("%s: no caveat has %q:\n%s", c.name, c.want, all)
		}
	}
	for _, c := range []struct {
		name string
		data []byte
		want string // in the error
	}{
		{"vegeta's counts", change("vegeta.json", `"requests":10000`, `"requests":10001`), "10001 requests, but 10000 statuses"},
		{"a negative count", change("vegeta.json", `"200":10000`, `"200":-1`), "damaged"},
		{"a negative latency", change("vegeta.json", `"99th":1002311`, `"99th":-5`), "cannot be"},
		{"a fraction of a request", change("k6_export.json", `"count": 6000, "rate": 199.88945},
        "iter`, `"count": 6000.5, "rate": 199.88945},
        "iter`), "invalid count"},
		{"more failures than requests", change("k6_v1.json", `"matches": 21`, `"matches": 2101`), "cannot be"},
		{"no time", change("k6_export.json", `"rate": 199.88945},
        "iter`, `"rate": 0},
        "iter`), "how long"},
		{"a huge time", change("oha.json", `"total": 1.002402402`, `"total": 1e300`), "cannot be"},
		{"more bad statuses than responses", change("wrk_404.txt", "responses: 64160", "responses: 64161"), "cannot be"},
		{"two runs in one file", append(read(t, "wrk.txt"), read(t, "wrk.txt")...), "2 lines"},
		{"a summary cut off", read(t, "wrk.txt")[:200], "0 lines"},
		{"JSON cut off", read(t, "oha.json")[:200], "damaged"},
		{"samples of k6", []byte(`{"type":"Metric","data":{}}` + "\n" + `{"type":"Point"}`), "more than one JSON value"},
		{"wrk that made no request", read(t, "wrk_refused.txt"), "wrk made no request"},
		{"a record of ours", []byte(`{"schema":"ceiling.run/3"}`), "record of ceiling itself"},
		{"another JSON", []byte(`{"a":1}`), "unknown format"},
		{"a text", []byte("hello"), "unknown format"},
		{"nothing", nil, "empty"},
	} {
		_, err := Parse(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: an error of several lines: %q", c.name, err)
		}
	}
}

// TestInvalid: a mean that needs more requests in flight than there are slots, and a run that failed.
func TestInvalid(t *testing.T) {
	for mean, invalid := range map[string]bool{"Total:          0    1 ": false, "Total:          0    3 ": true} {
		r, err := Parse(bytes.Replace(read(t, "ab_keepalive.txt"), []byte("Total:          0    1 "), []byte(mean), 1))
		if err != nil || r.Invalid != invalid || invalid && !strings.HasPrefix(r.Caveats[0], "Little's law: 16 connections × 1 = 16 slots; 28,83") {
			t.Errorf("%s: invalid is %v, %v: %q", mean, r.Invalid, err, r.Caveats)
		}
	}
	if r := parsed(t, "wrk_404.txt"); !r.Invalid || !strings.HasPrefix(r.Caveats[0], "100% of 64,160 requests failed") {
		t.Errorf("%q", r.Caveats)
	}
}

// TestUnsupported: a tool that is known and not read is named.
func TestUnsupported(t *testing.T) {
	for tool, text := range map[string]string{
		"siege":      "Transactions:\t\t        1000 hits\nAvailability:\t\t      100.00 %\nElapsed time:\t\t        0.31 secs\n",
		"bombardier": "Bombarding http://127.0.0.1:80 for 10s using 125 connection(s)\nStatistics        Avg      Stdev        Max\n  Reqs/sec   1000  10  1100\n",
		"locust":     "Type     Name  # reqs      # fails |    Avg     Min     Max    Med |   req/s  failures/s\n         Aggregated  10 0(0.00%) |  1 1 1 1 | 1.00 0.00\n",
		"Gatling":    "---- Global Information --------------------------------------------------------\n> request count  100 (OK=100    KO=0     )\n",
		"JMeter":     "timeStamp,elapsed,label,responseCode,responseMessage\n1,2,a,200,OK\n",
		"fortio":     "Fortio 1.60.3 running at 8 queries per second\nAggregated Function Time : count 40 avg 0.001\n",
	} {
		for _, data := range [][]byte{[]byte(text), eachLine([]byte(text), func(int) string { return "web-1  | " })} {
			if _, err := Parse(data); err == nil || !strings.HasPrefix(err.Error(), "read result: "+tool+" output is not read; supported: wrk, ") {
				t.Errorf("%s: %v", tool, err)
			}
		}
	}
	if _, err := Parse([]byte(`{"RunType":"HTTP","ActualQPS":8}`)); err == nil || !strings.Contains(err.Error(), "fortio output is not read") {
		t.Error(err)
	}
}

// TestH2loadIdentities: total, succeeded and failed fit by h2load's source, as do
// errored and failed; done and succeeded are not.
func TestH2loadIdentities(t *testing.T) {
	good := "requests: 1000 total, 700 started, 660 done, 640 succeeded, 360 failed, 350 errored, 20 timeout"
	for changed, want := range map[string]string{
		good: "",
		"requests: 1000 total, 700 started, 10 done, 640 succeeded, 360 failed, 350 errored, 20 timeout":  "", // reconnects count no done
		"requests: 1000 total, 700 started, 660 done, 640 succeeded, 360 failed, 10 errored, 20 timeout":  "",
		"requests: 1001 total, 700 started, 660 done, 640 succeeded, 360 failed, 350 errored, 20 timeout": "1001 requests in total are not",
		"requests: 1000 total, 700 started, 660 done, 640 succeeded, 360 failed, 361 errored, 20 timeout": "361 errored of 360 failed",
		"requests: 1000 total, 650 started, 640 done, 640 succeeded, 360 failed, 350 errored, 20 timeout": "657 statuses of 650 requests",
		"requests: 1000 total, 700 started, 660 done, 646 succeeded, 354 failed, 350 errored, 20 timeout": "646 succeeded with 645 statuses",
	} {
		r, err := Parse(bytes.Replace(read(t, "h2load_died.txt"), []byte(good), []byte(changed), 1))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", changed, err, want)
		}
		if err == nil && r.Requests+r.Failed() != 1000 {
			t.Errorf("%s: %d requests and %d errors of 1000", changed, r.Requests, r.Failed())
		}
	}
}

// TestHostileText: what is taken over from a file is fit to be shown.
func TestHostileText(t *testing.T) {
	data := bytes.Replace(read(t, "oha_refused.json"), []byte("Connection refused"),
		[]byte(`\u001b[31m\u0000<script>\n`+strings.Repeat("x", 2000)), 1)
	r, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Errors) != 1 || r.Errors[0].Count != 4 {
		t.Fatalf("errors %v", r.Errors)
	}
	if what := r.Errors[0].What; len(what) > textMax+4 || strings.ContainsAny(what, "\x1b\x00\n") || !strings.Contains(what, "<script>") {
		t.Errorf("%d bytes: %.60q", len(what), what)
	}
}

func TestManyCauses(t *testing.T) {
	causes := map[string]uint64{}
	for i := range 1000 {
		causes[strings.Repeat("e", i+1)] = uint64(i + 1)
	}
	text, err := json.Marshal(causes)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Replace(read(t, "oha_refused.json"), []byte(`{
    "Connection refused (os error 111)": 4
  }`), text, 1)
	r, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Errors) != causesMax || r.Failed() != 1000*1001/2 {
		t.Errorf("%d causes of %d errors", len(r.Errors), r.Failed())
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestReadIsBounded(t *testing.T) {
	if _, err := Read(endless{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an endless input: %v", err)
	}
	if _, err := Read(failing{}); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("an input that fails: %v", err)
	}
	r, err := Read(bytes.NewReader(append([]byte("\xef\xbb\xbf"), read(t, "vegeta.json")...))) // a byte order mark, as PowerShell writes
	if err != nil || r.Tool != Vegeta {
		t.Errorf("%v, %v", r.Tool, err)
	}
}

// FuzzParse: whatever the bytes are, there is an error of one line, or a result
// whose figures can be.
func FuzzParse(f *testing.F) {
	for _, file := range outputs(f) {
		f.Add(file.Data)
	}
	f.Add([]byte(`{"metrics":{"http_reqs":{"count":1e15,"rate":5e-324}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		if r.Tool == "" || r.From == "" || len(r.Caveats) == 0 {
			t.Errorf("no tool, origin or caveat: %+v", r)
		}
		if r.DurationS <= 0 || r.CompletedPerS < 0 || r.Connections < 0 {
			t.Errorf("%g s, %g/s, %d connections", r.DurationS, r.CompletedPerS, r.Connections)
		}
		for i, q := range r.Quantiles {
			if q.Q < 0 || q.Q > 1 || q.Ns < 0 || q.ResolutionNs < 1 || i > 0 && q.Q < r.Quantiles[i-1].Q {
				t.Errorf("quantiles %v", r.Quantiles)
			}
		}
		if _, err := json.Marshal(&r); err != nil {
			t.Error(err)
		}
	})
}

// TestH2loadCutStreams: with many streams many heads were read whose answers had not
// ended when the time was over; they are no responses. More than that is damage.
func TestH2loadCutStreams(t *testing.T) {
	cut := func(statuses string) ([]byte, error) {
		text := regexp.MustCompile(`requests: \d+ total, \d+ started, \d+ done, \d+ succeeded, \d+ failed`).ReplaceAll(read(t, "h2load_cut.txt"),
			[]byte("requests: 35318 total, 41718 started, 35318 done, 35318 succeeded, 0 failed"))
		text = regexp.MustCompile(`status codes: \d+ 2xx`).ReplaceAll(text, []byte("status codes: "+statuses+" 2xx"))
		_, err := Parse(text)
		return text, err
	}
	text, err := cut("35862")
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := Parse(text); r.Requests != 35318 || r.Statuses["2xx"] != 35318 {
		t.Errorf("%d requests, statuses %v", r.Requests, r.Statuses)
	}
	if _, err := cut("45862"); err == nil {
		t.Error("10,000 more statuses than responses are taken")
	}
}
