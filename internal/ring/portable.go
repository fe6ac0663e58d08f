package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
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

// wish is what the caller wants to read; without a kind: nothing.
type wish struct {
	kind Kind // Received or Discarded
	once bool // one event
	most int  // bytes of a Discard
}

// order has a link's goroutine read.
type order struct {
	first bool // after writing what is queued, which is little
	most  int  // bytes; 0: a buffer
}

// link is one connection. The ring's thread owns it, but for out and what its goroutine sets before
// it reports the connection.
type link struct {
	tag     Tag
	owner   *portable
	conn    net.Conn // from the Connected event on
	cancel  context.CancelFunc
	orders  chan order
	writer  func()
	wish    wish
	fresh   []outgoing // sends of the next Wait
	held    *Event     // read while nothing was wished for
	reading bool       // an order is out
	shown   bool       // in portable.shown
	listed  bool       // in portable.due
	out     sendQueue
}

// firstBuffer is what a connection reads into; it doubles while reads fill it.
const firstBuffer = 2 << 10

// live dials, and reads as ordered.
func (l *link) live(ctx context.Context, d *net.Dialer, network, address string) {
	conn, err := d.DialContext(ctx, network, address)
	if !l.out.connect(conn) {
		return // closed by now
	}
	l.conn = conn
	l.owner.inbox.post(Event{Kind: Connected, Tag: l.tag, Err: errnoOf(err)}, l)
	if err != nil {
		return
	}
	buffer := make([]byte, min(firstBuffer, l.owner.piece))
	for o := range l.orders {
		if o.first {
			l.writeOnce()
		}
		b := buffer
		if o.most > 0 && o.most < len(b) {
			b = b[:o.most]
		}
		n, err := conn.Read(b)
		switch {
		case n > 0:
			err = nil // the next read has it again
		case err == io.EOF:
			l.awaitWrite()
		}
		if n == len(buffer) && n < l.owner.piece {
			buffer = make([]byte, min(2*n, l.owner.piece))
		}
		l.owner.inbox.post(Event{Kind: Received, Tag: l.tag, Data: b[:n:n], Err: errnoOf(err)}, l)
	}
}

// awaitWrite lets a write that has failed report it before the end of the connection: the kernel
// tells of a reset once, and the read sees an orderly end if the write got it. One to a peer that
// has ended its side alone goes on.
func (l *link) awaitWrite() {
	for range 5 {
		if !l.out.isWriting() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// queue copies the fresh sends, and reports whether their write is to be started.
func (l *link) queue() (start bool) {
	if len(l.fresh) == 0 {
		return false
	}
	start = l.out.add(l.fresh)
	clear(l.fresh)
	l.fresh = l.fresh[:0]
	return start
}

// startWriting has another goroutine write all that is queued.
func (l *link) startWriting() {
	l.owner.running.Add(1)
	go l.writer()
}

// writeOnce writes what is queued if that is little, so that it does not block while the peer waits
// to be read, and leaves the rest to another goroutine.
func (l *link) writeOnce() {
	if l.out.bytes() > bufferBytes/4 || l.writeSome() {
		l.startWriting()
	}
}

// writeSome writes a part of what is queued, and reports whether more is.
func (l *link) writeSome() (more bool) {
	b := l.out.next()
	_, err := l.conn.Write(b)
	if err != nil { // before live goes on
		l.owner.inbox.post(Event{Kind: SendFailed, Tag: l.tag, Err: errnoOf(err)}, l)
	}
	notify, more := l.out.wrote(len(b), err)
	for range notify {
		l.owner.inbox.post(Event{Kind: Sent, Tag: l.tag}, l)
	}
	return more
}

// lingerFor is how long a closed connection's last write may take.
const lingerFor = 10 * time.Millisecond

// close ends the goroutine, and the connection once what is queued has been tried.
func (l *link) close() {
	l.cancel()
	close(l.orders)
	l.out.close(time.Now().Add(lingerFor))
}

// sendQueue are the bytes that a connection has to write, and its end.
type sendQueue struct {
	mu      sync.Mutex
	conn    net.Conn
	b       []byte
	at      int   // b[:at] is written
	notify  []int // ends in b of the sends that are to be reported
	writing bool
	closed  bool
}

// connect reports whether the connection, which may have failed, is still wanted.
func (q *sendQueue) connect(conn net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed && conn != nil {
		_ = conn.Close() // nothing was sent
	}
	q.conn = conn
	return !q.closed
}

// add reports whether a write must be started.
func (q *sendQueue) add(list []outgoing) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range list {
		q.b = append(q.b, o.b...)
		if o.notify {
			q.notify = append(q.notify, len(q.b))
		}
	}
	start = !q.writing
	q.writing = true
	return start
}

func (q *sendQueue) bytes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.b) - q.at
}

func (q *sendQueue) isWriting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.writing
}

// next returns what to write next; it stays valid until wrote.
func (q *sendQueue) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.b[q.at:min(len(q.b), q.at+4*bufferBytes)]
}

// wrote notes the end of a write, and returns how many sends it completed and whether there is more.
func (q *sendQueue) wrote(n int, err error) (notify int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at += n
	if err != nil { // those queued after it are not sent at all
		q.at, q.notify = len(q.b), q.notify[:0]
	}
	for notify < len(q.notify) && q.notify[notify] <= q.at {
		notify++
	}
	q.notify = append(q.notify[:0], q.notify[notify:]...)
	if more = q.at < len(q.b); more {
		return notify, true
	}
	q.b, q.at, q.writing = q.b[:0], 0, false
	if cap(q.b) > 4*bufferBytes {
		q.b = nil
	}
	if q.closed {
		_ = q.conn.Close() // the peer has what could be sent
	}
	return notify, false
}

// close closes the connection, after what is being written.
func (q *sendQueue) close(deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	switch {
	case q.conn == nil:
	case q.writing:
		if err := q.conn.SetWriteDeadline(deadline); err != nil {
			_ = q.conn.Close() // it is not open any more
		}
	default:
		_ = q.conn.Close() // nothing is left to be sent
	}
}

// errnoOf returns the number of a network error, by the names of package syscall; 0 for an orderly
// end.
func errnoOf(err error) syscall.Errno {
	if err == nil || errors.Is(err, io.EOF) {
		return 0
	}
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return common(no)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return syscall.ETIMEDOUT
	}
	return syscall.EIO
}
