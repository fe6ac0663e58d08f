package http2

// Window is how many bytes may be sent, of a stream or of a connection (section 6.9).
// It falls below 0 where a peer makes it smaller than what is under way.
type Window int32

// Grow adds an increment, or the difference between two values of
// SETTINGS_INITIAL_WINDOW_SIZE. It refuses what would come to more than 2^31-1
// (section 6.9.1), and less than a window can be.
func (w *Window) Grow(by int64) bool {
	sum := int64(*w) + by
	if sum > MaxWindow || sum < -MaxWindow-1 {
		return false
	}
	*w = Window(sum)
	return true
}

// Take is how many of want bytes may be sent now; they are counted as sent.
func (w *Window) Take(want int) int {
	n := max(min(want, int(*w)), 0)
	*w -= Window(n)
	return n
}

// Credit is how many bytes the peer may send, and what of it has to be given back.
type Credit struct{ left, used, size int32 }

// NewCredit begins with a window of the announced size.
func NewCredit(size uint32) Credit { return Credit{left: int32(size), size: int32(size)} }

// Spend counts what came, Event.Flow. false: more than the peer was allowed.
func (c *Credit) Spend(flow uint32) bool {
	if int64(flow) > int64(c.left) {
		return false
	}
	c.left -= int32(flow)
	return true
}

// Return gives back what was consumed. The increment to announce follows once it is
// half of the window, so that one WINDOW_UPDATE serves for many frames; else 0.
func (c *Credit) Return(flow uint32) (increment uint32) {
	if c.used += int32(flow); c.used < c.size/2 {
		return 0
	}
	increment = uint32(c.used)
	c.left += c.used
	c.used = 0
	return increment
}
