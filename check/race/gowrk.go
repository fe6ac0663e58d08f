package race

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"ceiling/internal/hist"
)

// goWrk makes the load that go-wrk makes: Go's own client, one goroutine for each
// connection, each with its next request when the last is answered. Its way of
// counting is reported beside the true one: requests over the mean of the times
// that the goroutines spent in requests, which leaves out what they did between
// them.
func (r *race) goWrk(ctx context.Context, k *Case, n *runner, s *Sample) error {
	transport := &http.Transport{MaxIdleConnsPerHost: r.Connections, MaxConnsPerHost: r.Connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: timeout}
	workers := make([]goWrker, r.Connections)
	begin := time.Now()
	var wait sync.WaitGroup
	for i := range workers {
		wait.Go(func() { workers[i].work(ctx, client, "http://"+n.addr+k.Path, begin.Add(r.Duration)) })
	}
	wait.Wait()
	s.WindowS = time.Since(begin).Seconds()
	var all hist.Hist
	var inRequests time.Duration
	for i := range workers {
		w := &workers[i]
		s.Errors += w.errors
		inRequests += w.inRequests
		all.Merge(&w.times)
	}
	s.Requests = all.Count()
	s.took(&all)
	if inRequests > 0 {
		s.GoWrkPerS = float64(s.Requests) / (inRequests.Seconds() / float64(r.Connections))
	}
	return ctx.Err()
}

// goWrker is one goroutine's part.
type goWrker struct {
	times      hist.Hist
	inRequests time.Duration
	errors     uint64
}

func (w *goWrker) work(ctx context.Context, client *http.Client, url string, end time.Time) {
	for time.Now().Before(end) && ctx.Err() == nil {
		begin := time.Now()
		if err := once(ctx, client, url); err != nil {
			w.errors++
			continue
		}
		took := time.Since(begin)
		w.inRequests += took
		w.times.Record(int64(took))
	}
}

func once(ctx context.Context, client *http.Client, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(q)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(res.Status))
	}
	return errors.Join(err, res.Body.Close())
}
