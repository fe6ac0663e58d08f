//go:build linux

package fleet

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
)

// host is a network namespace with a link to this one.
type host struct {
	t           *testing.T
	name, veth  string
	here, there netip.Addr
}

var hosts atomic.Uint32 // made so far: their names are the process's

// newHost makes one. Addresses are of 198.18.0.0/15, which RFC 2544 gives to
// measurements between networks.
func newHost(t *testing.T) *host {
	t.Helper()
	n := hosts.Add(1)
	pid := uint32(os.Getpid())
	base := uint32(198)<<24 | 19<<16 | (pid%2048*8+n%8)*4
	at := func(x uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
	}
	h := &host{t: t, name: fmt.Sprintf("fleet-%d-%d", pid, n), veth: fmt.Sprintf("fl%dv%d", pid, n), here: at(base + 1), there: at(base + 2)}
	h.ip("netns add " + h.name)
	t.Cleanup(func() { h.ip("netns delete " + h.name) })
	h.ip("link add " + h.veth + " type veth peer name eth0 netns " + h.name)
	t.Cleanup(func() { h.ip("link delete " + h.veth) })
	h.ip("address add " + h.here.String() + "/30 dev " + h.veth)
	h.ip("link set " + h.veth + " up")
	h.ip("-n " + h.name + " address add " + h.there.String() + "/30 dev eth0")
	h.ip("-n " + h.name + " link set eth0 up")
	h.ip("-n " + h.name + " link set lo up")
	return h
}

func (h *host) ip(args string) {
	h.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		h.t.Errorf("ip %s: %v: %s", args, err, out)
	}
}

// TestLinkDown: the link of one agent's machine is down for 5 s, which nobody
// minds, and for ever: then it is lost, and stops by itself.
func TestLinkDown(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	for _, forEver := range []bool{false, true} {
		t.Run(fmt.Sprint(forEver), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			b := newBedAt(t, h.here.String())
			b.agent("a1", nil)
			o, grace := lossy(true), "2s"
			if !forEver {
				o.lossAfter, grace = lossDefault, graceDefault.String()
			}
			cut := b.child("a2", "", "ip", "netns", "exec", h.name, "env", childGrace+"="+grace)
			w, _ := b.work(o)
			n := &notes{}
			n.each = func(record.LoadRow) {
				if len(n.rows) != 3 {
					return
				}
				h.ip("link set " + h.veth + " down")
				if !forEver {
					time.AfterFunc(5*time.Second, func() { h.ip("link set " + h.veth + " up") })
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
				await(t, "it stopped by itself", func() bool { return cut.has("stopped because no word of the driver") })
			}
		})
	}
}
