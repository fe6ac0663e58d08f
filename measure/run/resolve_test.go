//go:build linux

package run

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"ceiling/experiment/spec"
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

// Of all of a name's addresses one that refuses is named, with its cause; where --resolve gives them it is
// an error.
func TestRefusingAddressIsTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := spec.Address{Network: spec.TCP, Host: "h", Port: uint16(l.Addr().(*net.TCPAddr).Port), At: "127.0.0.1,127.0.0.2", All: true}
	refusal := fmt.Sprintf("127.0.0.2:%d: connect: connection refused", a.Port)
	if _, err := resolve(t.Context(), a, nil); err == nil || !strings.Contains(err.Error(), "--all-addresses: "+refusal+" of 127.0.0.1,127.0.0.2; start the server there") {
		t.Errorf("%v", err)
	}
	a.All = false
	if to, err := resolve(t.Context(), a, nil); err != nil || to.refused != "" {
		t.Errorf("%+v, %v", to, err)
	}
	ips := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")}
	accept, refused := accepting(t.Context(), ips, a.Port, true)
	if len(accept) != 1 || accept[0] != ips[1] || len(refused) != 1 || refused[0] != refusal {
		t.Errorf("%v, %q", accept, refused)
	}
	r := &record.Run{NotMeasured: []record.NotMeasured{{What: record.OtherAddresses, Why: "h has 2 addresses, 1 of which got no connection", Part: true}}}
	r.Spec.AllAddresses = true
	if caveats := strings.Join(prose.Texts(verdict.Judge(r, nil).Caveats), "\n"); !strings.Contains(caveats, "1 of which got no connection; start the servers there") {
		t.Error(caveats)
	}
}
