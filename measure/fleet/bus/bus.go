// Package bus carries the messages between several machines: NATS, embedded or an
// organisation's own, with its access control. It knows nothing about specs, loads or
// records: bodies are bytes.
//
// A test bed is the set of machines of one controller. Its subjects below `bed.<bed>.` are
//
//	bed.<bed>.agent.<id>.command     driver to agent, answered
//	bed.<bed>.name.<name>            answered by the agent of that name
//	bed.<bed>.report.<run>.<id>      what an agent measured, answered by the driver
//
// An agent's ID is <user>.<name>, where user is the public key of its token. The server enforces
// that: with one token nobody can act as an agent of another. In an organisation's own NATS, whose
// users are made by hand, the ID is the name.
//
// It also has two buckets whose keys have a time to live: agents_<bed>, where each agent keeps its
// offer, and lease_<bed>, where a driver keeps its hold. An agent may subscribe to its own subjects
// and publish its own reports and offer, and nothing else; account.go has the list.
package bus

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"ceiling/internal/text"
)

// answerWithin is how long an answer of a bucket may take, unless the context ends sooner.
const answerWithin = 5 * time.Second

var (
	// ErrTokenOver means that this token will never let an agent in again: it is malformed, another
	// controller's, expired or revoked.
	ErrTokenOver = errors.New("the token is over")
	// ErrGone means that the connection to NATS is currently down, or that no agent of that name
	// listens.
	ErrGone = errors.New("not connected")
)

// worded replaces the text of the error it wraps with a sentence.
type worded struct {
	text string
	is   error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.is }

func say(is error, format string, a ...any) error { return &worded{fmt.Sprintf(format, a...), is} }

// DefaultBed is the name of a test bed that was given none.
const DefaultBed = "lab"

// CheckBed returns what is wrong with a test bed's name, which is part of subjects, of bucket names
// (where a '_' ends it) and of permissions.
func CheckBed(bed string) error {
	if !plain(bed, 32, "-") || strings.ToLower(bed) != bed {
		return fmt.Errorf("test bed %s: want up to 32 of a-z, 0-9 and -, the first not -", text.Quote(bed))
	}
	return nil
}

// CheckName returns what is wrong with the name of an agent or a run: what is what.
func CheckName(what, name string) error {
	if !plain(name, 64, "-_") {
		return fmt.Errorf("%s %s: want up to 64 letters, digits, _ and -, the first a letter or digit", what, text.Quote(name))
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

func agentSubject(bed, id, what string) string { return "bed." + bed + ".agent." + id + "." + what }
func nameSubject(bed, name string) string      { return "bed." + bed + ".name." + name }
func reportSubject(bed, run, id string) string { return "bed." + bed + ".report." + run + "." + id }
func leaseBucket(bed string) string            { return "lease_" + bed }
func agentsBucket(bed string) string           { return "agents_" + bed }
func offerSubject(bed, id string) string       { return "$KV." + agentsBucket(bed) + "." + id }
func inbox(bed, id string) string              { return "_INBOX." + bed + "." + id }

// nameOf returns the name in an agent's ID.
func nameOf(id string) string { return id[strings.LastIndexByte(id, '.')+1:] }

// driverName is the user of the controller's own processes.
const driverName = "_driver"
