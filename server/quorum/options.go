// Package quorum is a key-value bucket of NATS JetStream behind a measured server: with one
// replica, with three of which two must have a write before it is acknowledged, or with an
// asynchronous mirror.
//
// Each replica is a separate process: this program, started again. As root, each has its own
// network namespace with a link to each of the others; otherwise all are on the loopback. Reads
// are linearizable, or from a follower that may lag, or from a follower with bounded lag, or from
// the mirror.
package quorum

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"ceiling/internal/option"
)

// Options configure a bucket.
type Options struct {
	Replicas int           `json:"replicas"` // 1 or 3
	Delay    time.Duration `json:"delay"`    // between replicas, each way
	Mirror   bool          `json:"mirror"`   // another process follows the bucket asynchronously
	Sync     bool          `json:"sync"`     // a replica syncs a write to disk before acknowledging it
	Net      string        `json:"net"`      // one of nets, below
	Bound    time.Duration `json:"bound"`    // maximum age of a stale read
	Timeout  time.Duration `json:"timeout"`  // of one operation
	Within   time.Duration `json:"within"`   // of the start, including the leader's election
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

// Parse parses options as typed. Omitted values are those of Standard, as is all of "own".
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

// nodes is the number of processes. A leader requires a cluster, so a mirror also runs in a
// cluster of three.
func (o *Options) nodes() int {
	if o.Replicas == 1 && !o.Mirror {
		return 1
	}
	return 3
}
