package selftest

import (
	"fmt"
	"net"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// pushingServers plant a subscriber that stops reading, whose events are either queued until all
// wait for it, or dropped.
func pushingServers() []Scenario {
	pushing := func(d *params, slow string) plan {
		perS, bytes, n := d.whole(150, 250), d.whole(10_000, 14_000), d.whole(8, 16)
		p := plan{says: fmt.Sprintf("%d × %d events/s of %d bytes", n, perS, bytes), spec: d.run(n), path: "/events",
			subject: host{serve: []string{"fasthttp", "--push", fmt.Sprintf("rate=%d,size=%d,slow=%s,queue=8", perS, bytes, slow)}},
			during:  []action{{.05, subscribeAndStop}}}
		p.spec.Kind, p.spec.Duration = spec.Events, 12*time.Second // the buffers in between take some seconds to fill
		return p
	}
	return []Scenario{
		{"push-blocked", "a subscriber stops reading, and publishing waits for it", need{}, func(d *params) plan {
			p := pushing(d, "block")
			p.accept = only(record.Subscribers, "publishing waits for subscriber 127.0.0.1:")
			return p
		}},
	}
}

// subscribeAndStop subscribes and does not read.
func subscribeAndStop(st *fixture) error {
	c, err := net.DialTimeout("tcp", st.addr, time.Second)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	st.later(c.Close)
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", st.path, st.addr)
	return err
}
