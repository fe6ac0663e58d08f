//go:build linux

package load

import (
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"ceiling/internal/condition"
	"ceiling/internal/faultserver"
	"ceiling/internal/needs"
)

func conditions(t *testing.T, lines ...string) (list []condition.Condition) {
	t.Helper()
	for _, line := range lines {
		c, err := condition.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// Every response that is not as it has to be is counted, by condition, however it arrives: whole, in
// parts, many at once, chunked, until the end of the connection, longer than what is usually discarded.
func TestChecks(t *testing.T) {
	needs.Engine(t)
	up, down := faultserver.OK(`{"status":"up"}`), faultserver.OK(`{"status":"down"}`)
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"status\"\r\n8\r\n:\"down\"}\r\n0\r\n\r\n"
	long := faultserver.OK(strings.Repeat("x", 300_000) + "end")
	isUp := `json $.status == "up"`
	wrong := []ErrorResponse{{Status: 200, Check: isUp, Line: "down"}}
	eachAtOnce(t, func(t *testing.T, engine string) {
		for name, k := range map[string]struct {
			steps      []faultserver.Step
			checks     []string
			pipelining int
			bad        uint64
			want       []ErrorResponse
			faults     map[string]uint64
		}{
			"good":       {[]faultserver.Step{faultserver.Answer(up)}, []string{isUp, "bytes < 20"}, 1, 0, nil, nil},
			"wrong":      {[]faultserver.Step{faultserver.Answer(down)}, []string{isUp, "bytes < 20"}, 1, 400, wrong, map[string]uint64{isUp: 400}},
			"deep":       {[]faultserver.Step{faultserver.Answer(down)}, []string{isUp}, 16, 400, wrong, map[string]uint64{isUp: 400}},
			"good, deep": {[]faultserver.Step{faultserver.Answer(up)}, []string{isUp}, 16, 0, nil, nil},
			"half": {[]faultserver.Step{faultserver.Loop(faultserver.AnswerTimes(1, up), faultserver.AnswerTimes(1, down))}, []string{isUp}, 1, 200, wrong,
				map[string]uint64{isUp: 200}},
			"parts": {[]faultserver.Step{faultserver.Loop(faultserver.Request(1), faultserver.Drip(down, 9))}, []string{isUp}, 1, 400, wrong,
				map[string]uint64{isUp: 400}},
			"chunked": {[]faultserver.Step{faultserver.Answer(chunked)}, []string{isUp}, 4, 400, wrong, map[string]uint64{isUp: 400}},
			"the second": {[]faultserver.Step{faultserver.Answer(up)}, []string{"bytes > 1", "header X-None exists"}, 1, 400,
				[]ErrorResponse{{Status: 200, Check: "header X-None exists"}}, map[string]uint64{"header X-None exists": 400}},
			"long": {[]faultserver.Step{faultserver.Answer(long)}, []string{"body matches end$", "bytes == 300003"}, 1, 0, nil, nil},
			"until the end": {[]faultserver.Step{faultserver.Request(1), faultserver.Write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nno"), faultserver.Close()},
				[]string{"body == yes"}, 1, 400, []ErrorResponse{{Status: 200, Check: "body == yes", Line: "no"}}, map[string]uint64{"body == yes": 400}},
			"an unexpected status is no check's": {[]faultserver.Step{faultserver.Answer(faultserver.Response("500 Oops", "", "no"))}, []string{"body == yes"}, 1, 400,
				[]ErrorResponse{{Status: 500, Line: "no"}}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, faultserver.Every(k.steps...))
				cfg := config(t, s, engine, 400)
				cfg.Connections, cfg.Threads, cfg.Pipelining, cfg.Expect.Checks = 1, 1, k.pipelining, conditions(t, k.checks...)
				r := runs(t, cfg)
				if r.Total.Bad != k.bad || r.Total.Completed != 400 || !reflect.DeepEqual(r.Errors, k.want) {
					t.Errorf("%d of %d are bad, %+v; want %d, %+v", r.Total.Bad, r.Total.Completed, r.Errors, k.bad, k.want)
				}
				for check, n := range k.faults {
					if got := r.Total.Faults[Fault{PhaseCheck, check}]; got != n {
						t.Errorf("%s: %d, want %d", check, got, n)
					}
				}
				if len(k.faults) == 0 && len(r.Total.Faults) > 0 {
					t.Errorf("faults %v", r.Total.Faults)
				}
			})
		}
	})
}

// Over HTTP/2 too, with streams side by side; and the server's own count of what it got wrong agrees.
func TestH2Checks(t *testing.T) {
	needs.Engine(t)
	eachAtOnce(t, func(t *testing.T, engine string) {
		var asked, wrong atomic.Int64
		s := newGoServer(t, true, nil, func(out http.ResponseWriter, _ *http.Request) {
			n := asked.Add(1)
			out.Header().Set("X-Number", strconv.FormatInt(n%10, 10))
			out.Header().Set("X-Part", "3")
			if n%10 == 3 {
				wrong.Add(1)
			}
			_, _ = io.WriteString(out, strings.Repeat("a", int(n%3)*20_000))
		})
		c := s.config(t, engine, 3000, 8)
		c.Expect.Checks = conditions(t, "header X-Number != 3", "body not contains b", "header x-part == 3")
		r := runs(t, c)
		if got := r.Total.Bad; got == 0 || got != uint64(wrong.Load()) || r.Total.Completed != 3000 {
			t.Errorf("%d of %d are bad, and the server knows of %d", got, r.Total.Completed, wrong.Load())
		}
	})
}
