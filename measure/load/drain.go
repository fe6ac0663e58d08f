package load

import (
	"time"

	"ceiling/internal/ring"
)

// drain waits for the responses to what a closed loop had in flight when its window closed, for at
// most Config.Drain. They are not counted: their slots' time ended with the window. Closing the
// connections under them would have the server finish work for clients that are gone, log it as
// broken connections, and carry it into the next run.
func drain(w *worker) error {
	if w.openLoop || w.phase != draining || w.streams != nil || w.feeder != nil || w.shared.stop.Load() {
		return nil
	}
	w.tickNs, w.quota = maxTime, 0 // supply grants nothing
	for i := range w.conns {
		w.conns[i].waiting, w.conns[i].resend = 0, 0 // these never left
		if c := &w.conns[i]; c.state > closed && c.state < open {
			w.hangUp(uint32(i), c)
		}
	}
	for events := w.batch; ; {
		w.work(events)
		if w.now >= w.expireNs {
			w.expire()
		}
		if !anyAwaits(w.conns) || w.now >= w.drainNs || w.shared.stop.Load() {
			return nil
		}
		until := min(w.drainNs, w.expireNs, w.now+int64(100*time.Millisecond))
		var err error
		if events, err = w.ring.Wait(ring.Patience{Timeout: time.Duration(max(until-w.now, 0))}); err != nil {
			return err
		}
		w.now = w.clock()
	}
}

// anyAwaits reports whether a response may still come: requests of connections that the server
// closed are not sent again.
func anyAwaits(conns []conn) bool {
	for i := range conns {
		if c := &conns[i]; c.state == open && c.onWire > 0 {
			return true
		}
	}
	return false
}
