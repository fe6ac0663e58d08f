//go:build linux

package events

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A planted connection makes the events that a kernel would, and keeps where
// its request was.
type planted struct {
	port    uint16
	sockets [2]socket
	nowNs   int64
	events  []Event
	was     []stay
}

// stay is one visit to a place.
type stay struct {
	place      Place
	fromNs, to int64
}

func plant(port uint16, clientSeq, serverSeq uint32, nowNs int64) *planted {
	p := &planted{port: port, nowNs: nowNs}
	p.sockets[Client] = socket{id: uint64(port)<<8 + 1, written: clientSeq, arrived: serverSeq, taken: serverSeq}
	p.sockets[Server] = socket{id: uint64(port)<<8 + 2, written: serverSeq, arrived: clientSeq, taken: clientSeq}
	return p
}

// happens adds an event at the end of a stay.
func (p *planted) happens(place Place, ns int64, end End, kind Kind, bytes uint32) {
	p.was = append(p.was, stay{place, p.nowNs, p.nowNs + ns})
	p.nowNs += ns
	s := &p.sockets[end]
	e := Event{Ns: p.nowNs, Socket: s.id, Port: p.port, Address: 7, End: end, Kind: kind}
	switch kind {
	case Arrived:
		s.arrived += bytes
	case Taken:
		s.taken += bytes
	case Sending:
		e.Left = bytes
	}
	e.Written, e.Arrived, e.Taken = s.written, s.arrived, s.taken
	if kind == Sending {
		s.written += bytes
	}
	p.events = append(p.events, e)
}

// exchange is a request of one segment and an answer of one.
func (p *planted) exchange(ns [Places]int64, request, answer uint32) {
	p.happens(Generator, ns[Generator], Client, Sending, request)
	p.happens(ToServer, ns[ToServer], Server, Arrived, request)
	p.happens(AtServer, ns[AtServer], Server, Taken, request)
	p.happens(InServer, ns[InServer], Server, Sending, answer)
	p.happens(ToClient, ns[ToClient], Client, Arrived, answer)
	p.happens(AtClient, ns[AtClient], Client, Taken, answer)
}

// parts is a request of two segments, of which the server reads the first by
// itself, and an answer that it writes in two parts.
func (p *planted) parts(ns [Places]int64, request, answer uint32) {
	p.happens(Generator, ns[Generator], Client, Sending, 2*request)
	p.happens(ToServer, ns[ToServer], Server, Arrived, request)
	p.happens(AtServer, ns[AtServer], Server, Taken, request)
	p.happens(ToServer, ns[ToServer], Server, Arrived, request)
	p.happens(AtServer, ns[AtServer], Server, Taken, request/2)
	p.happens(AtServer, ns[AtServer], Server, Taken, request-request/2)
	p.happens(InServer, ns[InServer], Server, Sending, answer)
	p.happens(ToClient, ns[ToClient], Client, Arrived, answer)
	p.happens(AtClient, ns[AtClient], Client, Taken, answer)
	p.happens(InServer, ns[InServer], Server, Sending, answer)
	p.happens(ToClient, ns[ToClient], Client, Arrived, answer)
	p.happens(AtClient, ns[AtClient], Client, Taken, answer)
}

// within sums the stays inside an interval.
func (p *planted) within(fromNs, toNs int64) (ns [Places]int64) {
	for _, s := range p.was {
		ns[s.place] += max(min(s.to, toNs)-max(s.fromNs, fromNs), 0)
	}
	return ns
}

func all(uint16) bool { return true }

// eventsOf cuts events out of an interval.
func eventsOf(events []Event, fromNs, toNs int64) []Event {
	var cut []Event
	for _, e := range events {
		if e.Ns >= fromNs && e.Ns <= toNs {
			cut = append(cut, e)
		}
	}
	return cut
}

// burst gives one account of an interval.
func burst(f *Follower, events []Event, fromNs, toNs int64, gap bool) *Times {
	t := &Times{}
	f.Begin(fromNs, gap, all)
	f.End(toNs, eventsOf(events, fromNs, toNs), t)
	return t
}

// Whatever the requests are like, and wherever sequence numbers wrap, every
// nanosecond of a burst in which each connection moves is booked where it was
// spent.
func TestEveryNanosecondIsBooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, 1000)
		var events []Event
		var connections []*planted
		for i := range rapid.IntRange(1, 5).Draw(t, "connections") {
			p := plant(uint16(1000+i), rapid.Uint32().Draw(t, "client seq"), rapid.Uint32().Draw(t, "server seq"),
				rapid.Int64Range(0, 100).Draw(t, "begin"))
			for p.nowNs < 100_000 {
				var ns [Places]int64
				for place := range ns {
					ns[place] = length.Draw(t, "ns")
				}
				bytes := rapid.Uint32Range(2, 100_000)
				if rapid.Bool().Draw(t, "parts") {
					p.parts(ns, bytes.Draw(t, "request"), bytes.Draw(t, "answer"))
				} else {
					p.exchange(ns, bytes.Draw(t, "request"), bytes.Draw(t, "answer"))
				}
			}
			connections, events = append(connections, p), append(events, p.events...)
		}
		f := NewFollower(false)
		from := rapid.Int64Range(0, 20_000).Draw(t, "from")
		for from < 80_000 {
			to := from + rapid.Int64Range(15_000, 20_000).Draw(t, "width")
			got := burst(f, events, from, to, true)
			want, known := [Places]int64{}, int64(0)
			for _, p := range connections {
				for place, ns := range p.within(from, to) {
					want[place] += ns
				}
				known += to - from
			}
			if got.Connections != len(connections) || got.Dropped != 0 || got.Unpaired != 0 {
				t.Fatalf("%d connections, %d dropped, %d unpaired, of %d", got.Connections, got.Dropped, got.Unpaired, len(connections))
			}
			// What a burst ends in, after an answer's first part was read, is told by
			// a later one: at either edge at most what an exchange in parts spends in a
			// place, two stays.
			slack := int64(2 * 2 * len(connections) * 1000)
			for place := range want {
				if d := got.Ns[place] - want[place]; d > slack || -d > slack {
					t.Errorf("%d ns in place %d, planted %d", got.Ns[place], place, want[place])
				}
			}
			if d := got.KnownNs - known; d > slack || -d > slack {
				t.Errorf("%d ns known, of %d", got.KnownNs, known)
			}
			from = to + rapid.Int64Range(0, 5_000).Draw(t, "gap")
		}
	})
}

// Bursts that follow each other without a gap miss nothing, however long a
// request takes.
func TestBurstsWithoutGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plant(7, rapid.Uint32().Draw(t, "client seq"), rapid.Uint32().Draw(t, "server seq"), 0)
		for range rapid.IntRange(2, 10).Draw(t, "requests") {
			var ns [Places]int64
			for place := range ns {
				ns[place] = rapid.Int64Range(1, 5000).Draw(t, "ns")
			}
			p.exchange(ns, 10, 100)
		}
		p.happens(Generator, 100, Client, Sending, 10)
		f := NewFollower(false)
		var got [Places]int64
		requests := int64(0)
		for from := int64(0); from < p.nowNs; from += 1000 {
			b := burst(f, p.events, from+min(from, 1), min(from+1000, p.nowNs), from == 0)
			for place, ns := range b.Ns {
				got[place] += ns
			}
			requests += b.Requests
		}
		want := p.within(0, p.nowNs)
		if got != want {
			t.Errorf("booked %v, planted %v", got, want)
		}
		if n := int64(len(p.events) / 6); requests != n+1 {
			t.Errorf("%d requests, planted %d", requests, n+1)
		}
	})
}

// A connection that is silent throughout bursts is booked when its next event
// says that it had not moved, and not at all when it had.
func TestSilentConnections(t *testing.T) {
	for _, moved := range []bool{false, true} {
		p := plant(9, 1<<32-5, 77, 0)
		p.exchange([Places]int64{10, 20, 30, 40, 50, 60}, 10, 100)
		p.exchange([Places]int64{10, 20, 10_000, 40, 50, 60}, 10, 100)
		if moved {
			p.exchange([Places]int64{1, 1, 1, 1, 1, 1}, 10, 100)
		}
		f := NewFollower(false)
		burst(f, p.events, 0, 1000, true)
		silent := burst(f, p.events, 2000, 3000, true)
		if silent.KnownNs != 0 {
			t.Errorf("%d ns known of a silent burst before anything was heard", silent.KnownNs)
		}
		from := int64(10_000)
		events := p.events
		if moved { // begin only with the third request
			from = p.nowNs - 3
			events = slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Ns > 3000 && e.Ns < from })
		}
		after := burst(f, events, from, from+1000, true)
		credited := after.KnownNs > 1000
		if credited == moved {
			t.Errorf("moved: %v; %d ns known after 1000 ns of silence and a burst of 1000", moved, after.KnownNs)
		}
	}
}

// What contradicts itself is left out, and the rest stays.
func TestContradictions(t *testing.T) {
	steady := [Places]int64{10, 10, 10, 10, 10, 10}
	whole := func(port uint16, n int) *planted {
		p := plant(port, 100, 200, 0)
		for range n {
			p.exchange(steady, 10, 100)
		}
		return p
	}
	check := func(name string, events []Event, connections, dropped int) {
		t.Helper()
		got := burst(NewFollower(false), events, 0, 6000, true)
		if got.Connections != connections || got.Dropped != dropped {
			t.Errorf("%s: %d connections, %d dropped; want %d, %d", name, got.Connections, got.Dropped, connections, dropped)
		}
		if per := got.Ns[InServer] / max(got.Requests, 1); connections > 0 && (per < 8 || per > 12) {
			t.Errorf("%s: %d ns in the server a request", name, per)
		}
	}
	a, b := whole(1, 100), whole(2, 100)
	check("nothing wrong", slices.Concat(a.events, b.events), 2, 0)
	for i, name := range []string{"sending", "arrived", "taken", "answering", "answered", "read"} {
		lost := slices.Delete(slices.Clone(b.events), 300+i, 301+i)
		check("lost "+name, slices.Concat(a.events, lost), 2, 1)
	}
	foreign := slices.Clone(b.events)
	for i := range foreign {
		if foreign[i].End == Server {
			foreign[i].Written += 1 << 31
			foreign[i].Arrived += 1 << 31
			foreign[i].Taken += 1 << 31
		}
	}
	check("another network namespace's", slices.Concat(a.events, foreign), 1, 1)
	only := slices.DeleteFunc(slices.Clone(b.events), func(e Event) bool { return e.End == Client })
	check("another host's client", slices.Concat(a.events, only), 1, 0)
}

// A connection that opens or closes in the burst is accounted for while it is
// there.
func TestConnectionsThatComeAndGo(t *testing.T) {
	var events []Event
	var want [Places]int64
	n := int64(0)
	for round := range 10 {
		// Every time the same port, and the server closes after its answer.
		p := plant(5, uint32(round)*1_000_000, uint32(round)*3_000_000, int64(round)*1000)
		for i := range p.sockets {
			p.sockets[i].id += uint64(round) << 32
		}
		p.exchange([Places]int64{10, 20, 300, 40, 50, 60}, 10, 100)
		p.events[0].Fresh = true
		p.was = p.was[1:] // before its first request it has none
		if round%2 == 0 {
			// The end of the stream comes with the answer, and counts one.
			fin := p.events[4]
			fin.Kind, fin.PeerClosed, fin.Arrived = Closing, true, fin.Arrived+1
			p.events[4].Arrived++
			p.events[5].Arrived++
			p.events = slices.Insert(p.events, 4, fin)
		} else {
			end := p.events[5]
			end.Kind, end.Ns = Closing, end.Ns+5
			p.events = append(p.events, end)
		}
		late := p.events[3] // the server hears of the end
		late.Kind, late.Ns, late.Arrived, late.Written, late.Left = Arrived, p.nowNs+9, late.Arrived+1, late.Written+late.Left, 0
		p.events = append(p.events, late)
		events = append(events, p.events...)
		for place, ns := range p.within(0, 1<<40) {
			want[place] += ns
		}
		n++
	}
	got := burst(NewFollower(false), events, 0, 20_000, true)
	if got.Ns != want || got.Requests != n || got.Dropped != 0 || got.Whole != n {
		t.Errorf("booked %v of %d requests (%d whole), %d dropped; planted %v of %d", got.Ns, got.Requests, got.Whole, got.Dropped, want, n)
	}
}

// With several requests in flight the area between two curves is the sum of
// what each byte spent there.
func TestPipelined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plant(3, rapid.Uint32().Draw(t, "client seq"), rapid.Uint32().Draw(t, "server seq"), 0)
		const request, answer = 50, 300
		written, arrived, taken, answered, back, read := 0, 0, 0, 0, 0, 0
		var want [Places]float64
		replaced := 0 // answers that had been read at the last write
		both := [2]bool{}
		for range rapid.IntRange(20, 200).Draw(t, "events") {
			ns := rapid.Int64Range(1, 100).Draw(t, "ns")
			if both[Client] && both[Server] {
				want[ToServer] += float64(int64(written-arrived) * request * ns)
				want[AtServer] += float64(int64(arrived-taken) * request * ns)
				want[ToClient] += float64(int64(answered-back) * answer * ns)
				want[AtClient] += float64(int64(back-read) * answer * ns)
				want[Generator] += float64(int64(read-replaced) * answer * ns)
			}
			step := func(from, to *int, end End, kind Kind, size uint32) {
				n := rapid.IntRange(1, *from-*to).Draw(t, "n")
				*to += n
				p.happens(InServer, ns, end, kind, uint32(n)*size)
				both[end] = true
			}
			limit := read + 16
			switch c := rapid.IntRange(0, 5).Draw(t, "what"); {
			case c == 1 && written > arrived:
				step(&written, &arrived, Server, Arrived, request)
			case c == 2 && arrived > taken:
				step(&arrived, &taken, Server, Taken, request)
			case c == 3 && taken > answered:
				step(&taken, &answered, Server, Sending, answer)
			case c == 4 && answered > back:
				step(&answered, &back, Client, Arrived, answer)
			case c == 5 && back > read:
				step(&back, &read, Client, Taken, answer)
			case written < limit:
				step(&limit, &written, Client, Sending, request)
				replaced = read
			default: // nothing happened after all
				p.nowNs += ns
				if both[Client] && both[Server] {
					continue
				}
			}
		}
		got := burst(NewFollower(true), p.events, 0, p.nowNs, true)
		if len(p.events) > 0 && got.Dropped == 0 && both[Client] && both[Server] && got.ByteNs != want {
			t.Errorf("byte times nanoseconds %v, planted %v", got.ByteNs, want)
		}
	})
}
