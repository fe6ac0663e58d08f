//go:build linux

package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/controller"
	"ceiling/measure/netns"
	"ceiling/record"
)

// TestLinkDown: the link of one agent's machine is down for 5 s, which nobody
// minds, and for ever: then it is lost, and stops by itself.
func TestLinkDown(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	for i, forEver := range []bool{false, true} {
		t.Run(fmt.Sprint(forEver), func(t *testing.T) {
			t.Parallel()
			host, err := netns.New(t.Context(), i, 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := host.Remove(); err != nil {
					t.Error(err)
				}
			})
			link := func(state string) {
				if err := host.Do(t.Context(), "ip", "link", "set", netns.Interface, state); err != nil {
					t.Error(err)
				}
			}
			b := newBed(t, controller.Options{Advertise: host.Addr.Prev().String()})
			b.agent("a1", nil)
			o, grace := lossy(true), "2s"
			if !forEver {
				o.lossAfter, grace = lossDefault, graceDefault.String()
			}
			cut := b.child("a2", "", "ip", "netns", "exec", host.Name, "env", childGrace+"="+grace)
			w, _ := b.work(o)
			n := &notes{}
			n.each = func(record.LoadRow) {
				if len(n.rows) != 3 {
					return
				}
				link("down")
				if !forEver {
					time.AfterFunc(5*time.Second, func() { link("up") })
				}
			}
			worked := b.run(w, 6*time.Second, n)
			if lost := worked.Agents[1].Lost; forEver != strings.HasPrefix(lost, "nothing was heard of it for ") {
				t.Errorf("lost: %q", lost)
			}
			if got := worked.Result.Total.Completed; !forEver && got != 96_000 || got < 48_000 {
				t.Errorf("%d completed", got)
			}
			if forEver {
				natstest.Await(t, "it stopped by itself", func() bool { return cut.Has("stopped because no word of the driver") })
			}
		})
	}
}
