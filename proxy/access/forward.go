package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Forward asks a service about each request.
type Forward struct {
	uri     string
	copied  []Copied
	timeout time.Duration
	client  *http.Client
}

// Copied is a field of an answer, and what the request's is called that carries it on.
type Copied struct{ From, To string }

// CopiedOf reads "Name", or "Name>Other" for another name.
func CopiedOf(text string) Copied {
	from, to, renamed := strings.Cut(text, ">")
	if !renamed {
		to = from
	}
	return Copied{from, to}
}

// Answer is what the service says.
type Answer struct {
	// Status is 0 if the request may come in, with Lines for its destination; otherwise it, Lines and
	// Body are a response for the client.
	Status      int
	Lines, Body []byte
}

// replyMost bounds the body of an answer.
const replyMost = 1 << 20

// ErrTimeout is that the service did not answer in time.
var ErrTimeout = errors.New("no answer in time")

// NewForward asks at uri, and has copied fields of its answers carried on.
func NewForward(uri string, copied []Copied, timeout time.Duration) *Forward {
	return &Forward{uri: uri, copied: copied, timeout: timeout, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 4 * time.Second, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Timeout is how long Ask takes at most.
func (f *Forward) Timeout() time.Duration { return f.timeout }

// Ask asks about a request with these fields. An error, which names the service, is a request that may
// not come in.
func (f *Forward) Ask(ctx context.Context, fields http.Header) (*Answer, error) {
	a, err := f.ask(ctx, fields)
	if err != nil && ctx.Err() != nil {
		err = ErrTimeout
	}
	if err != nil {
		return nil, fmt.Errorf("forward_auth %s: %w", f.uri, err)
	}
	return a, nil
}

func (f *Forward) ask(ctx context.Context, fields http.Header) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.uri, nil)
	if err != nil {
		return nil, err
	}
	req.Header = fields
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, replyMost))
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 || res.StatusCode > 599 { // 101 included: this is no end of a tunnel (RFC 9110, section 15)
		return nil, fmt.Errorf("it answers %q, which is neither a yes nor a response for the client", res.Status)
	}
	a := &Answer{}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		for _, c := range f.copied {
			for _, v := range res.Header.Values(c.From) { // net/http has checked the value
				a.Lines = appendField(a.Lines, c.To, v)
			}
		}
		return a, nil
	}
	a.Status, a.Body = res.StatusCode, body
	for name, values := range res.Header {
		if slices.Contains([]string{"Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Date", "Trailer", "Upgrade", "Te"}, name) {
			continue
		}
		for _, v := range values {
			a.Lines = appendField(a.Lines, name, v)
		}
	}
	return a, nil
}
