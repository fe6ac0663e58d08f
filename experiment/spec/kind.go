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
	Events   LoadKind = "events"   // server-sent events, with a subscription per connection
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

// PerSecond is the unit of a rate: "req/s", "messages/s", "events/s".
func (k LoadKind) PerSecond() string {
	if k == Requests {
		return "req/s"
	}
	return string(k) + "/s"
}

// FragmentMax limits Spec.Fragment to the size of one frame.
const FragmentMax = BodyMax

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
	if s.Fragment != 0 && (s.Kind != Messages || s.Fragment < 1 || s.Fragment > FragmentMax) {
		return fmt.Errorf("fragment: %d; give 1 to %d bytes for the messages of a ws:// URL, or leave --fragment out", s.Fragment, FragmentMax)
	}
	if s.Kind != Requests && s.HTTP == HTTP2 {
		return fmt.Errorf("--http 2: %s go over HTTP/1.1; leave it out", s.Kind.Many())
	}
	switch s.Kind {
	case Requests:
		return nil
	case Messages:
		return s.checkMessages()
	case Events:
		return s.checkEvents()
	}
	return fmt.Errorf("invalid kind %s (use %s, %s, or none for requests)", quoteShort(string(s.Kind)), Messages, Events)
}

func (s *Spec) checkMessages() error {
	if len(s.Expect.Statuses) > 0 || slices.ContainsFunc(s.Expect.Checks, func(c condition.Condition) bool { return c.NeedsHead() }) {
		return errors.New("--expect: messages of a WebSocket have no status and no header; give conditions for the body: 'body contains ok'")
	}
	for i := range s.Targets {
		t := &s.Targets[i]
		if t.URL != s.Targets[0].URL {
			return fmt.Errorf("%sa connection is opened for one URL; give all messages that of the first", targetName(s.Targets, i))
		}
		if t.Method != "GET" {
			return fmt.Errorf("%smethod %s: a WebSocket is opened by GET; leave the method out", targetName(s.Targets, i), t.Method)
		}
		for _, f := range t.Header {
			switch name := strings.ToLower(f.Name); name {
			case "sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions":
				return fmt.Errorf("header %s: the generator writes it; leave it out", f.Name)
			}
		}
	}
	return nil
}

func (s *Spec) checkEvents() error {
	switch {
	case s.Open():
		return errors.New("--subscribe: the server decides when it publishes; leave -R out")
	case s.Requests > 0:
		return errors.New("--subscribe: the server decides how many events there are; give a time with -d in place of -n")
	case s.Pipelining > 1:
		return errors.New("--subscribe: a connection has one subscription; leave -p out, and give more connections with -c")
	case s.NewConnections > 0:
		return errors.New("--subscribe: a subscription has no end; leave --new-connections out")
	case len(s.Targets) > 1:
		return errors.New("--subscribe: all connections subscribe to one URL; give one")
	case s.Targets[0].Method != "GET" && s.Targets[0].Method != "POST":
		return fmt.Errorf("--subscribe: method %s has no events in its answer; leave -m out", s.Targets[0].Method)
	case !s.Expect.IsZero():
		return errors.New("--expect: events have no status; leave it out")
	}
	return nil
}
