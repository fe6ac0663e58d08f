package ring

// outgoing is one Send.
type outgoing struct {
	b      []byte
	notify bool // a Sent event is requested
}

// outbox holds the sends of one connection that wait for an earlier one, in order. A nil outbox is
// empty.
type outbox struct {
	list []outgoing
	head int // list[:head] has been taken
	size int // bytes in list[head:]
}

func (o *outbox) put(s outgoing) {
	o.list = append(o.list, s)
	o.size += len(s.b)
}

func (o *outbox) take() (outgoing, bool) {
	if o.len() == 0 {
		return outgoing{}, false
	}
	s := o.list[o.head]
	o.list[o.head] = outgoing{}
	o.head++
	o.size -= len(s.b)
	if o.head == len(o.list) {
		o.list, o.head = o.list[:0], 0
	} else if o.head >= 64 && o.head*2 >= len(o.list) { // half is taken: at most one copy per put
		n := copy(o.list, o.list[o.head:])
		clear(o.list[n:])
		o.list, o.head = o.list[:n], 0
	}
	return s, true
}

func (o *outbox) empty() {
	if o != nil {
		clear(o.list)
		*o = outbox{list: o.list[:0]}
	}
}

func (o *outbox) len() int {
	if o == nil {
		return 0
	}
	return len(o.list) - o.head
}

func (o *outbox) bytes() int {
	if o == nil {
		return 0
	}
	return o.size
}
