package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/condition"
)

// LoadKind is what the connections carry, which is also what is counted. The zero value is
// Requests.
type LoadKind string

// Kinds of load.
const (
	Requests LoadKind = ""         // HTTP requests, each with its response
	Messages LoadKind = "messages" // WebSocket messages, one response each: ws:// and wss:// URLs
)

// One is the singular of the unit, Many the plural: "request", "messages".
func (k LoadKind) One() string { return strings.TrimSuffix(k.Many(), "s") }

// Many is the plural of the unit.
func (k LoadKind) Many() string {
	if k == Requests {
		return "requests"
	}
	return string(k)
}

// PerSecond is the unit of a rate: "req/s", "messages/s".
func (k LoadKind) PerSecond() string {
	if k == Requests {
		return "req/s"
	}
	return string(k) + "/s"
}

// IsWebSocket reports whether url is a WebSocket URL.
func IsWebSocket(url string) bool {
	scheme, _ := splitScheme(url)
	return scheme == "ws" || scheme == "wss"
}

// checkKind rejects settings that do not apply to a kind of load.
func (s *Spec) checkKind() error {
	for i := range s.Targets {
		if IsWebSocket(s.Targets[i].URL) != (s.Kind == Messages) {
			return fmt.Errorf("kind: %s over %s; messages go to a ws:// or wss:// URL, and nothing else does", s.Kind.Many(), s.Targets[i].URL)
		}
	}
	if s.Kind != Requests && s.HTTP == HTTP2 {
		return fmt.Errorf("--http 2: %s go over HTTP/1.1; remove it", s.Kind.Many())
	}
	switch s.Kind {
	case Requests:
		return nil
	case Messages:
		return s.checkMessages()
	}
	return fmt.Errorf("invalid kind %s (use %s, or none for requests)", quoteShort(string(s.Kind)), Messages)
}

func (s *Spec) checkMessages() error {
	if len(s.Expect.Statuses) > 0 || slices.ContainsFunc(s.Expect.Checks, func(c condition.Condition) bool { return c.NeedsHead() }) {
		return errors.New("--expect: messages of a WebSocket have no status and no header; give conditions for the body: 'body contains ok'")
	}
	for i := range s.Targets {
		t := &s.Targets[i]
		if t.URL != s.Targets[0].URL {
			return fmt.Errorf("%sa connection is opened for one URL; give all messages the first one's", targetName(s.Targets, i))
		}
		if t.Method != "GET" {
			return fmt.Errorf("%smethod %s: a WebSocket is opened by GET; remove the method", targetName(s.Targets, i), t.Method)
		}
		for _, f := range t.Header {
			switch name := strings.ToLower(f.Name); name {
			case "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions":
				return fmt.Errorf("header %s: the generator writes it; remove it", f.Name)
			}
		}
	}
	return nil
}
