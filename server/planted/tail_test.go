package planted

import (
	"net/http"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// Exactly every n-th request waits.
func TestTailIsOfEveryNth(t *testing.T) {
	needs.Time(t)
	const every, sleep, requests = 10, 150 * time.Millisecond, 40
	s := spawn(t, "tail", Params{Every: every, Sleep: sleep})
	for i := range requests {
		began := time.Now()
		res, err := http.Get("http://" + s.addr + "/")
		took := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		// A lower bound alone holds on any machine; that the others do not wait
		// shows in their sum.
		if waits := (i+1)%every == 0; waits && took < sleep {
			t.Errorf("request %d took %s, want %s", i+1, took, sleep)
		}
	}
}

func TestOnlyTheTailWaits(t *testing.T) {
	needs.Quiet(t)
	const every, sleep, requests = 50, 20 * time.Millisecond, 2000
	s := spawn(t, "tail", Params{Every: every, Sleep: sleep})
	d := drive(t, s.addr, 1, requests, time.Minute)
	// All of them waiting would be 25 a second on one connection at most.
	between(t, "rate beside that of a server that always waits", d.perSecond()*sleep.Seconds(), 2, every)
}
