package run

import (
	"bytes"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/http1"
	"ceiling/internal/websocket"
	"ceiling/measure/load"
	"ceiling/record"
)

// greeting is the default message.
const greeting = "hello"

// opening builds the engine's input for messages: the request that opens a connection, and the mix;
// nil if connections carry requests.
func opening(s *spec.Spec) (*load.Opening, []load.Request, error) {
	if s.Kind == spec.Requests {
		return nil, nil, nil
	}
	t := s.Targets[0]
	_, path, host, err := spec.ParseTarget(t.URL)
	if err != nil {
		return nil, nil, err
	}
	fields := make([]http1.Field, 0, len(t.Header)+3)
	has := func(name string) bool {
		return slices.ContainsFunc(t.Header, func(f spec.Field) bool { return strings.EqualFold(f.Name, name) })
	}
	for _, f := range t.Header {
		fields = append(fields, http1.Field{Name: f.Name, Value: f.Value})
	}
	o := &load.Opening{Subprotocol: has("Sec-WebSocket-Protocol")}
	fields = append(fields, http1.Field{Name: "Upgrade", Value: "websocket"}, http1.Field{Name: "Connection", Value: "Upgrade"},
		http1.Field{Name: "Sec-WebSocket-Version", Value: "13"})
	if o.Request, err = http1.AppendRequest(nil, t.Method, path, host, fields, nil); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", t.URL, err)
	}
	o.Request = bytes.TrimSuffix(o.Request, []byte("\r\n")) // the key follows
	var mix []load.Request
	for _, t := range s.Targets {
		payload := t.Body
		if len(payload) == 0 {
			payload = []byte(greeting)
		}
		if len(payload) > websocket.MaxMessage {
			return nil, nil, errors.New("body: the message is too large")
		}
		o.Payloads = append(o.Payloads, payload)
		mix = append(mix, load.Request{Bytes: websocket.AppendMessage(nil, payload, mask()), Weight: t.Weight})
	}
	return o, mix, nil
}

// mask returns an unpredictable key (RFC 6455, section 5.3).
func mask() (m websocket.Mask) {
	_, _ = crand.Read(m[:]) // never fails (Go 1.24)
	return m
}

// streamsOf converts the results of messages for the record; nil if the connections
// carried requests.
func streamsOf(s *load.Streams) *record.Streams {
	if s == nil {
		return nil
	}
	return &record.Streams{
		Before: record.QuantilesOf(&s.Setup), Opened: record.QuantilesOf(&s.Window), Echoed: s.Echoed, Pings: s.Pings,
	}
}
