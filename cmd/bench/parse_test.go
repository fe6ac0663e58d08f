package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ceiling/internal/archive"
)

func parsers() map[string]func([]byte) (answer, error) {
	list := map[string]func([]byte) (answer, error){}
	for _, k := range kinds() {
		list[k.Name] = k.parse
	}
	return list
}

// peers holds what the tools printed, and says of which versions and when.
const peers = "testdata/peers.txtar"

func sample(t testing.TB, name string) []byte {
	t.Helper()
	if !strings.HasPrefix(name, ours) {
		return archive.Read(t, peers, name)
	}
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseSamples(t *testing.T) {
	for _, c := range []struct {
		tool, file     string
		completed, bad uint64
		elapsedS       float64
	}{
		{wrk, "wrk.txt", 143341, 0, 1},
		{wrk, "wrk_pipelined.txt", 1048768, 0, 1},
		{wrk, "wrk_404.txt", 0, 73750, 1.1},
		{wrk, "wrk_dead.txt", 149869, 64 + 146880, 2},
		{"h2load", "h2load.txt", 149510, 0, 1},
		{"h2load", "h2load_404.txt", 0, 80133, 1},
		{"h2load", "h2load_cut.txt", 193391, 0, 2.01},
		{"ab", "ab.txt", 124135, 0, 1},
		{"ab", "ab_404.txt", 0, 48774, 1},
		{"hey", "hey.txt", 45821, 0, 1.0029},
		{"hey", "hey_404.txt", 0, 38473, 1.0004},
		{"hey", "hey_dead.txt", 13230, 56380 + 1, 2.0038},
		{"oha", "oha.json", 145101, 0, 1.002402402},
		{"oha", "oha_404.json", 0, 88596, 1.002283529},
		{"oha", "oha_refused.json", 0, 4, 0.000806146},
		{gcannon, "gcannon.json", 91635, 0, 1},
		{gcannon, "gcannon_404.json", 0, 103314, 1},
		{zrk, "zrk.json", 120953, 0, 2.002},
		{autocannon, "autocannon.json", 118000, 0, 1.06},
		{autocannon, "autocannon_404.json", 0, 47895, 1.01},
		{ours, "ceiling.json", 189353, 0, 1},
		{ours, "ceiling_404.json", 0, 56379, 1},
	} {
		a, err := parsers()[c.tool](sample(t, c.file))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if a.Completed != c.completed || a.Bad != c.bad || math.Abs(a.ElapsedS-c.elapsedS) > 2e-3*c.elapsedS {
			t.Errorf("%s: %d completed, %d bad, %v s; want %d, %d, %v", c.file, a.Completed, a.Bad, a.ElapsedS, c.completed, c.bad, c.elapsedS)
		}
		if (a.Ours != nil) != (c.tool == ours) {
			t.Errorf("%s: our own figures: %v", c.file, a.Ours)
		}
	}
}

func TestParseOwnFigures(t *testing.T) {
	a, err := parseOurs(sample(t, "ceiling.json"))
	if err != nil {
		t.Fatal(err)
	}
	o := a.Ours
	if o.UserNs != 50914000 || math.Abs(o.WorkerNs-646440786) > 1 || len(o.WorkerThreads) != 1 || o.WorkerThreads[0] != 31938 ||
		o.Outcome != "valid" {
		t.Errorf("%+v", *o)
	}
}

// TestParseRefuses has what a lenient parser would take: output that is cut,
// doubled, empty, or whose figures contradict each other.
func TestParseRefuses(t *testing.T) {
	replace := func(tool, file, pattern, with string) {
		t.Helper()
		data := sample(t, file)
		changed := regexp.MustCompile(pattern).ReplaceAll(data, []byte(with))
		if bytes.Equal(changed, data) {
			t.Fatalf("%s: nothing like %s in it", file, pattern)
		}
		if a, err := parsers()[tool](changed); err == nil {
			t.Errorf("%s with %q for %s was taken: %+v", file, with, pattern, a)
		}
	}
	replace(wrk, "wrk.txt", `143341 requests`, `286682 requests`)
	replace(wrk, "wrk.txt", `143341 requests`, `0 requests`)
	replace(wrk, "wrk.txt", `1\.00s`, `1.00 s`)
	replace(wrk, "wrk.txt", `(?m)^Requests/sec.*$`, ``)
	replace(wrk, "wrk_dead.txt", `read 64`, `read 99999999999999999999`)
	replace("h2load", "h2load.txt", `149510 2xx`, `149509 2xx`)
	replace("h2load", "h2load.txt", `149510 2xx`, `159510 2xx`)
	replace("h2load", "h2load.txt", `149510\.00 req/s`, `170000.00 req/s`)
	replace("h2load", "h2load.txt", `status codes`, `status`)
	replace("ab", "ab.txt", `Keep-Alive requests:    124135`, `Keep-Alive requests:    1000`)
	replace("ab", "ab.txt", `Keep-Alive requests:    \d+`, ``)
	replace("ab", "ab.txt", `1\.000 seconds`, `0.000 seconds`)
	replace("ab", "ab.txt", `124074\.58`, `24074.58`)
	replace("hey", "hey.txt", `45821 responses`, `40000 responses`)
	replace("hey", "hey.txt", `(?s)Status code distribution.*`, ``)
	replace("hey", "hey.txt", `1\.0029 secs`, `NaN secs`)
	replace("oha", "oha.json", `"200": 145101`, `"200": 1451010`)
	replace("oha", "oha.json", `"summary"`, `"sum"`)
	replace("oha", "oha.json", `"p50": [\d.e-]+`, `"p50": "fast"`)
	replace(gcannon, "gcannon.json", `"responses": 91635`, `"responses": 91636`)
	replace(gcannon, "gcannon.json", `"rps": 91615.04`, `"rps": 81615.04`)
	replace(gcannon, "gcannon.json", `"elapsed_sec": 1.000`, `"elapsed_sec": 0`)
	replace(gcannon, "gcannon.json", `(?s)"status": \{.*?\},`, ``)
	replace(autocannon, "autocannon.json", `"2xx"`, `"2yy"`)
	replace(autocannon, "autocannon.json", `"duration":1.06`, `"duration":0`)
	replace(ours, "ceiling.json", `ceiling.run/3`, `ceiling.run/2`)
	replace(ours, "ceiling.json", `"completed": ?189353`, `"completed": 189354`)
	replace(ours, "ceiling.json", `"in_flight": ?64`, `"in_flight": 63`)
	replace(ours, "ceiling.json", `"200": ?189353`, `"200": 189000`)
	replace(ours, "ceiling.json", `"completed_per_s": ?[\d.]+`, `"completed_per_s": 1`)

	for tool, parse := range parsers() {
		for _, junk := range []string{"", "\n", "{}", "[]", "null", "Requests/sec: 1.0\n"} {
			if a, err := parse([]byte(junk)); err == nil {
				t.Errorf("%s: %q was taken: %+v", tool, junk, a)
			}
		}
	}
}

// TestParseRefusesAnyCut cuts the JSON documents and the doubled texts.
func TestParseRefusesAnyCut(t *testing.T) {
	for tool, file := range map[string]string{"oha": "oha.json", autocannon: "autocannon.json", ours: "ceiling.json"} {
		data := bytes.TrimSpace(sample(t, file))
		for cut := 0; cut < len(data); cut += 97 {
			if _, err := parsers()[tool](data[:cut]); err == nil {
				t.Errorf("%s: its first %d bytes were taken", file, cut)
			}
		}
	}
	for tool, file := range map[string]string{wrk: "wrk.txt", "h2load": "h2load.txt", "ab": "ab.txt", "hey": "hey.txt", "oha": "oha.json",
		autocannon: "autocannon.json", ours: "ceiling.json"} {
		data := sample(t, file)
		if _, err := parsers()[tool](append(bytes.Clone(data), data...)); err == nil {
			t.Errorf("%s: two runs in one output were taken", file)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range archive.All(f, peers) {
		f.Add(file.Data)
	}
	f.Add(sample(f, "ceiling.json"))
	f.Add(sample(f, "ceiling_404.json"))
	all := parsers()
	f.Fuzz(func(t *testing.T, data []byte) {
		for tool, parse := range all {
			a, err := parse(data)
			if err == nil && (a.ElapsedS <= 0 || math.IsInf(a.ElapsedS, 0) || a.Completed+a.Bad == 0 && tool != "oha") {
				t.Errorf("%s took %+v", tool, a)
			}
		}
	})
}
