//go:build linux

package run

import (
	"net/netip"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict"
	"ceiling/verdict/prose"
)

// Of a name with several addresses the run says which one it measured; localhost
// has two on most hosts, and is one server.
func TestChosenAddressIsTold(t *testing.T) {
	one, two, loopback := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("127.0.0.1")
	for _, k := range []struct {
		ips  []netip.Addr
		want string
	}{
		{[]netip.Addr{one}, ""},
		{[]netip.Addr{netip.MustParseAddr("::1"), loopback}, ""},
		{[]netip.Addr{one, two}, "h has 2 addresses: all requests went to 192.0.2.2, the first that accepted a connection"},
	} {
		if got := chosen("h", k.ips, k.ips[len(k.ips)-1]); got != k.want {
			t.Errorf("%v: %q, want %q", k.ips, got, k.want)
		}
	}
	r := &record.Run{NotMeasured: []record.NotMeasured{{What: record.OtherAddresses, Why: "h has 2 addresses", Part: true}}}
	if caveats := strings.Join(prose.Texts(verdict.Judge(r, nil).Caveats), "\n"); !strings.Contains(caveats, "h has 2 addresses; measure each") {
		t.Error(caveats)
	}
}
