package ring

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

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

// lingerFor is how long a closed connection's last write may take: it begins when its goroutine runs,
// which took more than 10 ms beside two busy loops, and the peer was never told of the end.
const lingerFor = time.Second

// close ends the goroutine, and the connection once what is queued has been tried.
func (l *link) close() {
	l.cancel()
	close(l.orders)
	l.out.close(time.Now().Add(lingerFor))
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
