package quorum

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lookEvery = 250 * time.Millisecond // interval
	lookMost  = 500 * time.Millisecond // timeout of one look
)

// leadership is the presumed leader of the bucket. Being wrong only costs time: a non-leader
// acknowledges nothing.
type leadership struct {
	at      atomic.Int32 // index into nodes
	changes atomic.Int64
	wanted  chan struct{} // requests a look; one is kept
}

// doubt triggers an immediate look.
func (l *leadership) doubt() {
	select {
	case l.wanted <- struct{}{}:
	default: // one is pending
	}
}

func (b *Bucket) leader() *node { return b.nodes[b.lead.at.Load()] }

// follower returns a replica that does not lead: the first connected one after the leader. A
// single one is its own follower.
func (b *Bucket) follower() *node {
	if b.options.Replicas == 1 {
		return b.leader()
	}
	leader := int(b.lead.at.Load())
	next := b.nodes[(leader+1)%len(b.nodes)]
	if other := b.nodes[(leader+2)%len(b.nodes)]; !next.conn.IsConnected() && other.conn.IsConnected() {
		return other
	}
	return next
}

// follow keeps the leader up to date.
func (b *Bucket) follow() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		b.look()
		select {
		case <-b.ctx.Done():
			return
		case <-b.lead.wanted:
			select { // limits the frequency if all fail
			case <-b.ctx.Done():
				return
			case <-time.After(lookEvery / 5):
			}
		case <-tick.C:
		}
	}
}

// look asks through every node, because the leader responds: one that is cut off from the others
// responds only through itself.
func (b *Bucket) look() {
	ctx, cancel := context.WithTimeout(b.ctx, lookMost)
	defer cancel()
	names := make(chan string, len(b.nodes))
	for _, n := range b.nodes {
		go func() {
			info, err := b.info(ctx, n)
			if err != nil || info.Cluster == nil {
				names <- ""
				return
			}
			names <- info.Cluster.Leader
		}()
	}
	votes := map[string]int{}
	for range b.nodes {
		votes[<-names]++
	}
	delete(votes, "")
	for i, n := range b.nodes {
		if 2*votes[n.plan.Name] > len(b.nodes) || votes[n.plan.Name] > 0 && len(votes) == 1 {
			if b.lead.at.Swap(int32(i)) != int32(i) {
				b.lead.changes.Add(1)
			}
			return
		}
	}
}

// streamInfo is JetStream's description of the bucket.
type streamInfo struct {
	State struct {
		LastSeq uint64 `json:"last_seq"`
	}
	Cluster *struct {
		Leader   string
		Replicas []struct {
			Name    string
			Current bool
			Lag     uint64
		}
	}
}

func (b *Bucket) info(ctx context.Context, n *node) (info streamInfo, err error) {
	answer, err := n.conn.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil)
	if err != nil {
		return info, err
	}
	if err := apiError(answer.Data); err != nil {
		return info, err
	}
	return info, json.Unmarshal(answer.Data, &info)
}

// heartbeats are writes at known times: a replica that has one has everything acknowledged before that
// time.
type heartbeats struct {
	mu   sync.Mutex
	sent []heartbeat
}

type heartbeat struct {
	seq uint64
	at  time.Time // before it was sent
}

const (
	beatsABound = 4
	beatsKept   = 4 * beatsABound // more than the lag of a replica within the bound
)

// beat writes beats periodically.
func (b *Bucket) beat() {
	tick := time.NewTicker(b.options.Bound / beatsABound)
	defer tick.Stop()
	for {
		at := time.Now()
		if seq, err := b.publish(b.ctx, beatKey, nil, nil); err == nil { // otherwise the last known beat ages
			b.beats.add(heartbeat{seq, at})
		}
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *heartbeats) add(one heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, one)
	if extra := len(s.sent) - beatsKept; extra > 0 {
		s.sent = append(s.sent[:0], s.sent[extra:]...)
	}
}

// asOf returns a time before which everything acknowledged has a sequence up to seq; the zero
// time if none is known.
func (s *heartbeats) asOf(seq uint64) (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sent {
		if one.seq <= seq {
			at = one.at
		}
	}
	return at
}
