package spec

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/unit"
)

// Limits of a Spec. Each is far beyond today's machines; a value outside is a typing mistake.
const (
	// ConnectionsMax is 15 times the ports one source address has.
	ConnectionsMax = 1_000_000
	ThreadsMax     = 1024
	PipeliningMax  = 10_000
	// SlotsMax limits connections × pipelining: a slot costs about 100 bytes of the generator's
	// memory.
	SlotsMax = 10_000_000
	// DurationMax limits the measured time, the warm-up and the ramp.
	DurationMax = 7 * 24 * time.Hour
	// TimeoutMax is the longest time that a histogram in the interchange format holds at full
	// precision.
	TimeoutMax = time.Hour
	// RateMax is requests per second.
	RateMax = 1e9
)

// Check rejects everything that can be rejected without looking at a machine. The error is one
// line: what is wrong, where, and how to fix it. A Spec that passes can be planned; ports,
// descriptors and CPUs of the host are checked later.
func (s *Spec) Check() error {
	for _, check := range []func() error{
		s.checkShape, s.checkTimes, s.checkRate, s.checkTargets, s.checkKind, s.checkPipelining, s.checkDial, s.checkTLS,
		s.checkNames, s.Expect.check, s.SLO.check,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkShape validates connections, threads and pipelining.
func (s *Spec) checkShape() error {
	switch {
	case s.Connections < 1 || s.Connections > ConnectionsMax:
		return fmt.Errorf("connections: %d: must be 1–%d; give -c 64", s.Connections, ConnectionsMax)
	case s.Threads < 0 || s.Threads > ThreadsMax:
		return fmt.Errorf("threads: %d: must be 0–%d; without -t they are chosen", s.Threads, ThreadsMax)
	case s.Threads > s.Connections:
		return fmt.Errorf("threads: %d threads cannot share %d connections; give at most -t %d, or more connections with -c",
			s.Threads, s.Connections, s.Connections)
	case s.Pipelining < 1 || s.Pipelining > PipeliningMax:
		return fmt.Errorf("pipelining: %d: must be 1–%d; the default is 1", s.Pipelining, PipeliningMax)
	case s.Slots() > SlotsMax:
		return fmt.Errorf("pipelining: %d connections of %d requests each are more than %d in flight; give a smaller -p or -c",
			s.Connections, s.Pipelining, SlotsMax)
	}
	return nil
}

func (s *Spec) checkTimes() error {
	for _, t := range []struct {
		name, example   string
		value, from, to time.Duration
	}{
		{"duration", "-d 10s", s.Duration, 0, DurationMax},
		{"warm-up", "--warmup 2s", s.Warmup, 0, DurationMax},
		{"connect ramp", "--connect-ramp 1s", s.ConnectRamp, 0, DurationMax},
		{"timeout", "--timeout 10s", s.Timeout, 1, TimeoutMax},
	} {
		switch {
		case t.value < t.from && t.from > 0:
			return fmt.Errorf("%s: %v is not above 0; give %s", t.name, t.value, t.example)
		case t.value < t.from:
			return fmt.Errorf("%s: %v is below 0; give %s", t.name, t.value, t.example)
		case t.value > t.to:
			return fmt.Errorf("%s: %v is too long, at most %v; give %s", t.name, t.value, t.to, t.example)
		}
	}
	if s.Duration == 0 && s.Requests == 0 {
		return fmt.Errorf("duration: set -d 10s or -n 1000: the run would never end")
	}
	return nil
}

// checkRate validates the schedule of an open loop.
func (s *Spec) checkRate() error {
	if !s.Open() {
		if s.Arrivals != "" {
			return fmt.Errorf("arrivals: %s arrivals need a rate; give one with -R 10k, or remove --arrivals", s.Arrivals)
		}
		return nil
	}
	for _, end := range []unit.Frequency{s.Rate.From, s.Rate.To} {
		if end.PerNs == 0 || end.PerSecond() > RateMax {
			return fmt.Errorf("rate: %s is not above 0 and at most 1G per second; give -R 10k", s.Rate)
		}
	}
	switch {
	case s.Rate.Most() == 0:
		return fmt.Errorf("rate: nothing would be sent; give -R 10k, or remove -R for as fast as answers come")
	case !s.Rate.Constant() && s.Duration == 0:
		return fmt.Errorf("rate: %s changes over the duration; give one: -d 10s", s.Rate)
	case s.Arrivals != Constant && s.Arrivals != Poisson && s.Arrivals != Logged:
		return fmt.Errorf("invalid --arrivals %s (use %s or %s)", quoteShort(s.Arrivals), Constant, Poisson)
	}
	return nil
}

// checkTargets validates every target, and that they share one address.
func (s *Spec) checkTargets() error {
	if len(s.Targets) == 0 {
		return fmt.Errorf("targets: none given; give a URL such as http://localhost:8080/, or a file of them")
	}
	if len(s.Targets) > TargetsMax {
		return fmt.Errorf("targets: %d are too many, at most %d; give fewer, with weights", len(s.Targets), TargetsMax)
	}
	bodies := 0
	for i := range s.Targets {
		t := &s.Targets[i]
		if err := t.check(); err != nil {
			return fmt.Errorf("%s%w", targetName(s.Targets, i), err)
		}
		bodies += len(t.Body)
	}
	if err := OneAddress(s.Targets); err != nil {
		return err
	}
	if err := checkRound(s.Targets); err != nil {
		return fmt.Errorf("targets: %w", err)
	}
	if bodies > BodiesMax {
		return fmt.Errorf("targets: bodies of %d bytes together are too many, at most %d; give fewer or smaller ones", bodies, BodiesMax)
	}
	return nil
}

// OneAddress rejects targets at more than one address.
func OneAddress(targets []Target) error {
	var first Address
	for i := range targets {
		addr, _, _, err := ParseTarget(targets[i].URL)
		switch {
		case err != nil:
			return fmt.Errorf("%s%w", targetName(targets, i), err)
		case i == 0:
			first = addr
		case addr != first:
			return fmt.Errorf("%s%w", targetName(targets, i), addr.notAt(first))
		}
	}
	return nil
}

// notAt is the error that a target's address is not that of the first.
func (a Address) notAt(first Address) error {
	return fmt.Errorf("%s is not on the first target's address %s; a run loads one address: make one run for each", a.url(), first.url())
}

// targetName identifies the target of an error if there are several.
func targetName(targets []Target, i int) string {
	if len(targets) == 1 {
		return ""
	}
	return "target " + strconv.Itoa(i+1) + ": "
}

func (t *Target) check() error {
	switch {
	case !isToken(t.Method):
		return fmt.Errorf("method %s is not a word; give -m GET", quoteShort(t.Method))
	case t.Method == "CONNECT":
		return fmt.Errorf("method CONNECT turns the connection into a tunnel, which is not a request to measure; give -m GET")
	case t.Weight < 1 || t.Weight > WeightMax:
		return fmt.Errorf("weight %d: must be 1–%d; give 1 for an equal share", t.Weight, WeightMax)
	case len(t.Body) > BodyMax:
		return fmt.Errorf("body: %d bytes are too many; at most %d", len(t.Body), BodyMax)
	case len(t.Header) > fieldsMax:
		return fmt.Errorf("header: %d fields are too many; at most %d", len(t.Header), fieldsMax)
	}
	for i, f := range t.Header {
		if err := f.check(); err != nil {
			return err
		}
		if err := t.checkMeaning(f); err != nil {
			return err
		}
		if strings.EqualFold(f.Name, "Host") && slices.ContainsFunc(t.Header[:i],
			func(g Field) bool { return strings.EqualFold(g.Name, "Host") }) {
			return fmt.Errorf("header Host is given twice; a request has one (RFC 9112 §3.2)")
		}
	}
	return nil
}

// hostNever are characters that a Host field never contains (RFC 9110 §7.2, RFC 3986 §3.2.2).
const hostNever = " \t/?#@\\\"<>^`{|}"

// Chunked as the Transfer-Encoding of a request has its body sent in chunks, over HTTP/1.1.
const Chunked = "chunked"

// SendsChunks reports whether the body is sent in chunks.
func (t *Target) SendsChunks() bool {
	return slices.ContainsFunc(t.Header, func(f Field) bool { return strings.EqualFold(f.Name, "Transfer-Encoding") })
}

// checkMeaning rejects fields that determine a message's framing or its connection's fate: the
// generator sets those.
func (t *Target) checkMeaning(f Field) error {
	switch strings.ToLower(f.Name) {
	case "host":
		if i := strings.IndexAny(f.Value, hostNever); i >= 0 {
			return fmt.Errorf("header Host: invalid host %q: %q at byte %d; give a name or an address, with its port if any", f.Value, f.Value[i], i+1)
		}
	case "content-length":
		if f.Value != strconv.Itoa(t.bodyBytes()) {
			return fmt.Errorf("header Content-Length: %s, but the body has %d bytes; remove it, it is set automatically", quoteShort(f.Value), t.bodyBytes())
		}
	case "transfer-encoding":
		if !strings.EqualFold(f.Value, Chunked) {
			return fmt.Errorf("header Transfer-Encoding: %s: a body is sent with a Content-Length, or chunked; give Transfer-Encoding: chunked or remove it",
				quoteShort(f.Value))
		}
	case "connection":
		if !strings.EqualFold(f.Value, "keep-alive") {
			return fmt.Errorf("header Connection: %s; remove it, and ask for a new connection per request instead if that is what you want to measure", quoteShort(f.Value))
		}
	case "upgrade":
		return fmt.Errorf("header Upgrade: only HTTP/1.1 is supported; remove it")
	case "expect":
		return fmt.Errorf("header Expect: the body is sent at once, without waiting for a 100; remove it")
	}
	return nil
}

// checkPipelining rejects requests that must not be pipelined in HTTP/1.1: RFC 9112 §9.3.2
// advises against pipelining after a method that is not idempotent (RFC 9110 §9.2.2), since after
// a broken connection it is unknown which requests took effect.
func (s *Spec) checkPipelining() error {
	switch s.HTTP {
	case "", HTTP11, HTTP2:
	default:
		return fmt.Errorf("invalid --http %s (use %s or %s, or remove it)", quoteShort(s.HTTP), HTTP11, HTTP2)
	}
	if s.Pipelining == 1 {
		return nil
	}
	if s.Kind == Messages && s.NewConnections == 0 {
		return nil
	}
	if s.NewConnections.Each() {
		return fmt.Errorf("pipelining: a connection for every request carries one request; give -p 1, or keep the connections")
	}
	for i := range s.Targets {
		if t := &s.Targets[i]; t.bodyBytes() > 0 && !idempotent(t.Method) && s.HTTP != HTTP2 {
			return fmt.Errorf("%spipelining: %s with a body cannot be pipelined, %d deep here (RFC 9112 §9.3.2); give --http 2, or -p 1 and -c %d",
				targetName(s.Targets, i), t.Method, s.Pipelining, min(s.Slots(), ConnectionsMax))
		}
	}
	return nil
}

// idempotent reports whether a method is idempotent (RFC 9110 §9.2.2).
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// checkNames validates names and lists.
func (s *Spec) checkNames() error {
	switch s.Engine {
	case EngineAuto, EngineUring, EngineEpoll, EnginePortable:
	default:
		return fmt.Errorf("invalid --engine %s (use %s, %s, %s or %s)", quoteShort(s.Engine), EngineAuto, EngineUring, EngineEpoll, EnginePortable)
	}
	for _, pin := range []struct{ name, list string }{{"generator", s.PinGenerator}, {"server", s.PinServer}} {
		if pin.list == "" {
			continue
		}
		if _, err := ParseCPUList(pin.list); err != nil {
			return fmt.Errorf("pin %s: %w", pin.name, err)
		}
	}
	if !(s.LinkBitsPerSecond >= 0) || math.IsInf(s.LinkBitsPerSecond, 0) {
		return fmt.Errorf("link speed: %v is not a number of bits per second; write 10Gbit/s", s.LinkBitsPerSecond)
	}
	return checkPprof(s.Pprof)
}
