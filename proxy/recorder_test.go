package proxy

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// recorder is a backend that keeps every request as it came, by the conversation
// whose mark stands in its head. Its answer follows from the request alone, so that
// whoever reads it can tell whose it is.
type recorder struct {
	*Listener
	mu     sync.Mutex
	by     map[string][]received
	within int // connections with a part of a request
}

// mark of a conversation, in what its requests ask for. The last digits check it,
// for what is altered at random must not become another's.
func mark(seed uint64) string {
	return fmt.Sprintf("c%08x%08x", seed, uint32(seed*0x9e3779b97f4a7c15>>32))
}

var markIn = regexp.MustCompile(`c([0-9a-f]{8})[0-9a-f]{8}`)

// markOf is the first true mark in a head; "" without one.
func markOf(head []byte) string {
	for _, m := range markIn.FindAllSubmatch(head, -1) {
		if seed, err := strconv.ParseUint(string(m[1]), 16, 64); err == nil && mark(seed) == string(m[0]) {
			return string(m[0])
		}
	}
	return ""
}

func startRecorder(t *testing.T) *recorder {
	t.Helper()
	keepsNothing(t)
	b := &recorder{by: map[string][]received{}}
	var err error
	if b.Listener, err = Listen(b.serve); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func (b *recorder) serve(c net.Conn) {
	var got []byte
	buf := make([]byte, 64<<10)
	part := false
	note := func(one *received, now bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if one != nil {
			head, _, _ := bytes.Cut(one.raw, []byte("\r\n\r\n"))
			m := markOf(head)
			b.by[m] = append(b.by[m], *one)
		}
		if part != now {
			part = now
			b.within += map[bool]int{true: 1, false: -1}[now]
		}
	}
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		for end := RequestEnd(got); end > 0; end = RequestEnd(got) {
			one := received{raw: slices.Clone(got[:end]), whole: true}
			got = got[end:]
			note(&one, len(got) > 0)
			line, _, _ := strings.Cut(string(one.raw), "\r\n")
			method, target, _ := strings.Cut(line, " ")
			answer := replyTo(method, strings.TrimSuffix(target, " HTTP/1.1"))
			if _, err := io.WriteString(c, answer.raw); err != nil || answer.closes {
				note(nil, false)
				return
			}
		}
		switch {
		case err != nil && len(got) > 0:
			note(&received{raw: got}, false)
			return
		case err != nil:
			note(nil, false)
			return
		}
		note(nil, len(got) > 0)
	}
}

// echo is the backend's answer to a request.
type echo struct {
	raw, body string
	status    int
	closes    bool
	open      bool // it does not say how long it is
}

// replyTo makes one of many kinds, the same for the same request.
func replyTo(method, target string) echo {
	h := fnv.New32a()
	h.Write([]byte(method + " " + target))
	n := h.Sum32()
	r := echo{status: []int{200, 200, 200, 201, 204, 304, 404, 500}[n%8], closes: n>>3%8 == 0}
	r.body = strings.Repeat(fmt.Sprintf("%08x ", n), []int{1, 1, 1, 300}[n>>6%4])
	head := fmt.Sprintf("HTTP/1.1 %d Fine\r\nX-Id: %08x\r\n", r.status, n)
	if n>>8%8 == 0 {
		head = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + head
	}
	switch {
	case r.closes && n>>11%2 == 0 && r.status != 204 && r.status != 304 && method != "HEAD":
		head += "\r\n"
	case n>>11%2 == 0:
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(r.body))
	default:
		head += "Transfer-Encoding: chunked\r\n\r\n"
	}
	if r.closes {
		head = strings.Replace(head, "X-Id", "Connection: close\r\nX-Id", 1)
	}
	if r.status == 204 || r.status == 304 || method == "HEAD" {
		r.body = ""
		if r.status == 204 {
			head = strings.Replace(strings.Replace(head, "Transfer-Encoding: chunked\r\n", "", 1), "Content-Length", "X-Length", 1)
		}
		r.raw = head
		return r
	}
	r.open = !strings.Contains(head, "Content-Length")
	if strings.Contains(head, "chunked") {
		half := len(r.body) / 2
		r.raw = fmt.Sprintf("%s%x\r\n%s\r\n%x;a=b\r\n%s\r\n0\r\n\r\n", head, half, r.body[:half], len(r.body)-half, r.body[half:])
		return r
	}
	r.raw = head + r.body
	return r
}

// id of an echo, as its field says it.
func replyID(method, target string) string {
	h := fnv.New32a()
	h.Write([]byte(method + " " + target))
	return fmt.Sprintf("%08x", h.Sum32())
}

// of is what came of a conversation.
func (b *recorder) of(mark string) []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[mark]
}

// idle tells that no connection has a part of a request.
func (b *recorder) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.within == 0
}

// whole is how many requests came whole.
func (b *recorder) whole() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.by {
		for i := range list {
			if list[i].whole {
				n++
			}
		}
	}
	return n
}

// lines are the sorted methods and targets of a conversation's whole requests.
func (b *recorder) lines(mark string) (list []string) {
	for _, one := range b.of(mark) {
		if line, _, ended := strings.Cut(string(one.raw), " HTTP/1.1\r\n"); ended && one.whole {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return list
}
