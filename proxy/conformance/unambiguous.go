package conformance

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// patterns of what may be forwarded: the grammar of RFC 9112 without any tolerances.
type patterns struct{ first, field, chunk *regexp.Regexp }

func grammar() patterns {
	return patterns{
		first: regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\\.[01]$"),
		field: regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\\x00-\\x08\\x0a-\\x1f\\x7f]*$"),
		chunk: regexp.MustCompile(`^[0-9A-Fa-f]{1,15}$`),
	}
}

// Unambiguous checks that a forwarded request can be read in only one way. It is independent of
// this module's parsers.
func Unambiguous(raw []byte) error {
	g := grammar()
	head, body, found := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !found {
		return fmt.Errorf("the head does not end")
	}
	lines := strings.Split(string(head), "\r\n")
	if !g.first.MatchString(lines[0]) {
		return fmt.Errorf("request line %q", lines[0])
	}
	count := map[string]int{}
	for _, line := range lines[1:] {
		if !g.field.MatchString(line) || strings.ContainsAny(line, "\r\n\x00") {
			return fmt.Errorf("field line %q", line)
		}
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		count[strings.ReplaceAll(name, "_", "-")]++
		if name == "transfer-encoding" && value != "chunked" {
			return fmt.Errorf("transfer-encoding %q", value)
		}
	}
	switch {
	case count["content-length"] > 1, count["transfer-encoding"] > 1, count["host"] > 1:
		return fmt.Errorf("a field that frames or routes stands twice")
	case count["content-length"] > 0 && count["transfer-encoding"] > 0:
		return fmt.Errorf("content-length beside transfer-encoding")
	}
	for _, hop := range []string{"keep-alive", "proxy-connection", "te", "trailer", "http2-settings"} {
		if count[hop] > 0 {
			return fmt.Errorf("%s was passed on", hop)
		}
	}
	if count["transfer-encoding"] > 0 {
		return plainChunks(body, g.chunk)
	}
	return nil
}

// plainChunks requires bare sizes, exact ends, and no trailers in the body.
func plainChunks(body []byte, size *regexp.Regexp) error {
	for {
		line, rest, found := bytes.Cut(body, []byte("\r\n"))
		if !found || !size.Match(line) {
			return fmt.Errorf("chunk size %q", line)
		}
		var n int
		if _, err := fmt.Sscanf(string(line), "%x", &n); err != nil {
			return err
		}
		if n == 0 {
			if string(rest) != "\r\n" {
				return fmt.Errorf("behind the last chunk: %q", rest)
			}
			return nil
		}
		if len(rest) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return fmt.Errorf("a chunk of %d bytes does not end", n)
		}
		body = rest[n+2:]
	}
}
