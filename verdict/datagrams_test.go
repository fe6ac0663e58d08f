package verdict

import (
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestDatagrams: a run over QUIC that lost datagrams to a full buffer says so, one over
// TCP or without a loss worth naming does not.
func TestDatagrams(t *testing.T) {
	for _, c := range []struct {
		alpn    string
		dropped int64
		want    bool
	}{{"h3", 500, true}, {"h3", 1, false}, {"h3", 0, false}, {"h3", -1, false}, {"h2", 500, false}} {
		r := &record.Run{
			ElapsedS: 10, WarmupS: 1, Spec: spec.Spec{Connections: 64, Pipelining: 1},
			Requests: record.Requests{Sent: 1000, Completed: 1000},
			Load:     record.Load{Connections: 64, Established: 64, Pipelining: 1, Mode: "closed", TLS: &record.TLS{Protocol: c.alpn}},
		}
		series := &record.Series{}
		series.Observed.TCP = []*record.TCPRow{{ObservedHead: record.ObservedHead{Kind: record.KindTCP, TNs: 5e9, WidthNs: 1e8},
			UDPIn: 99_500, UDPRcvbufErrors: c.dropped}}
		told := strings.Join(prose.Texts(Judge(r, series).Caveats), "\n")
		if got := strings.Contains(told, "500 of 100,000 datagrams were dropped because a socket's receive buffer was full"); got != c.want {
			t.Errorf("%+v:\n%s", c, told)
		}
	}
}
