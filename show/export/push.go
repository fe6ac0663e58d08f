package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ceiling/internal/secret"
)

const (
	// pushEvery and pushTimeout are the defaults of Collector.
	pushEvery   = 5 * time.Second
	pushTimeout = 2 * time.Second
	// replyMax limits how much of a collector's response is read.
	replyMax = 64 << 10
)

// Collector is the destination of OTLP metrics: OTLP over HTTP, in JSON.
type Collector struct {
	// URL of the collector; if it has no path, /v1/metrics is added.
	URL string
	// Header is sent with every request, for example Authorization.
	Header http.Header
	// Every is the interval between two requests of a Pusher, 0 for 5 s; Timeout is that of one
	// request, 0 for 2 s.
	Every, Timeout time.Duration
}

// ParseHeader parses OTEL_EXPORTER_OTLP_HEADERS: comma-separated "name=value", values
// percent-encoded (OpenTelemetry specification, "OTLP Exporter Configuration").
func ParseHeader(text string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n:") || err != nil || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header field %d is not name=value", len(h)+1) // its text may be a secret
		}
		h.Add(name, value)
	}
	return h, nil
}

// Check validates the URL before a run starts.
func (c *Collector) Check() error {
	_, err := c.endpoint()
	return err
}

// endpoint validates the URL and completes it.
func (c *Collector) endpoint() (string, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("invalid collector URL %q; give one such as http://127.0.0.1:4318", secret.Plain().URL(c.URL))
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/metrics"
	}
	return u.String(), nil
}

// client follows no redirects, so that metrics reach only the configured host, and shares no
// connections.
func (c *Collector) client() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxConnsPerHost = 1
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *Collector) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return pushTimeout
}

// post sends one request and returns the number of data points that the collector rejected.
func (c *Collector) post(ctx context.Context, client *http.Client, endpoint string, request otlpRequest) (rejected int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return 0, fmt.Errorf("send metrics: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("send metrics: %w", err)
	}
	if c.Header != nil {
		r.Header = c.Header.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("send metrics: %w", withoutURL(err, endpoint))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, replyMax))
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return 0, fmt.Errorf("send metrics: the collector answers %d %s: %.200q", answer.StatusCode, http.StatusText(answer.StatusCode),
			firstLine(text))
	}
	if err != nil {
		return 0, fmt.Errorf("send metrics: read the answer: %w", err)
	}
	return rejectedOf(text), nil
}

// withoutURL redacts the collector's URL in a client error.
func withoutURL(err error, endpoint string) error {
	var in *url.Error
	if errors.As(err, &in) {
		in.URL = secret.Plain().URL(endpoint)
	}
	return err
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.ToValidUTF8(line, "\uFFFD")
}

// rejectedOf reads partialSuccess from the response; a response that is not JSON counts as 0
// rejected.
func rejectedOf(text []byte) int64 {
	var reply struct {
		PartialSuccess struct {
			Rejected json.Number `json:"rejectedDataPoints"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(text, &reply) != nil {
		return 0
	}
	n, err := reply.PartialSuccess.Rejected.Int64()
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Send sends a finished run to a collector, once.
func Send(ctx context.Context, c Collector, s *Source) error {
	endpoint, err := c.endpoint()
	if err != nil {
		return err
	}
	client := c.client()
	defer client.CloseIdleConnections()
	r := s.Run
	end := r.Started.Add(time.Duration(r.ElapsedS * 1e9))
	request := otlpOf(figuresOf(s), about{run: r.ID, version: r.Environment.Version, host: r.Environment.Host}, r.Started, end)
	rejected, err := c.post(ctx, client, endpoint, request)
	if err == nil && rejected > 0 {
		err = fmt.Errorf("send metrics: the collector did not take %d data points", rejected)
	}
	return err
}

// Pushed is the result of pushing.
type Pushed struct {
	// Sent requests succeeded, Failed did not. Dropped were due while the previous request was
	// still in flight, and were never sent.
	Sent, Failed, Dropped uint64
	// Rejected counts the data points of Sent that the collector rejected.
	Rejected int64
	// Err is the last error.
	Err error
}

// String returns one line for the end of a run; "" if nothing failed.
func (p *Pushed) String() string {
	if p.Failed == 0 && p.Dropped == 0 && p.Rejected == 0 {
		return ""
	}
	text := fmt.Sprintf("of %d requests to the collector %d failed and %d were dropped", p.Sent+p.Failed+p.Dropped, p.Failed, p.Dropped)
	if p.Rejected > 0 {
		text += fmt.Sprintf("; %d data points were not tested", p.Rejected)
	}
	if p.Err != nil {
		text += "; the last failure: " + p.Err.Error()
	}
	return text
}

// Pusher sends a Live to a collector every few seconds. Counters are sent as totals, so a failed
// or dropped request loses a point of the curve but no counts. It has two goroutines, at most one
// request in flight, and no queue, so a slow or dead collector costs the run nothing more.
type Pusher struct {
	collector Collector
	endpoint  string
	client    *http.Client
	live      *Live

	stop   context.CancelFunc
	due    chan struct{}
	ended  chan struct{}
	result Pushed // owned by the sending goroutine until ended is closed, except Dropped
	missed uint64 // owned by the ticking goroutine
}

// StartPush starts to send.
func StartPush(c Collector, live *Live) (*Pusher, error) {
	every := c.Every
	if every <= 0 {
		every = pushEvery
	}
	ticker := time.NewTicker(every)
	p, err := startPush(c, live, ticker.C)
	if err != nil {
		ticker.Stop()
		return nil, err
	}
	stop := p.stop
	p.stop = func() { ticker.Stop(); stop() }
	return p, nil
}

// startPush is StartPush with a given clock.
func startPush(c Collector, live *Live, ticks <-chan time.Time) (*Pusher, error) {
	endpoint, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Pusher{
		collector: c, endpoint: endpoint, client: c.client(), live: live,
		stop: stop, due: make(chan struct{}), ended: make(chan struct{}),
	}
	clock := make(chan struct{})
	go func() {
		defer close(clock)
		p.tell(ctx, ticks)
	}()
	go func() {
		defer close(p.ended)
		p.send(ctx)
		<-clock
	}()
	return p, nil
}

// tell passes on every tick that finds the sender idle.
func (p *Pusher) tell(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			select {
			case p.due <- struct{}{}:
			default:
				p.missed++
			}
		}
	}
}

func (p *Pusher) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.due:
			p.once(ctx)
		}
	}
}

// once sends the current state.
func (p *Pusher) once(ctx context.Context) {
	list, state := p.live.figures()
	who := state.who
	start := state.started
	now := time.Now()
	if start.IsZero() {
		start = now
	}
	rejected, err := p.collector.post(ctx, p.client, p.endpoint,
		otlpOf(list, about{run: who.Run, version: who.Version, host: who.Host}, start, now))
	switch {
	case err == nil:
		p.result.Sent++
		p.result.Rejected += rejected
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		p.result.Dropped++ // cancelled by Close, which sends the final state itself
	default:
		p.result.Failed++
		p.result.Err = err
	}
}

// Close cancels the request in flight, sends the final state once more and returns the result. It
// takes at most one timeout.
func (p *Pusher) Close() Pushed {
	p.stop()
	<-p.ended
	p.once(context.Background())
	p.client.CloseIdleConnections()
	p.result.Dropped += p.missed
	return p.result
}
