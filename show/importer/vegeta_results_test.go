package importer

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ceiling/show/face"
)

// vegetaResults stands for what vegeta writes (lib/results.go, v12.11); gob sends
// the name of the type, which is Result there.
func vegetaResults(count int, encode func(any) error) error {
	type Result struct {
		Attack    string        `json:"attack"`
		Seq       uint64        `json:"seq"`
		Code      uint16        `json:"code"`
		Timestamp time.Time     `json:"timestamp"`
		Latency   time.Duration `json:"latency"`
		BytesOut  uint64        `json:"bytes_out"`
		BytesIn   uint64        `json:"bytes_in"`
		Error     string        `json:"error"`
		Body      []byte        `json:"body"`
		Method    string        `json:"method"`
		URL       string        `json:"url"`
		Headers   http.Header   `json:"headers"`
	}
	began := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for i := range count {
		r := Result{Seq: uint64(i), Code: 200, Timestamp: began.Add(time.Duration(i) * 10 * time.Millisecond),
			Latency: time.Duration(i+1) * 100 * time.Microsecond,
			BytesIn: 16, Body: []byte("{\"hello\":\"you\"}"), Method: "GET", URL: "http://127.0.0.1:8080/", Headers: http.Header{"Server": {"x"}}}
		if i%50 == 49 {
			r.Code, r.Error, r.BytesIn, r.Body = 0, "connection refused", 0, nil
		}
		if err := encode(&r); err != nil {
			return err
		}
	}
	return nil
}

// writeVegetaResults writes the file of results anew.
func writeVegetaResults(t *testing.T, name string) {
	t.Helper()
	var out bytes.Buffer
	if err := vegetaResults(200, gob.NewEncoder(&out).Encode); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestVegetaResults reads the same 200 results as a gob and as JSON.
func TestVegetaResults(t *testing.T) {
	var binary, lines bytes.Buffer
	if err := vegetaResults(200, gob.NewEncoder(&binary).Encode); err != nil {
		t.Fatal(err)
	}
	if err := vegetaResults(200, json.NewEncoder(&lines).Encode); err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer // what ceiling vegeta attack writes
	encode, err := face.Encoder(&ours, "gob")
	if err != nil {
		t.Fatal(err)
	}
	if err := face.ReadResults(bytes.NewReader(binary.Bytes()), encode); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"gob": binary.Bytes(), "JSON": lines.Bytes(), "ours": ours.Bytes()} {
		r, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p50, _ := r.Quantile(.5)
		p99, _ := r.Quantile(.99)
		// Begun over 1.99 s, the last one took 20 ms; the k-th took k × 100 µs.
		if r.Tool != Vegeta || r.Requests != 196 || r.Failed() != 4 || r.DurationS != 2.01 || p50 != 10_000_000 || p99 != 19_800_000 ||
			*r.MeanNs != 10_050_000 || *r.BytesRead != 196*16 {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := Parse(data[:len(data)-20]); err == nil || !strings.Contains(err.Error(), "result 200 is damaged, or the file is cut off") {
			t.Errorf("%s cut off: %v", name, err)
		}
		damaged := bytes.Clone(data)
		for i := len(data) / 2; i < len(data)/2+40; i++ {
			damaged[i] ^= 0x5a
		}
		if _, err := Parse(damaged); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s damaged: %v", name, err)
		}
	}
}

// TestGarbage: what every importer says of garbage is one line that tells what was
// expected.
func TestGarbage(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing": nil, "spaces": []byte(" \n\t"), "zeros": make([]byte, 4096), "noise": bytes.Repeat([]byte{0xff, 0xfe, 0x1b, '\n', 0x80}, 2000),
		"a program": []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 300)), "a log": []byte(strings.Repeat("GET / 200\n", 100)),
		"an array":           []byte("[1,2,3]"),
		"gob without an end": []byte("Result Attack Timestamp Latency BytesIn"),
	} {
		_, err := Parse(data)
		if err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Two tools in one file, and each half of one.
	for _, pair := range [][2]string{{"wrk.txt", "hey.txt"}, {"hey.txt", "ab_close.txt"}, {"ab_close.txt", "ab_404.txt"},
		{"h2load_time.txt", "h2load_count.txt"}, {"autocannon_bare.txt", "autocannon_404.txt"}, {"gowrk.txt", "gowrk_overall.txt"}} {
		both := fmt.Appendf(nil, "%s\n%s", read(t, pair[0]), read(t, pair[1]))
		if r, err := Parse(both); err == nil {
			t.Errorf("%v in one file were taken: %+v", pair, r)
		} else if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", pair, err)
		}
	}
	for _, name := range []string{"ab_keepalive.txt", "h2load_time.txt", "autocannon_bare.txt", "gowrk.txt"} {
		data := read(t, name)
		if r, err := Parse(data[:len(data)/3]); err == nil {
			t.Errorf("the first third of %s was taken: %+v", name, r)
		}
	}
}
