package load

import (
	"ceiling/internal/eventstream"
	"ceiling/internal/hist"
	"ceiling/internal/http1"
)

// Early is what came before the ends of responses, each since its request was sent.
type Early struct {
	// FirstByte of every request that ended; one that failed has the time until then, as in
	// Tally.Service. Empty if each response came in one piece: then it is Tally.Service.
	FirstByte hist.Hist
	// FirstEvent of the Responses that had server-sent events (text/event-stream) and ended,
	// and the number of their Events.
	FirstEvent        hist.Hist
	Responses, Events uint64
}

func (e *Early) reset() {
	e.FirstByte.Reset()
	e.FirstEvent.Reset()
	e.Responses, e.Events = 0, 0
}

// took records the service time of n requests, and the time to their first byte.
func (e *Early) took(service *hist.Hist, serviceNs, firstNs int64, n uint64) {
	if firstNs != serviceNs || e.FirstByte.Count() > 0 {
		if e.FirstByte.Count() == 0 {
			e.FirstByte.Merge(service)
		}
		e.FirstByte.RecordN(firstNs, n)
	}
	service.RecordN(serviceNs, n)
}

// add adds another tally's, before its service times are added.
func (e *Early) add(service *hist.Hist, o *Early, others *hist.Hist) {
	e.Responses += o.Responses
	e.Events += o.Events
	e.FirstEvent.Merge(&o.FirstEvent)
	if e.FirstByte.Count() == 0 && o.FirstByte.Count() == 0 {
		return
	}
	if e.FirstByte.Count() == 0 {
		e.FirstByte.Merge(service)
	}
	if o.FirstByte.Count() > 0 {
		others = &o.FirstByte
	}
	e.FirstByte.Merge(others)
}

// arriving is a response that arrives in parts.
type arriving struct {
	firstNs int64 // its first part; 0: none is there
	eventNs int64 // its first event
	count   uint64
	events  eventstream.Reader
}

// begins notes a part of a response that is not its last.
func (a *arriving) begins(now int64) {
	if a.firstNs == 0 {
		a.firstNs = now
	}
}

// take counts the events that end in a piece of a body.
func (a *arriving) take(data []byte, now int64) error {
	for len(data) > 0 {
		n, event, err := a.events.Next(data)
		if err != nil {
			return err
		}
		if event {
			if a.count++; a.count == 1 {
				a.eventNs = now
			}
		}
		data = data[n:]
	}
	return nil
}

// first returns when the first byte came of a response that ended now.
func (a *arriving) first(now int64) int64 {
	if a == nil || a.firstNs == 0 {
		return now
	}
	return a.firstNs
}

// ends counts the events of a response that has ended; it was sent at the given time. The next begins.
func (a *arriving) ends(t *Tally, sentNs int64) {
	if a == nil || a.firstNs == 0 && a.count == 0 {
		return
	}
	if a.count > 0 {
		t.Early.Responses++
		t.Early.Events += a.count
		t.Early.FirstEvent.Record(a.eventNs - sentNs)
	}
	*a = arriving{}
}

// part returns what a connection's response has that arrives in parts.
func (c *conn) part() *arriving {
	if c.arriving == nil {
		c.arriving = new(arriving)
	}
	return c.arriving
}

// frame takes the bytes of b that belong to the current response; of an event stream its head, and
// then piece by piece.
func (c *conn) frame(b []byte, bodiless bool, l *http1.Learned, now int64) (n int, done bool, err error) {
	if c.reader.EventStream() {
		var data []byte
		if data, n, done, err = c.reader.Data(b); err == nil {
			err = c.part().take(data, now)
		}
	} else {
		n, done, err = c.reader.Next(b, bodiless, l)
	}
	if !done {
		c.part().begins(now)
	}
	return n, done, err
}
