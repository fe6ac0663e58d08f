package race

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ceiling/internal/pause"
)

// checkPatience bounds the check of one contestant.
const checkPatience = 15 * time.Second

// A question is a request of the check, and what the backend has to hear of it.
type question struct {
	method, target, body string
}

// questions: the request of the race itself, a target that must not be decoded or
// cleaned, a body, and fields that pass.
func questions(k *Case) []question {
	return []question{
		{"GET", k.Path, ""},
		{"GET", "/a%20b/c%2Fd?x=1&y=%2F%3f&z", ""},
		{"POST", "/post", strings.Repeat("0123456789abcde\n", 100)},
	}
}

// requestBytes is the request of the race, the same for all but the address.
func requestBytes(q question, host string) []byte {
	length := ""
	if q.body != "" {
		length = fmt.Sprintf("Content-Length: %d\r\n", len(q.body))
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: ceiling-race\r\nAccept: */*\r\n%s\r\n%s", q.method, q.target, host,
		length, q.body)
}

// kept is how many requests follow each other on one connection of a client, and
// keptBy how many connections to the backend they may take. A proxy that opens one
// for each is in another race.
const (
	kept   = 20
	keptBy = 3
)

// check compares what a contestant passes on with what it should, byte for byte,
// in both directions. It answers the head that it sends to the backend.
func check(c net.Conn, e *Contestant, k *Case, listen string, r *recording) (forwarded string, err error) {
	connections := map[string]bool{}
	for i, q := range slices.Concat(questions(k), slices.Repeat(questions(k)[:1], kept)) {
		h, err := ask(c, q, listen, r)
		if err == nil {
			err = compare(e, k, q, listen, h)
		}
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", q.method, q.target, err)
		}
		if i == 0 {
			forwarded = h.Head
		}
		connections[h.From] = true
	}
	if len(connections) > keptBy {
		return "", fmt.Errorf("it opened %d connections to the backend for %d requests of one client: it does not keep them", len(connections),
			kept+len(questions(k)))
	}
	return forwarded, nil
}

// ask sends a request, wants the backend's answer unchanged, and tells what the
// backend heard.
func ask(c net.Conn, q question, host string, r *recording) (*heard, error) {
	res, body, err := exchange(c, requestBytes(q, host), checkPatience)
	list := r.take()
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the client got %s", res.Status)
	case !bytes.Equal(body, r.body):
		return nil, fmt.Errorf("the client got %d bytes that are not the backend's %d", len(body), len(r.body))
	case res.Header.Get("X-Keep") != keepMe:
		return nil, fmt.Errorf("the answer's X-Keep came as %q", res.Header.Get("X-Keep"))
	case res.Header.Get("Content-Type") != "application/octet-stream":
		return nil, fmt.Errorf("the answer's Content-Type came as %q", res.Header.Get("Content-Type"))
	case len(list) != 1:
		return nil, fmt.Errorf("the backend got %d requests of one", len(list))
	}
	return &list[0], nil
}

// exchange sends a request on a connection, and reads its answer. Nothing is sent before the answer to
// the last, so no reader has more than that in its buffer.
func exchange(c net.Conn, request []byte, patience time.Duration) (*http.Response, []byte, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil) // as to GET: no HEAD is sent
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxHeard))
	return res, body, errors.Join(err, res.Body.Close())
}

// compare holds what the backend heard against what was sent.
func compare(e *Contestant, k *Case, q question, host string, h *heard) error {
	line, _, _ := strings.Cut(h.Head, "\r\n")
	if want := q.method + " " + q.target + " HTTP/1.1"; line != want {
		return fmt.Errorf("the request line came as %q, not %q", line, want)
	}
	if string(h.Body) != q.body {
		return fmt.Errorf("the backend got a body of %d bytes that is not the one that was sent", len(h.Body))
	}
	want := map[string]string{"Host": host, "User-Agent": "ceiling-race", "Accept": "*/*"}
	if k.Forward {
		want["X-Forwarded-For"], want["X-Forwarded-Proto"], want["X-Forwarded-Host"] = "127.0.0.1", "http", host
	}
	for name, value := range want {
		if got := h.Fields.Values(name); !slices.Equal(got, []string{value}) && !slices.Contains(e.lacks, name) {
			return fmt.Errorf("the backend got %s as %q, not %q", name, got, value)
		}
	}
	return nil
}

// checkFile wants a contestant to serve the file as it is, again and again on one
// connection.
func checkFile(c net.Conn, k *Case, listen string) error {
	for range kept {
		res, body, err := exchange(c, requestBytes(question{"GET", k.Path, ""}, listen), checkPatience)
		switch {
		case err != nil:
			return err
		case res.StatusCode != http.StatusOK || !bytes.Equal(body, servedFile()):
			return fmt.Errorf("%s with %d bytes, not 200 with the file's %d", res.Status, len(body), len(servedFile()))
		case !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html"):
			return fmt.Errorf("Content-Type is %q", res.Header.Get("Content-Type"))
		}
	}
	return nil
}

// checkLog wants lines in the access log for what was asked so far; they may be
// a second late.
func checkLog(ctx context.Context, dir string) error {
	lines := 0
	for end := time.Now().Add(checkPatience); ; {
		text, err := os.ReadFile(filepath.Join(dir, "access.log"))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if lines = bytes.Count(text, []byte("ceiling-race")); lines >= kept {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d lines in its access log for %d requests", lines, kept)
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// servedFile is RoadSign's benchmark's kind of file: one HTML page of 268 bytes.
func servedFile() []byte {
	const start, end = "<!DOCTYPE html>\n<html><head><title>race</title></head>\n<body><p>", "</p></body></html>\n"
	return []byte(start + strings.Repeat("x", 268-len(start)-len(end)) + end)
}
