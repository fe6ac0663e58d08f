// Package quorum is a key-value bucket of NATS' JetStream behind a server that is measured: in one replica, or in three of
// which two have to have a write before it is acknowledged, or mirrored asynchronously.
//
// Each replica is a process of its own: this program, started again. As root each has a network namespace of its own, with
// a link to each of the others; without, all are on the loopback. Reads are linearizable, or of a follower, which may be
// behind, or of a follower that is behind by so much at most, or of the mirror.
package quorum

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"ceiling/internal/option"
)

// Options say how a bucket is kept.
type Options struct {
	Replicas int           `json:"replicas"` // 1 or 3
	Delay    time.Duration `json:"delay"`    // of what goes from one replica to another, each way
	Mirror   bool          `json:"mirror"`   // another process follows the bucket without being waited for
	Sync     bool          `json:"sync"`     // a replica has a write on its disk before it says that it has it
	Net      string        `json:"net"`      // a name of nets, below
	Bound    time.Duration `json:"bound"`    // on the age of what a stale read answers
	Timeout  time.Duration `json:"timeout"`  // of one operation
	Within   time.Duration `json:"within"`   // of the start, a leader with it
}

// Where replicas run.
const (
	Namespaces = "namespaces" // a network namespace each
	Loopback   = "loopback"
)

// Standard is one replica, with JetStream's own settings.
func Standard() Options {
	return Options{Replicas: 1, Bound: 100 * time.Millisecond, Timeout: 2 * time.Second, Within: 30 * time.Second}
}

const example = "replicas=3,delay=1ms,mirror=yes,sync=always,net=loopback,bound=100ms,timeout=2s,within=30s, or own"

// Parse reads options as a person writes them. What is not named is as in Standard, and so is all of "own".
func Parse(text string) (Options, error) {
	o := Standard()
	if err := option.Read(text, example, o.set); err != nil {
		return o, err
	}
	if o.Delay > 0 && o.nodes() == 1 {
		return o, errors.New("a delay is between replicas, and there is one: add replicas=3")
	}
	if o.Timeout <= 4*o.Delay {
		return o, fmt.Errorf("timeout=%v is too short for a delay of %v: a quorum's round trip is twice that", o.Timeout, o.Delay)
	}
	return o, nil
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "replicas":
		if o.Replicas, err = strconv.Atoi(value); err != nil || o.Replicas != 1 && o.Replicas != 3 {
			err = errors.New("there are 1 or 3 replicas")
		}
	case "mirror":
		if o.Mirror = value == "yes"; !o.Mirror && value != "no" {
			err = errors.New("a mirror is yes or no")
		}
	case "sync":
		if o.Sync = value == "always"; !o.Sync && value != "later" {
			err = errors.New("a sync is always or later")
		}
	case "net":
		if o.Net = value; value != Namespaces && value != Loopback {
			err = errors.New("the net is namespaces or loopback")
		}
	case "delay":
		o.Delay, err = duration(value, 0)
	case "bound":
		o.Bound, err = duration(value, 10*time.Millisecond)
	case "timeout":
		o.Timeout, err = duration(value, time.Millisecond)
	case "within":
		o.Within, err = duration(value, time.Millisecond)
	default:
		err = errors.New("no such option")
	}
	return err
}

func duration(text string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > time.Minute {
		return 0, fmt.Errorf("a time is from %v to 1m here", least)
	}
	return d, nil
}

func (o *Options) quorum() int { return o.Replicas/2 + 1 }

// nodes is the number of processes. A cluster has to agree on who leads a bucket, so a mirror is one of three as well.
func (o *Options) nodes() int {
	if o.Replicas == 1 && !o.Mirror {
		return 1
	}
	return 3
}
