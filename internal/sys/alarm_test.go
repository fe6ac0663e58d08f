//go:build linux

package sys

import (
	"testing"
	"time"
)

// TestAlarm: no wait ends early, whatever was waited for before.
func TestAlarm(t *testing.T) {
	t.Parallel()
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, d := range []time.Duration{-time.Second, 0, 1, 700 * time.Microsecond, 3 * time.Millisecond, 50 * time.Microsecond} {
		begun := time.Now()
		if err := a.Wait(d); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < d {
			t.Errorf("waited %v of %v", took, d)
		}
	}
}
