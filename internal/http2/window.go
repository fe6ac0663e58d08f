package http2

// Window is how many bytes may be sent, on a stream or a connection (section 6.9). It becomes
// negative if a peer shrinks it below what is in flight.
type Window int32

// Grow adds an increment, or the difference between two values of SETTINGS_INITIAL_WINDOW_SIZE. It
// fails if the sum exceeds 2^31-1 (section 6.9.1), or is less than a window can be.
func (w *Window) Grow(by int64) bool {
	sum := int64(*w) + by
	if sum > MaxWindow || sum < -MaxWindow-1 {
		return false
	}
	*w = Window(sum)
	return true
}

// Take returns how many of want bytes may be sent now, and counts them as sent.
func (w *Window) Take(want int) int {
	n := max(min(want, int(*w)), 0)
	*w -= Window(n)
	return n
}

// Credit is how many bytes the peer may send, and how much of it is to be returned.
type Credit struct{ left, used, size int32 }

// NewCredit returns a Credit with a window of the announced size.
func NewCredit(size uint32) Credit { return Credit{left: int32(size), size: int32(size)} }

// Spend counts received bytes, Event.Flow. false: the peer exceeded its window.
func (c *Credit) Spend(flow uint32) bool {
	if int64(flow) > int64(c.left) {
		return false
	}
	c.left -= int32(flow)
	return true
}

// Return returns consumed bytes. It returns the increment to announce once that is half of the
// window, so that one WINDOW_UPDATE serves many frames; else 0.
func (c *Credit) Return(flow uint32) (increment uint32) {
	if c.used += int32(flow); c.used < c.size/2 {
		return 0
	}
	increment = uint32(c.used)
	c.left += c.used
	c.used = 0
	return increment
}
