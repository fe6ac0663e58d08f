//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/experiment/borrowed"
	"ceiling/experiment/spec"
)

// TestEveryVerbFillsIn: where a verb sends requests, it sends them filled in, over HTTP/1.1.
func TestEveryVerbFillsIn(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(rows, []byte("user\nann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const url = "https://127.0.0.1:1/{{.user}}"
	for _, line := range [][]string{{"run"}, {"run", "-c", "1,2"}, {"profile"}, {"find", "--slo", "p99<1s"}, {"prove"}} {
		j, err := resolve(append(line, "--feed", rows, url)...)
		o, is := j.(*order)
		if err != nil || !is {
			t.Errorf("%v: %v", line, err)
			continue
		}
		if o.compose == nil || o.plan.Load.HTTP != spec.HTTP11 || o.plan.Requests[0].From == nil || o.one != nil && o.one.HTTP != spec.HTTP11 {
			t.Errorf("%v: %+v", line, o.plan)
		}
	}
}

// A field of -H goes in place of the request's own: curl names itself in each of its requests.
func TestFieldsReplaceCurls(t *testing.T) {
	j, err := resolve("run", "--curl", "curl -H 'X: 1' http://127.0.0.1:1/", "-H", "user-agent: me")
	o, is := j.(*order)
	if err != nil || !is {
		t.Fatal(err)
	}
	if got := fmt.Sprint(o.plan.Requests[0].Header); got != "[Accept: */* X: 1 user-agent: me]" {
		t.Error(got)
	}
}

// The body of curl's -d @- is the standard input, once; where that is the file of the requests, it is refused.
func TestStandardInputIsReadOnce(t *testing.T) {
	var in io.Reader = strings.NewReader("a\nb")
	set, err := borrowed.Curl("curl --data-binary @- http://h", opener("", &in))
	if err != nil || string(set.Requests[0].Body) != "a\nb" {
		t.Fatalf("%+v, %v", set, err)
	}
	for _, line := range []string{"curl -d @- http://h", "curl --json @- http://h", "curl -H @- http://h", "curl -F a=@- http://h", "curl --data-urlencode a@- http://h"} {
		if set, err := borrowed.Curl(line, opener("", &in)); err == nil || !strings.Contains(err.Error(), "the standard input was read already") {
			t.Errorf("%s: %+v, %v", line, set, err)
		}
	}
	if _, err := borrowed.Curl("curl -d @./- http://h", opener(".", &in)); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is called -: %v", err)
	}
}
