//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

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
