package proxy

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// accessLog writes what the loops collect, from its own goroutine: a stalled disk must not stop a
// loop.
type accessLog struct {
	path   string        // "-" is standard output
	file   *os.File      // the writing goroutine's
	full   chan []byte   // to be written; after a nil, the next file
	fresh  chan *os.File // the file to go on with
	empty  chan []byte   // to be filled
	sample uint64        // of 2^32: the share of requests that is logged
	done   sync.WaitGroup
	fail   func(string)
}

const (
	logBytes   = 64 << 10 // a loop hands over that much, or one second's lines
	logBuffers = 64       // up to 4 MiB of lines may wait for the disk
)

// openLog opens a log; nil for "off".
func openLog(path string, sample float64, fail func(string)) (*accessLog, error) {
	if path == "off" {
		return nil, nil
	}
	a := &accessLog{path: path, file: os.Stdout, full: make(chan []byte, logBuffers), fresh: make(chan *os.File),
		empty:  make(chan []byte, logBuffers),
		sample: uint64(sample * (1 << 32)), fail: fail}
	if path != "-" {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		file, err := openAppend(path)
		if err != nil {
			return nil, err
		}
		a.file = file
	}
	a.done.Go(func() {
		for b := range a.full {
			var err error
			if b == nil {
				err = a.file.Close()
				a.file = <-a.fresh
			} else {
				_, err = a.file.Write(b)
			}
			if err != nil {
				a.fail("access log: " + err.Error())
			}
			select {
			case a.empty <- b[:0]:
			default:
			}
		}
	})
	return a, nil
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
}

// reopen switches to a new file of the same name after another program has renamed the old one, which has all
// that was handed over before. If it cannot be opened, the old one stays.
func (a *accessLog) reopen() error {
	if a == nil || a.path == "-" {
		return nil
	}
	file, err := openAppend(a.path)
	if err == nil {
		a.full <- nil
		a.fresh <- file
	}
	return err
}

// close writes what is left.
func (a *accessLog) close() error {
	if a == nil {
		return nil
	}
	close(a.full)
	a.done.Wait()
	if a.path == "-" {
		return nil
	}
	return a.file.Close()
}

// logBuffer is one loop's part of the log.
type logBuffer struct {
	to     *accessLog // nil without a log
	b      []byte
	lots   uint64
	second int64
	stamp  []byte // of second
}

// flush hands over the buffered lines.
func (g *logBuffer) flush(l *loop) {
	if g.to == nil || len(g.b) == 0 {
		return
	}
	select {
	case g.to.full <- g.b:
		select {
		case g.b = <-g.to.empty:
		default:
			g.b = make([]byte, 0, logBytes+8<<10)
		}
	default: // the disk is too slow
		for _, c := range g.b {
			if c == '\n' {
				l.counts.logDropped++
			}
		}
		g.b = g.b[:0]
	}
}

// chosen decides at random whether to log a request.
func (g *logBuffer) chosen() bool {
	if g.to.sample >= 1<<32 {
		return true
	}
	g.lots = g.lots*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator; its high bits are good
	return g.lots>>32 < g.to.sample
}

// log counts the request and writes its line.
func (x *exchange) log() {
	if x.state == answerLogged || x.client == nil {
		return
	}
	x.state = answerLogged
	l := x.client.conn.loop
	if x.file.File != nil { // its bytes were lent at once
		x.sentBytes = max(0, x.sentBytes-int64(x.client.conn.unsent()))
	}
	l.counts.statuses[min(x.status/100, 5)]++
	l.counts.received += uint64(x.receivedBytes)
	l.counts.sent += uint64(x.sentBytes)
	took := l.now - x.began
	l.counts.latency.Record(took)
	if l.site.traces > 0 {
		x.trace(took)
	}
	g := l.log
	if g.to == nil || x.status < 500 && (x.location != nil && x.location.unlogged || !g.chosen()) {
		return
	}
	if g.second != l.second {
		g.second = l.second
		g.stamp = time.Unix(l.second, 0).AppendFormat(g.stamp[:0], "02/Jan/2006:15:04:05 -0700")
		if l.site.logFormat == logJSON {
			g.stamp = time.Unix(l.second, 0).UTC().AppendFormat(g.stamp[:0], time.RFC3339)
		}
	}
	head := x.head()
	if l.site.logFormat == logJSON {
		g.b = append(x.appendJSON(g.b, g.stamp, head, took, math.MaxInt), '\n')
	} else {
		x.logCombined(g, head)
	}
	if len(g.b) >= logBytes {
		g.flush(l)
	}
}

// cause returns the cause of a failure, "" if there is none.
func (x *outbound) cause() string {
	if x.why == "" && x.status >= 500 {
		return "status from the destination"
	}
	return x.why
}

// logCombined writes the combined format, like other servers. After a status of 500 and above,
// and after a truncated response, it adds the cause and the destination.
func (x *exchange) logCombined(g *logBuffer, head []byte) {
	b := x.appendClient(g.b, head)
	b = append(b, " - "...)
	var user []byte // whose password it had
	if x.added != nil {
		user = x.added.user
	}
	b = appendSafe(b, orDash(user))
	b = append(b, " ["...)
	b = append(b, g.stamp...)
	b = append(b, "] \""...)
	if head != nil {
		b = append(b, x.request.Method...)
		b = append(b, ' ')
		b = appendSafe(b, x.request.Target)
		b = x.client.conn.appendProtocol(b, x.request.Minor)
	}
	b = append(b, "\" "...)
	b = strconv.AppendInt(b, int64(x.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, x.sentBytes, 10)
	b = append(b, " \""...)
	b = appendSafe(b, orDash(x.fieldOf(head, "referer")))
	b = append(b, "\" \""...)
	b = appendSafe(b, orDash(x.fieldOf(head, "user-agent")))
	b = append(b, '"')
	if why := x.cause(); why != "" && (x.status < 400 || x.status >= 499) {
		b = append(appendSafe(append(b, ` "`...), []byte(why)), '"')
		b = append(b, ` "`...)
		if x.destination != nil {
			b = appendSafe(b, []byte(x.destination.name))
		} else {
			b = append(b, '-')
		}
		b = append(b, '"')
	}
	g.b = append(b, '\n')
}

// appendJSON appends an object; it truncates texts to most bytes.
func (x *exchange) appendJSON(b, stamp, head []byte, took int64, most int) []byte {
	text := func(key string, value []byte) {
		b = append(append(append(b, `,"`...), key...), `":"`...)
		b = append(appendSafe(b, value[:min(len(value), most)]), '"')
	}
	number := func(key string, value int64) {
		b = append(append(append(b, `,"`...), key...), `":`...)
		b = strconv.AppendInt(b, value, 10)
	}
	b = append(append(append(b, `{"time":"`...), stamp...), `","client":"`...)
	b = append(x.appendClient(b, head), '"')
	if head != nil {
		text("method", x.request.Method)
		text("host", x.request.Host)
		text("target", x.request.Target)
		text("referer", x.fieldOf(head, "referer"))
		text("user_agent", x.fieldOf(head, "user-agent"))
		for _, f := range x.client.conn.loop.site.logFields {
			if v := x.fieldOf(head, f.field); v != nil {
				text(f.name, v)
			}
		}
	}
	number("status", int64(x.status))
	number("received", x.receivedBytes)
	number("sent", x.sentBytes)
	number("us", took/1000)
	number("tries", int64(x.tries)+1)
	if x.location != nil {
		text("location", []byte(x.location.id))
	}
	if x.destination != nil {
		text("destination", []byte(x.destination.name))
	}
	if why := x.cause(); why != "" {
		text("error", []byte(why))
	}
	if a := x.added; a != nil {
		for _, one := range []struct {
			key   string
			value []byte
		}{{"user", a.user}, {"request_id", a.id}, {"trace_id", a.traceID}} {
			if len(one.value) > 0 {
				text(one.key, one.value)
			}
		}
	}
	return append(b, '}')
}

// appendClient appends the client's address, as far as it can be trusted.
func (x *inbound) appendClient(b, head []byte) []byte {
	if x.client.trusted && head != nil {
		if a := x.address(); a.IsValid() {
			return a.AppendTo(b)
		}
	}
	return append(b, x.client.name...)
}

func orDash(v []byte) []byte {
	if len(v) == 0 {
		return []byte("-")
	}
	return v
}

// appendSafe appends client input so that it cannot end a field or a line, in JSON or the
// combined format: \u00XX for what is not plain ASCII.
func appendSafe(b, s []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range s {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			continue
		}
		b = append(b, c)
	}
	return b
}
