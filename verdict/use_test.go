package verdict

import (
	"math"
	"testing"

	"ceiling/record"
)

// What was planted at each end and in each direction of the link is what is said of it:
// here the generator sends 25 MB/s to a server on another host and gets 100 MB/s back.
func TestUsesArePlanted(t *testing.T) {
	wire := func(bytes, packets float64) float64 { return 8 * (bytes + 24*packets) } // IEEE 802.3: preamble, checksum, gap
	for name, c := range map[string]struct {
		side               string
		toServer, toClient int64
	}{"generator's interface": {record.SideGenerator, 25e6, 100e6}, "server's interface": {record.SideServer, 25e6, 100e6}} {
		w := each(watched(1_000_000, 1.2), func(r *record.NetDevRow) {
			r.Iface, r.Side, r.SpeedMbit = "eth0", c.side, 1000
			r.TxBytes, r.RxBytes = c.toServer, c.toClient
			if c.side == record.SideServer {
				r.TxBytes, r.RxBytes = r.RxBytes, r.TxBytes
			}
		})
		w.run.Spec.PinServer = "0-1"
		got := map[string]record.Use{}
		for _, u := range w.judge().Uses {
			got[u.Station+" "+u.What] = u
		}
		for what, want := range map[string]record.Use{
			"generator thread":       {Used: .05, Of: 1},
			"server cores":           {Used: 1.2, Of: 2},
			"network to server link": {Used: wire(25e6, 9e3), Of: 1e9, Name: "eth0"},
			"network to client link": {Used: wire(100e6, 9e3), Of: 1e9, Name: "eth0"},
		} {
			u := got[what]
			if math.Abs(u.Used-want.Used) > 1e-6*want.Used || u.Of != want.Of || u.Name != want.Name {
				t.Errorf("%s, %s: %+v, want %+v", name, what, u, want)
			}
		}
	}
	w := watched(1_000_000, 1.2)
	w.series = &record.Series{}
	if uses := w.judge().Uses; len(uses) != 1 || uses[0].Station != record.PlaceGenerator {
		t.Errorf("without observers: %+v", uses)
	}
}
