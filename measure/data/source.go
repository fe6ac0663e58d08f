package data

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"ceiling/measure/load"
)

// ahead is how many requests are rendered before they are needed.
const ahead = 1024

// Composing fills in the requests of a mix, as encoded with their places, for a number of workers. feed
// is nil if no place is a column. Row n goes to request n: each row is sent once before any is sent
// again. The mix is sent in an order that has every weight, the same for a seed; ordered keeps the mix's
// own order.
func Composing(mix []load.Request, feed *Feed, workers int, seed uint64, ordered bool) (*load.Composing, error) {
	var turn []int
	for i := range mix {
		for range mix[i].Weight {
			turn = append(turn, i)
		}
	}
	if !ordered {
		rand.New(rand.NewPCG(seed, 0xda7a)).Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
	}
	return inTurn(mix, turn, feed, workers, seed)
}

// Replay sends the requests of a mix in an order, each at its time after the window's opening, in
// nanoseconds.
func Replay(mix []load.Request, order []int, times []int64, workers int) (*load.Composing, error) {
	c, err := inTurn(mix, order, nil, workers, 0)
	if err == nil {
		c.What, c.Times = "log", times
	}
	return c, err
}

// inTurn fills in the requests of a mix in an order, over and over.
func inTurn(mix []load.Request, turn []int, feed *Feed, workers int, seed uint64) (*load.Composing, error) {
	var columns []string
	name := ""
	if feed != nil {
		columns, name = feed.Columns, feed.Name
	}
	all := make([]*template, len(mix))
	for i := range mix {
		t, err := compile(mix[i].Bytes, columns, func(missing string) error { return noColumn(missing, columns, name) })
		if err != nil {
			return nil, err
		}
		all[i] = t
	}
	return &load.Composing{What: "data", Ahead: ahead, Targets: len(mix), New: func(number int) (load.Source, error) {
		return &source{templates: all, turn: turn, feed: feed, step: uint64(workers), at: uint64(number),
			row: row{rng: rand.New(rand.NewPCG(seed, uint64(number)))}}, nil
	}}, nil
}

// source renders the requests of one worker: of all those numbered at, at + step, ….
type source struct {
	templates []*template
	turn      []int
	feed      *Feed
	step, at  uint64
	row       row
	next      rows
	in        io.Closer
	read      uint64 // rows of the file so far, over all rounds
	scratch   []byte
	stopped   atomic.Bool
}

// Interrupt ends a call of Next that is under way.
func (s *source) Interrupt() { s.stopped.Store(true) }

// Close closes the file.
func (s *source) Close() error {
	if s.next == nil {
		return nil
	}
	return s.in.Close()
}

// Next renders n requests.
func (s *source) Next(_ []load.Answer, n int) ([]load.Composed, error) {
	s.row.now = time.Now()
	var all []byte
	ends := make([]int, 0, n)
	list := make([]load.Composed, 0, n)
	for range n {
		if s.stopped.Load() {
			return nil, load.ErrStopped
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
		target := s.turn[s.at%uint64(len(s.turn))]
		t := s.templates[target]
		s.row.number = s.at
		s.at += s.step
		var err error
		if all, err = t.render(all, &s.row, &s.scratch); err != nil {
			return nil, fmt.Errorf("row %d of %s: %w", s.read, s.feed.Name, err)
		}
		ends = append(ends, len(all))
		list = append(list, load.Composed{NoBody: t.noBody, Target: uint32(target)})
	}
	begin := 0
	for i, end := range ends {
		list[i].Bytes = all[begin:end:end]
		begin = end
	}
	return list, nil
}

// fill reads on to the row of the next request. The file begins again after its end.
func (s *source) fill() error {
	if s.feed == nil {
		return nil
	}
	if s.feed.table != nil {
		s.read = s.at%s.feed.Rows + 1
		s.row.values = s.feed.table[s.read-1]
		return nil
	}
	for s.read <= s.at {
		if s.next == nil {
			var err error
			if s.in, s.next, err = s.feed.read(); err != nil {
				return err
			}
		}
		values, err := s.next()
		switch {
		case err == io.EOF:
			s.next = nil
			if err := s.in.Close(); err != nil {
				return err
			}
			if s.read == 0 {
				return fmt.Errorf("%s: it has no row any more", s.feed.Name)
			}
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", s.feed.Name, err)
		}
		s.read++
		s.row.values = values
		if s.stopped.Load() {
			return load.ErrStopped
		}
	}
	return nil
}
