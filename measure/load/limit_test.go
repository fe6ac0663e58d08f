package load

import (
	"testing"

	"ceiling/internal/faultserver"
)

// TestCutIsNoLimit: a server that ends connections over requests it has read,
// each time after another number of responses, fails those requests; that some
// end so is not to be mistaken for a keep-alive limit.
func TestCutIsNoLimit(t *testing.T) {
	ok := faultserver.OK("x")
	for name, end := range map[string]faultserver.Step{"reset": faultserver.Reset(), "close": faultserver.Close()} {
		t.Run(name, func(t *testing.T) {
			bothAtOnce(t, func(t *testing.T, engine string) {
				s := serve(t, func(number int) faultserver.Script {
					return faultserver.Script{faultserver.AnswerTimes(1+number*7%13, ok), faultserver.Request(1), end}
				})
				c := config(t, s, engine, 2000)
				r := runs(t, c)
				n := &r.Total
				// Some 250 connections are cut. A count can match the one before
				// by chance, most of all as two workers compare their own.
				cut := uint64(s.Accepted()) - 4
				if n.Failed < cut*3/4 || n.Failed+n.Reconnects < cut {
					t.Errorf("%d failed and %d reconnects of %d connections that were cut", n.Failed, n.Reconnects, cut)
				}
			})
		})
	}
}
