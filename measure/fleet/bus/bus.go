// Package bus carries the messages between several machines: NATS, embedded or an
// organisation's own, with its access control. It knows nothing about specs, loads or
// records: bodies are bytes.
//
// A test bed is the set of machines of one controller. Its subjects below `bed.<bed>.` are
//
//	bed.<bed>.agent.<name>.command   sealed envelopes, driver to agent, answered
//	bed.<bed>.agent.<name>.ping      for the clock, answered at once
//	bed.<bed>.agent.<name>.about     the agent's description of itself
//	bed.<bed>.sample.<run>.<name>    what an agent measured, kept in a stream
//
// It also has the stream samples_<bed>, the buckets specs_<bed> and lease_<bed>, an object
// store profiles_<bed>_<name> for each agent with profiles to store, and the micro service
// ceiling-agent-<bed>. An agent may subscribe to its own subjects and publish to its own
// samples and profiles, and nothing else; permissions.go has the list.
package bus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"ceiling/internal/text"
)

// Limits, so that neither what an agent sends nor a silent agent can make anything grow without
// bound.
const (
	// MaxBody is the largest body of a command, a sample or a spec, in bytes.
	// An organisation's own cluster may allow less (NATS: 1 MiB unless set).
	MaxBody = 4 << 20
	// MaxProfile is the largest profile, in bytes.
	MaxProfile = 64 << 20
	// MaxPayload is what the embedded server accepts: a body and its envelope.
	MaxPayload = 8 << 20
	// MaxPending is what it keeps, in bytes, for a client that does not read.
	MaxPending = 32 << 20
	// answerWithin is how long an agent may take to answer a ping or to describe itself, unless the
	// context ends sooner.
	answerWithin = 5 * time.Second
)

var (
	// ErrRefused is the controller's answer to a wrong token, or to a name that another agent
	// holds. Its log says which.
	ErrRefused = errors.New("the controller refuses this agent")
	// ErrStranger means that the other end cannot prove that it is the controller that created the
	// token.
	ErrStranger = errors.New("that is not the controller which made the token")
	// ErrGone means that the connection to NATS is currently down, or that no agent of that name
	// listens.
	ErrGone = errors.New("not connected")
	// ErrTooLarge is a body above its bound.
	ErrTooLarge = errors.New("too large")
	// ErrFull means that a publisher's buffer is full: NATS has accepted nothing for long.
	ErrFull = errors.New("buffer full")
	// ErrNotFound means that a spec or profile does not exist.
	ErrNotFound = errors.New("not found")
)

// CheckBed returns what is wrong with a test bed's name, which is part of subjects, of bucket names
// (where a '_' ends it) and of permissions.
func CheckBed(bed string) error {
	if !plain(bed, 32, "-") || strings.ToLower(bed) != bed {
		return fmt.Errorf("test bed %s: want up to 32 of a-z, 0-9 and -, the first not -", text.Quote(bed))
	}
	return nil
}

// CheckName returns what is wrong with an agent's name.
func CheckName(name string) error {
	if !plain(name, 64, "-_") {
		return fmt.Errorf("agent %s: want up to 64 letters, digits, _ and -, the first a letter or digit", text.Quote(name))
	}
	return nil
}

func checkRun(run string) error {
	if !plain(run, maxRun, "-_") {
		return fmt.Errorf("run %s: want up to %d letters, digits, _ and -, the first a letter or digit", text.Quote(run), maxRun)
	}
	return nil
}

// plain reports whether s has 1 to most ASCII letters, digits and, except at the start, marks. It
// is a loop because a regexp with such bounds takes 50 µs to compile at every start.
func plain(s string, most int, marks string) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || strings.IndexByte(marks, c) < 0) {
			return false
		}
	}
	return true
}

func agentSubject(bed, name, what string) string { return "bed." + bed + ".agent." + name + "." + what }
func sampleSubject(bed, run, name string) string { return "bed." + bed + ".sample." + run + "." + name }
func serviceName(bed string) string              { return "ceiling-agent-" + bed }
func samplesStream(bed string) string            { return "samples_" + bed }
func specsBucket(bed string) string              { return "specs_" + bed }
func leaseBucket(bed string) string              { return "lease_" + bed }
func profilesBucket(bed, name string) string     { return "profiles_" + bed + "_" + name }
func inbox(bed, name string) string              { return "_INBOX." + bed + "." + name }

// DriverName is the user of the controller's own processes; agentForm denies it to agents.
const DriverName = "_driver"
