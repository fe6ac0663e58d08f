package load

// slotQueue holds the connections with a free slot of an open loop, first in
// first out so that every connection is used in turn. Its capacity is the
// number of slots, which is fixed.
type slotQueue struct {
	of          []uint32
	head, count int
}

func (q *slotQueue) push(i uint32) {
	at := q.head + q.count
	if at >= len(q.of) {
		at -= len(q.of)
	}
	q.of[at] = i
	q.count++
}

func (q *slotQueue) pop() uint32 {
	i := q.of[q.head]
	if q.head++; q.head == len(q.of) {
		q.head = 0
	}
	q.count--
	return i
}
