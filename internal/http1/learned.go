package http1

const (
	learnedHeads  = 4       // a route sends few heads: two clocks around a full second, two statuses
	maxLearnHead  = 4 << 10 // longer heads are rare, and 4 × 4 KiB per route stay in the L1 cache
	maxLearnBody  = 512     // short bodies are compared with the head, longer ones skipped
	maxBodyMisses = 8       // a body that changed this often in a row is not constant
)

// Learned holds up to four response heads that the full parser has seen, so that the next response
// with the same head costs one comparison. A head equals a learned one if it differs at most in the
// digits of its Content-Length. The zero value is empty and ready. The connections of one worker
// and one route share it; it is not safe for concurrent use.
//
// Only heads that end in the plainest way are learned: a Content-Length, no
// Transfer-Encoding, no close, not the answer to HEAD, not 1xx, 204 or 304.
type Learned struct {
	heads  [learnedHeads]learnedHead
	recent int // the last match, tried first
	oldest int // the next to be replaced
}

type learnedHead struct {
	bytes    []byte // the head, and the body after it if that is short
	head     int    // length of the head; 0: unused
	from, to int    // where the digits of the Content-Length are
	whole    int    // length of head and body, 0 when the body is long or changes
	misses   int    // bodies that differed since one was equal
	status   int
}

// Match looks for a learned head at the start of b. If b has the whole response, n is its length;
// if its body extends past b, n is len(b) and rest the number of bytes still to come. n = 0: no
// match, use the full parser.
func (l *Learned) Match(b []byte) (n int, rest int64, status int) {
	k := &l.heads[l.recent&(learnedHeads-1)]
	if n, rest = k.match(b); n != 0 {
		return n, rest, k.status
	}
	for i := range l.heads {
		if i == l.recent {
			continue
		}
		k := &l.heads[i]
		if n, rest = k.match(b); n != 0 {
			l.recent = i
			return n, rest, k.status
		}
	}
	return 0, 0, 0
}

func (k *learnedHead) match(b []byte) (n int, rest int64) {
	if k.whole != 0 && len(b) >= k.whole && string(b[:k.whole]) == string(k.bytes[:k.whole]) {
		k.misses = 0
		return k.whole, 0
	}
	if k.head == 0 || len(b) <= k.from || string(b[:k.from]) != string(k.bytes[:k.from]) {
		return 0, 0
	}
	length, digits := decimal(b[k.from:])
	if digits == 0 || b[k.from] == '0' && digits > 1 {
		return 0, 0
	}
	n = k.from + digits
	tail := k.bytes[k.to:k.head]
	if len(b)-n < len(tail) || string(b[n:n+len(tail)]) != string(tail) {
		return 0, 0
	}
	n += len(tail)
	if length > int64(len(b)-n) {
		return len(b), length - int64(len(b)-n)
	}
	n += int(length)
	if k.whole != 0 {
		if k.misses++; k.misses == maxBodyMisses {
			k.whole = 0
		}
	}
	return n, 0
}

// recentWhole returns the response that matched last, if its body is constant.
func (l *Learned) recentWhole() []byte {
	k := &l.heads[l.recent&(learnedHeads-1)]
	return k.bytes[:k.whole]
}

// learn stores the head b[:k.head] in place of the oldest.
func (l *Learned) learn(b []byte, k learnedHead) {
	place := &l.heads[l.oldest]
	k.bytes = append(place.bytes[:0], b[:max(k.head, k.whole)]...)
	*place = k
	l.recent = l.oldest
	l.oldest = (l.oldest + 1) % learnedHeads
}

// lesson is what the parser notes about a head for Learned.
type lesson struct {
	start    int // 0 if one buffer has the head from its first byte; −1: not to be learned
	from, to int // the digits of its only Content-Length
}

// teach adds the head b[:end], just read by r, to l if it is worth it.
func (s lesson) teach(l *Learned, r *Reader, b []byte, end int) {
	h := &r.head
	if s.start != 0 || h.digits == 0 || h.flags&(isChunked|closing|isEvents) != 0 ||
		r.status == 204 || r.status == 304 || end > maxLearnHead || h.digits > 1 && b[s.from] == '0' {
		return
	}
	k := learnedHead{head: end, from: s.from, to: s.to, status: int(r.status)}
	if h.length <= maxLearnBody && int64(end)+h.length <= int64(len(b)) {
		k.whole = end + int(h.length)
	}
	l.learn(b, k)
}
