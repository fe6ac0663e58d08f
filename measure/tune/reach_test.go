//go:build linux

package tune

import (
	"net/netip"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

// TestReaches: what a load crosses decides what a tuning can act on. The load goes over the
// loopback, or over a unix socket; the host has a NIC with 32 queues.
func TestReaches(t *testing.T) {
	needs.Time(t)
	loopback := Target{URL: "http://127.0.0.1:80", Server: netip.MustParseAddrPort("127.0.0.1:80"), Here: true}
	socket := Target{URL: "unix:/run/x.sock:/"}
	h := fixture(t, "c8i")
	const wrong = "cannot act on the load: requests to http://127.0.0.1:80 cross lo, not ens5; write interface: lo, or give"
	for _, c := range []struct {
		to       *Target
		settings string // KNOB=value, blanks in between
		want     string // in the error; "": none
	}{
		{&loopback, "irq_affinity=interrupts", wrong},
		{&loopback, "rps_cpus=all", wrong},
		{&loopback, "rps_flow_cnt=4096", wrong},
		{&loopback, "xps_cpus=all", wrong},
		{&loopback, "napi_defer_hard_irqs=2", wrong},
		{&loopback, "mtu=1500", wrong},
		{&loopback, "net.core.netdev_max_backlog=5000 rps_cpus=all", wrong},
		{&loopback, "net.core.netdev_max_backlog=5000", ""},
		{&loopback, "net.core.somaxconn=100", ""},
		{&loopback, "net.ipv4.tcp_fin_timeout=30", ""},
		{&socket, "rps_cpus=all", "unix:/run/x.sock:/ is a unix socket, and its bytes cross no interface; give the server a TCP address"},
		{&socket, "net.ipv4.tcp_fin_timeout=30", "is a unix socket"},
		{&socket, "net.core.netdev_max_backlog=5000", "is a unix socket"},
		{&socket, "net.core.somaxconn=100", ""},
	} {
		p := Profile{Name: "test"}
		for _, text := range strings.Fields(c.settings) {
			knob, value, _ := strings.Cut(text, "=")
			p.Settings = append(p.Settings, Setting{Set: knob, To: value})
		}
		plan, err := h.Plan(p, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		err = plan.Reaches(c.to)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s, %s: %v, want %q", c.to.URL, c.settings, err, c.want)
		}
	}
}
