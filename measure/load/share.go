package load

import (
	"errors"
	"fmt"
	"math"
)

// Share is the part of a run that one of several agents does. Everything counted in a run
// (connections, requests, due times) is numbered from 0; of every Of in a row a share has Count,
// starting at First. So the union of the shares of one Split is exactly the run, without
// coordination between agents. The zero value is the whole.
type Share struct {
	First uint64 `json:"first"`
	Count uint64 `json:"count"`
	Of    uint64 `json:"of"`
}

// weightMax bounds the sum of the weights of a Split, so that no number of a
// schedule of 2⁴⁰ requests overflows.
const weightMax = 1 << 20

// Split divides a run by weights, each 1 or more: of every sum of them in a row, agent i gets
// weights[i]. It reduces weights by their common divisor, so that the shares interleave more
// finely.
func Split(weights []int) ([]Share, error) {
	if len(weights) == 0 {
		return nil, errors.New("a run needs an agent to do it")
	}
	divisor, sum := 0, 0
	for i, w := range weights {
		if w < 1 || w > weightMax || sum+w > weightMax {
			return nil, fmt.Errorf("weight %d of agent %d: weights are 1 to %d in all", w, i+1, weightMax)
		}
		sum += w
		divisor = gcd(divisor, w)
	}
	shares := make([]Share, 0, len(weights))
	first := 0
	for _, w := range weights {
		shares = append(shares, Share{First: uint64(first / divisor), Count: uint64(w / divisor), Of: uint64(sum / divisor)})
		first += w
	}
	return shares, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Whole reports whether the share is all of the run.
func (s Share) Whole() bool { return s.Count == s.Of }

// Check rejects what no Split can have made: a share comes over the network.
func (s Share) Check() error {
	if s == (Share{}) {
		return nil
	}
	if s.Count == 0 || s.Of > weightMax || s.First >= s.Of || s.Count > s.Of-s.First {
		return fmt.Errorf("a share of %d from %d on of %d cannot be", s.Count, s.First, s.Of)
	}
	return nil
}

// Part returns how many of n things, numbered from 0, belong to the share.
func (s Share) Part(n uint64) uint64 {
	if s.Whole() {
		return n
	}
	rest := n % s.Of
	return n/s.Of*s.Count + min(max(rest, s.First)-s.First, s.Count)
}

// Number returns the number among all of the share's own thing k; saturates at the maximum.
func (s Share) Number(k uint64) uint64 {
	if s.Whole() {
		return k
	}
	if k/s.Count > (math.MaxUint64-s.Of)/s.Of {
		return math.MaxUint64
	}
	return k/s.Count*s.Of + s.First + k%s.Count
}

// Fraction returns the share as a fraction of the run.
func (s Share) Fraction() float64 {
	if s.Whole() {
		return 1
	}
	return float64(s.Count) / float64(s.Of)
}
