package ring

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"
)

// portable is the engine for systems whose calls this package does not know: package net, with a
// goroutine for each connection that blocks in its reads, and another while a write does not end. A
// request wakes three goroutines, so it costs a multiple of what it costs with the other engines
// (docs/decisions/048-portable.md). Descriptors are the indices of tags.
type portable struct {
	piece   int     // the most one read takes
	links   []*link // by the index of their tag
	due     []*link // with something to do in the next Wait
	shown   []*link // whose buffers are in the events of the last Wait
	events  []Event
	inbox   inbox
	taken   []posted // of the inbox
	timer   *time.Timer
	broken  error // of a close
	running sync.WaitGroup
}

// inbox has what the goroutines report.
type inbox struct {
	mu    sync.Mutex
	list  []posted
	ready chan struct{}
}

// posted is an event of a link; nil: of a bell.
type posted struct {
	event Event
	from  *link
}

func (b *inbox) post(e Event, from *link) {
	b.mu.Lock()
	b.list = append(b.list, posted{e, from})
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default: // the owner has not looked since the last one
	}
}

// take exchanges the list.
func (b *inbox) take(empty []posted) []posted {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = empty[:0]
	return list
}

func openPortable(c Config) *portable {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &portable{piece: c.BufferBytes, inbox: inbox{ready: make(chan struct{}, 1)}, timer: timer}
}

// dial implements Ring.Dial. An error of the socket itself is that of the Connected event.
func (p *portable) dial(to, from *Sockaddr, t Tag) (int, error) {
	for int(t.Index()) >= len(p.links) {
		p.links = append(p.links, nil)
	}
	l := &link{tag: t, owner: p, orders: make(chan order, 1)}
	d := net.Dialer{KeepAlive: -1}
	if from != nil {
		d.LocalAddr = net.TCPAddrFromAddrPort(from.at)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.writer = func() { // made once: a write allocates nothing
		defer p.running.Done()
		for l.writeSome() {
		}
	}
	network, address := "tcp", to.at.String()
	if to.IsUnix() {
		network, address = "unix", to.path
	}
	p.links[t.Index()] = l
	p.running.Go(func() { l.live(ctx, &d, network, address) })
	return int(t.Index()), nil
}

// current returns the link of t, nil if it has been closed.
func (p *portable) current(t Tag) *link {
	if int(t.Index()) < len(p.links) {
		if l := p.links[t.Index()]; l != nil && l.tag == t {
			return l
		}
	}
	return nil
}

func (p *portable) selfConnected(fd int) bool {
	conn := p.links[fd].conn
	return conn.LocalAddr().Network() == "tcp" && conn.LocalAddr().String() == conn.RemoteAddr().String()
}

func (p *portable) bell(t Tag) (*Bell, error) {
	return &Bell{
		ring:  func() { p.inbox.post(Event{Kind: Received, Tag: t}, nil) },
		close: func() error { return nil },
	}, nil
}

func (p *portable) receive(_ int, t Tag)     { p.want(t, wish{kind: Received}) }
func (p *portable) receiveOnce(_ int, t Tag) { p.want(t, wish{kind: Received, once: true}) }
func (p *portable) discard(_, n int, t Tag)  { p.want(t, wish{kind: Discarded, once: true, most: n}) }
func (p *portable) pause(t Tag)              { p.want(t, wish{}) }

func (p *portable) want(t Tag, w wish) {
	if l := p.current(t); l != nil {
		l.wish = w
		p.schedule(l)
	}
}

// schedule has the next Wait look at a link.
func (p *portable) schedule(l *link) {
	if !l.listed {
		l.listed = true
		p.due = append(p.due, l)
	}
}

func (p *portable) send(_ int, o outgoing, t Tag) {
	if l := p.current(t); l != nil {
		l.fresh = append(l.fresh, o)
		p.schedule(l)
	}
}

// bufferBytes of a link's sends have room as in a socket's buffer, and are copied.
const bufferBytes = 64 << 10

func (p *portable) unsent(t Tag) int {
	l := p.current(t)
	if l == nil {
		return 0
	}
	if n := l.out.bytes(); n > bufferBytes {
		return n
	}
	return 0
}

func (p *portable) close(fd int, t Tag) {
	l := p.current(t)
	if l == nil {
		if p.broken == nil {
			p.broken = fmt.Errorf("ring: close of %d, which is not open", fd)
		}
		return
	}
	p.links[t.Index()] = nil
	if l.queue() {
		l.startWriting()
	}
	l.close()
}

// wait implements Ring.Wait. The runtime's timers decide how exact a timeout is: to a millisecond
// on Linux and Windows (runtime/netpoll_epoll.go, netpoll_windows.go), better on macOS.
func (p *portable) wait(patience Patience) ([]Event, error) {
	if p.broken != nil {
		return nil, p.broken
	}
	p.events = p.events[:0]
	p.work()
	if p.gather(); len(p.events) > 0 {
		return p.events, nil
	}
	if patience.Timeout <= 0 {
		runtime.Gosched() // a caller that only polls does not keep the goroutines from running
		p.gather()
		return p.events, nil
	}
	p.timer.Reset(patience.Timeout)
	select {
	case <-p.inbox.ready:
	case <-p.timer.C:
	}
	p.timer.Stop()
	p.gather()
	return p.events, nil
}

// work does what is queued.
func (p *portable) work() {
	for _, l := range p.shown { // the buffers are free again
		l.shown = false
		p.schedule(l)
	}
	p.shown = p.shown[:0]
	for _, l := range p.due {
		l.listed = false
		if p.links[l.tag.Index()] != l {
			continue // closed
		}
		if l.held != nil && l.wish.kind != 0 {
			e := *l.held
			l.held = nil
			p.emit(l, e)
		}
		first := l.queue()
		if l.wish.kind != 0 && !l.reading && !l.shown && l.held == nil {
			l.reading = true
			l.orders <- order{first: first, most: l.wish.most}
		} else if first {
			l.startWriting()
		}
	}
	clear(p.due)
	p.due = p.due[:0]
}

// gather takes what was reported.
func (p *portable) gather() {
	p.taken = p.inbox.take(p.taken)
	for _, e := range p.taken {
		l := e.from
		switch {
		case l == nil:
			p.events = append(p.events, e.event)
		case p.links[l.tag.Index()] != l: // closed by now
		case e.event.Kind != Received:
			p.events = append(p.events, e.event)
		default:
			l.reading = false
			if l.wish.kind == 0 {
				paused := e.event
				l.held = &paused
				continue
			}
			p.emit(l, e.event)
		}
	}
	clear(p.taken)
}

// emit turns what was read into the event that was wished for.
func (p *portable) emit(l *link, e Event) {
	w := l.wish
	if w.once || len(e.Data) == 0 {
		l.wish = wish{}
	}
	if w.kind == Discarded {
		e.Kind, e.N = Discarded, min(w.most, len(e.Data))
		if rest := e.Data[e.N:]; len(rest) > 0 {
			l.held = &Event{Kind: Received, Tag: l.tag, Data: rest}
		}
		e.Data = nil
	}
	p.events = append(p.events, e)
	l.shown = true
	p.shown = append(p.shown, l)
}

// shut ends every goroutine.
func (p *portable) shut() error {
	p.work()
	for _, l := range p.links {
		if l != nil {
			l.close()
		}
	}
	p.links = nil
	p.running.Wait()
	err := p.broken
	p.broken = nil
	return err
}
