package quorum

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lookEvery = 250 * time.Millisecond // for the leader
	lookMost  = 500 * time.Millisecond // that one look takes
)

// leadership is who leads the bucket, as far as is known here. Being wrong costs time and nothing else: who does not lead
// acknowledges nothing.
type leadership struct {
	at      atomic.Int32 // of nodes
	changes atomic.Int64
	wanted  chan struct{} // a look is
	once    sync.Once
}

func (l *leadership) ask() chan struct{} {
	l.once.Do(func() { l.wanted = make(chan struct{}, 1) })
	return l.wanted
}

// doubt has it looked for at once.
func (l *leadership) doubt() {
	select {
	case l.ask() <- struct{}{}:
	default: // it is already
	}
}

func (b *Bucket) leader() *node { return b.nodes[b.lead.at.Load()] }

// follower is a replica that does not lead: the first after the leader that is connected to. A single one is itself.
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

// follow keeps the leader known.
func (b *Bucket) follow() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		b.look()
		select {
		case <-b.ctx.Done():
			return
		case <-b.lead.ask():
			select { // not more often than that where all fails
			case <-b.ctx.Done():
				return
			case <-time.After(lookEvery / 5):
			}
		case <-tick.C:
		}
	}
}

// look asks through every node, for the leader answers: one that is cut off from the others does so through itself alone.
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

// streamInfo is what JetStream says of the bucket.
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

// beats are writes whose time is known: a replica that has one has all that was acknowledged before that time.
type beats struct {
	mu   sync.Mutex
	sent []beat
}

type beat struct {
	seq uint64
	at  time.Time // before it was sent
}

const (
	beatsABound = 4
	beatsKept   = 4 * beatsABound // more than a replica that is within the bound can be behind
)

// beat writes them.
func (b *Bucket) beat() {
	tick := time.NewTicker(b.options.Bound / beatsABound)
	defer tick.Stop()
	for {
		at := time.Now()
		if seq, err := b.publish(b.ctx, beatKey, nil, nil); err == nil { // else what is known grows old
			b.beats.add(beat{seq, at})
		}
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *beats) add(one beat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, one)
	if extra := len(s.sent) - beatsKept; extra > 0 {
		s.sent = append(s.sent[:0], s.sent[extra:]...)
	}
}

// asOf is a time before which all that was acknowledged has a sequence up to this one; the zero time where none is known.
func (s *beats) asOf(seq uint64) (at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sent {
		if one.seq <= seq {
			at = one.at
		}
	}
	return at
}
