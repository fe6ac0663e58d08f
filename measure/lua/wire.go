package lua

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

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
