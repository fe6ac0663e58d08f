package record

import "testing"

// TestOriginOf: which errors only the generator's own kernel can make, and which come from another
// host.
func TestOriginOf(t *testing.T) {
	for want, list := range map[Origin][]string{
		OfLocal: {"EADDRNOTAVAIL", "EADDRINUSE", "EAGAIN", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EPERM", "EACCES", "ENETDOWN",
			"EAFNOSUPPORT", "EINVAL", "ENOSYS", "EIO"},
		OfPath: {"ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "timeout"},
		OfPeer: {"ECONNREFUSED", "ECONNRESET", "EPIPE", "connection closed before a request", "TLS alert from the server: handshake failure"},
	} {
		for _, cause := range list {
			if got := OriginOf(false, PhaseConnect, cause); got != want {
				t.Errorf("connect: %s is of %s, want %s", cause, got, want)
			}
		}
	}
	for _, c := range []struct {
		unix         bool
		phase, cause string
		want         Origin
	}{
		{true, PhaseConnect, "ENOENT", OfPeer},
		{true, PhaseConnect, "EAGAIN", OfPeer}, // its accept queue is full
		{true, PhaseConnect, "EACCES", OfLocal},
		{false, PhaseResponse, "timeout", OfPeer}, // connected: the server does not answer
		{false, PhaseTLS, "timeout", OfPeer},
		{false, PhaseSend, "ENOBUFS", OfLocal},
		{false, PhaseStatus, "404", OfPeer},
	} {
		if got := OriginOf(c.unix, c.phase, c.cause); got != c.want {
			t.Errorf("%s %s, unix %v: of %s, want %s", c.phase, c.cause, c.unix, got, c.want)
		}
	}
}

// TestBlame: what the name alone leaves open is decided by what the host was short of.
func TestBlame(t *testing.T) {
	list := []Error{{Phase: PhaseConnect, Cause: "ENETUNREACH", Count: 1}, {Phase: PhaseConnect, Cause: "ECONNREFUSED", Count: 1}}
	Blame(list, false, nil)
	if list[0].Origin != OfPath || list[1].Origin != OfPeer {
		t.Errorf("without a shortage: %+v", list)
	}
	Blame(list, false, []Shortage{{Phase: PhaseConnect, Cause: "ENETUNREACH", Of: ShortRoute}})
	if list[0].Origin != OfLocal || list[1].Origin != OfPeer {
		t.Errorf("without a route: %+v", list)
	}
}
