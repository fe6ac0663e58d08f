package rebind

import "testing"

func TestSafe(t *testing.T) {
	for host, want := range map[string][2]bool{ // on any address, on the loopback
		"localhost": {true, true}, "LocalHost:80": {true, true}, "127.0.0.1": {true, true}, "127.9.9.9:1": {true, true},
		"[::1]": {true, true}, "[::1]:80": {true, true}, "[::ffff:127.0.0.1]:80": {true, true},
		"192.0.2.1": {true, false}, "[2001:db8::1]:80": {true, false}, "0.0.0.0": {true, false},
		"": {}, ":80": {}, "evil.example": {}, "localhost.evil.example:80": {}, "127.0.0.1.evil.example": {}, "localhost.": {}, "127.1": {},
		"2130706433": {},
	} {
		for i, loopback := range []bool{false, true} {
			if got := Safe(host, loopback); got != want[i] {
				t.Errorf("Safe(%q, %v) is %v", host, loopback, got)
			}
		}
	}
}
