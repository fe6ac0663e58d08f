//go:build linux

package load

import (
	"slices"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
	"ceiling/internal/ring"
	"ceiling/internal/sys"
)

// TestPortablePinned: the CPUs of a run whose workers have no threads are those of the whole process,
// until it ends.
func TestPortablePinned(t *testing.T) {
	needs.Engine(t)
	before, err := sys.AllowedCPUs(0)
	if err != nil {
		t.Fatal(err)
	}
	c := config(t, serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x")))), ring.Portable, 0)
	c.CPUs, c.Duration = before[:1], 150*time.Millisecond
	var during []int
	clean := start(t.Context(), t, c, &watcher{onOpen: func() { during, err = sys.AllowedCPUs(0) }})
	after, errAfter := sys.AllowedCPUs(0)
	if err != nil || errAfter != nil || !slices.Equal(during, before[:1]) || !slices.Equal(after, before) || clean.Total.Completed == 0 {
		t.Errorf("on CPUs %v before, %v meanwhile, %v after; %v %v; completed %d", before, during, after, err, errAfter, clean.Total.Completed)
	}
}
