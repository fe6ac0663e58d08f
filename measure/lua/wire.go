package lua

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"

	"ceiling/measure/load"
)

var errNoRequest = errors.New("what it returned is not an HTTP/1.1 request; wrk.format makes one") // read-only

// split takes apart what one call returned: a script that pipelines returns several requests.
func split(text string) (list []load.Composed, err error) {
	for rest := []byte(text); len(rest) > 0; {
		head, body, found := bytes.Cut(rest, []byte("\r\n\r\n"))
		first, _, _ := bytes.Cut(head, []byte("\r\n"))
		words := bytes.Fields(first)
		switch version := len(words) - 1; {
		case !found || version < 2 || !bytes.HasPrefix(words[version], []byte("HTTP/1.")):
			return nil, errNoRequest
		case version > 2:
			return nil, fmt.Errorf("a path with a blank: %.100q; write %%20", bytes.Join(words[1:version], []byte(" ")))
		}
		n := 0
		for line := range bytes.SplitSeq(head, []byte("\r\n")) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
				if n, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || n < 0 || n > len(body) {
					return nil, errNoRequest
				}
			}
		}
		end := len(head) + 4 + n
		list = append(list, load.Composed{Bytes: rest[:end:end], NoBody: bytes.HasPrefix(first, []byte("HEAD "))})
		rest = rest[end:]
	}
	if len(list) == 0 {
		return nil, errNoRequest
	}
	return list, nil
}

// parse takes a response apart: the engine has framed it, so it is whole.
func parse(b []byte) (status int, fields [][2]string, body []byte) {
	for {
		head, rest, _ := bytes.Cut(b, []byte("\r\n\r\n"))
		lines := strings.Split(string(head), "\r\n")
		if words := strings.Fields(lines[0]); len(words) > 1 {
			status, _ = strconv.Atoi(words[1]) // the engine has read it before
		}
		if status >= 100 && status < 200 && len(rest) > 0 {
			b = rest
			continue
		}
		chunked := false
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			fields = append(fields, [2]string{name, value})
			chunked = chunked || strings.EqualFold(name, "Transfer-Encoding") && strings.Contains(strings.ToLower(value), "chunked")
		}
		if chunked {
			if plain, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(rest))); err == nil {
				rest = plain
			}
		}
		return status, fields, rest
	}
}
