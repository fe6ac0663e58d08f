//go:build linux

package export

import "testing"

// Help texts speak of what a run counts.
func TestInUnit(t *testing.T) {
	for counts, want := range map[string]string{
		"": "Requests sent, of requests asked", "requests": "Requests sent, of requests asked", "messages": "Messages sent, of messages asked",
	} {
		if got := inUnit("Requests sent, of requests asked", counts); got != want {
			t.Errorf("%q: %s", counts, got)
		}
	}
}
