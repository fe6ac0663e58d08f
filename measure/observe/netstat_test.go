//go:build linux

package observe

import (
	"net"
	"testing"
	"time"

	"ceiling/record"
)

// TestDatagramsDropped plants datagrams for a socket that nobody reads and whose buffer
// holds few: those that it does not have in the end were counted as dropped. Others of
// this host may lose some too.
func TestDatagramsDropped(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	from, err := net.DialUDP("udp4", nil, c.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	s, err := newNetstatSampler(&reader{buf: make([]byte, 1<<16)}, &side{netDir: "/proc/self/net"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var row *record.TCPRow
	sample := func(at tick) {
		if err := s.sample(at, func(r record.ObservedRow) { row = r.(*record.TCPRow) }); err != nil {
			t.Fatal(err)
		}
	}
	sample(tick{})
	const sent = 500
	for range sent {
		if _, err := from.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	held := int64(0)
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := c.Read(make([]byte, 2000)); err != nil {
			break // it has no more
		}
		held++
	}
	sample(tick{widthNs: 1})
	if held == 0 || held >= sent || row.UDPIn < held || row.UDPRcvbufErrors < sent-held {
		t.Errorf("%d of %d were held; counted %d taken and %d dropped", held, sent, row.UDPIn, row.UDPRcvbufErrors)
	}
}
