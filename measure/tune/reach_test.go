//go:build linux

package tune

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
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
		{&loopback, "irqbalance=stopped", "cross lo, which no interrupt serves"},
		{&loopback, "net.core.busy_poll=50", "which has no hardware to poll"},
		{&loopback, "net.core.rps_sock_flow_entries=32768", "which has no rps_flow_cnt"},
		{&loopback, "net.core.netdev_max_backlog=5000", ""},
		{&loopback, "net.core.somaxconn=100", ""},
		{&loopback, "net.ipv4.tcp_fin_timeout=30", ""},
		{&loopback, "net.core.busy_poll=50 net.core.somaxconn=100", ""},
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

// TestAcceptQueueOfTheServer: it has its own limit, whatever a new listener gets.
func TestAcceptQueueOfTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := netip.MustParseAddrPort(l.Addr().String())
	most, err := strconv.Atoi(sys.FileText((&Host{}).tree(), "proc/sys/net/core/somaxconn"))
	if err != nil {
		t.Fatal(err)
	}
	e := effects{host: &Host{}, way: &way{load: &Target{URL: "http://x", Server: at}, crosses: []string{"lo"}}}
	for after, want := range map[int]string{most: InEffect, most + 1: NotShown, most - 1: NotInEffect} {
		if effect, what := e.listener(&Change{After: strconv.Itoa(after)}); effect != want {
			t.Errorf("%d of %d: %s: %s, want %s", after, most, effect, what, want)
		}
	}
	e.way.load.Server = netip.AddrPortFrom(at.Addr(), 1)
	if effect, what := e.listener(&Change{After: "1"}); effect != NotShown || !strings.Contains(what, "no socket") {
		t.Errorf("%s: %s", effect, what)
	}
}
