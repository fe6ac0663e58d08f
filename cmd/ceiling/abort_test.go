//go:build linux

package main

import (
	"strings"
	"testing"

	"ceiling/record"
)

// TestAbort: by the last second, not by what was before it, and for each run of a plan anew.
func TestAbort(t *testing.T) {
	share, err := abortShare("10%")
	if err != nil {
		t.Fatal(err)
	}
	a := &abort{share: share}
	at := int64(0)
	row := func(completed, bad, failed uint64) string {
		at += 1e8
		return a.row(&record.LoadRow{TNs: at, WidthNs: 1e8, Completed: completed, Bad: bad, Failed: failed}, nil)
	}
	if why := row(10, 10, 0); why != "" {
		t.Errorf("of 10 requests: %s", why)
	}
	for range 12 {
		if why := row(1000, 90, 0); why != "" {
			t.Errorf("9%%: %s", why)
		}
	}
	if why := row(100, 0, 1000); !strings.HasPrefix(why, "18") || !strings.Contains(why, "--abort-errors 10%") {
		t.Errorf("a burst of failures: %q", why)
	}
	at = 0
	if why := row(15, 1, 0); why != "" {
		t.Errorf("the next run: %s", why)
	}
	for _, text := range []string{"0", "many", "-1%", "10"} {
		if _, err := abortShare(text); err == nil || !strings.Contains(err.Error(), "--abort-errors 10%") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
