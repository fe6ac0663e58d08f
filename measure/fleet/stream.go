package fleet

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"ceiling/internal/unit"
)

// An agent's reports on a run form one stream of bytes, cut into messages numbered from 0. The
// stream consists of frames: a kind, the length of the body in four bytes, the body.
const (
	frameReady    = 'r' // readiness, JSON
	frameTally    = 't' // one byte (1: late), then load's wire form
	frameObserved = 'o' // record.ObservedRow, JSON
	frameMissing  = 'n' // record.NotMeasured, JSON
	frameResult   = 'R' // load's wire form
	frameProfile  = 'p' // of the CPU, as the server gave it
	frameEnd      = 'e' // ending, JSON; the last
)

const (
	frameHead = 5 // bytes before the body
	// frameMost bounds a frame: the largest is the result of a mix of thousands
	// of targets, with a histogram each.
	frameMost = 32 << 20
	// chunkMost bounds a message's part of the stream; NATS accepts 1 MiB.
	chunkMost = 512 << 10
	// backlogMost bounds the unsent backlog: at 100 kB a second, ten minutes.
	backlogMost = 64 << 20
)

// readiness is sent once the first connect attempts have ended.
type readiness struct {
	Established int `json:"established"`
	Asked       int `json:"asked"`
}

// ending is the last report of a run.
type ending struct {
	// Error is what prevented the work, "" if nothing did; Refused reports whether the request
	// itself was the cause.
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	// Stopped says why the agent ended the work before its time.
	Stopped string `json:"stopped,omitempty"`
	// Done is run.ShareResult, JSON, without its Result and CPUProfile, which have frames of their own.
	Done json.RawMessage `json:"done,omitempty"`
}

// outlet builds the stream. Its owner's lock guards it.
type outlet struct {
	waiting []byte // not yet cut
}

// frame adds a frame. It fails if the backlog would grow too large.
func (o *outlet) frame(kind byte, body []byte) error {
	switch {
	case len(body) > frameMost:
		return fmt.Errorf("a fact of %s is too large to be sent; at most %s", unit.FormatBytesIEC(int64(len(body))),
			unit.FormatBytesIEC(frameMost))
	case len(o.waiting)+len(body) > backlogMost:
		return fmt.Errorf("%s are queued and the driver does not receive them", unit.FormatBytesIEC(int64(len(o.waiting))))
	}
	o.waiting = binary.BigEndian.AppendUint32(append(o.waiting, kind), uint32(len(body)))
	o.waiting = append(o.waiting, body...)
	return nil
}

// object adds a JSON frame.
func (o *outlet) object(kind byte, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return o.frame(kind, b)
}

// message cuts off the next message; an empty one is a heartbeat.
func (o *outlet) message() []byte {
	n := min(len(o.waiting), chunkMost)
	chunk := bytes.Clone(o.waiting[:n])
	o.waiting = append(o.waiting[:0], o.waiting[n:]...)
	return chunk
}

// frameReader reads a stream. Invalid input is an error, after which it accepts no more.
type frameReader struct {
	next uint64
	rest []byte
	over bool // the last frame came
	err  error
}

// take reads a message, and calls each for every frame that it completes. It skips a repeated
// message; a missing one is an error.
func (in *frameReader) take(number uint64, chunk []byte, each func(kind byte, body []byte) error) error {
	switch {
	case in.err != nil:
		return in.err
	case number < in.next:
		return nil
	case number > in.next:
		in.err = fmt.Errorf("message %d came where %d was next: what is between is lost", number, in.next)
		return in.err
	}
	in.next++
	in.rest = append(in.rest, chunk...)
	in.err = in.frames(each)
	return in.err
}

func (in *frameReader) frames(each func(kind byte, body []byte) error) error {
	for len(in.rest) >= frameHead {
		kind, size := in.rest[0], binary.BigEndian.Uint32(in.rest[1:])
		if size > frameMost {
			return fmt.Errorf("a frame is longer than %s", unit.FormatBytesIEC(frameMost))
		}
		end := frameHead + int(size)
		if len(in.rest) < end {
			return nil
		}
		if in.over {
			return errors.New("something follows the end")
		}
		in.over = kind == frameEnd
		if err := each(kind, in.rest[frameHead:end]); err != nil {
			return fmt.Errorf("frame %q: %w", kind, err)
		}
		in.rest = in.rest[end:]
	}
	return nil
}
