package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// message is a DevTools protocol message, in either direction. On the pipe each ends with a zero
// byte.
type message struct {
	ID      int             `json:"id,omitempty"` // of a call and its response
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"` // of a call or an event
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error,omitempty"`
}

// conn carries calls and events of all pages of a browser.
type conn struct {
	to   io.WriteCloser
	from io.ReadCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	pages   map[string]func(method string, params json.RawMessage) // by session
	gone    chan struct{}                                          // closed when no more can arrive
}

func newConn(to io.WriteCloser, from io.ReadCloser) *conn {
	c := &conn{to: to, from: from, waiting: map[int]chan message{}, pages: map[string]func(string, json.RawMessage){},
		gone: make(chan struct{})}
	go c.read()
	return c
}

// read dispatches the browser's messages until it exits.
func (c *conn) read() {
	defer close(c.gone)
	in := bufio.NewReaderSize(c.from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue // it answers no call: the caller times out
		}
		c.mu.Lock()
		answer, asked := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		page := c.pages[m.Session]
		c.mu.Unlock()
		switch {
		case asked:
			answer <- m
		case m.Method != "" && page != nil:
			page(m.Method, m.Params)
		}
	}
}

// send writes a call without waiting for its response.
func (c *conn) send(session, method string, params any) error {
	_, err := c.write(session, method, params, nil)
	return err
}

// call writes a call and reads its response into out, which may be nil.
func (c *conn) call(session, method string, params, out any) error {
	answer := make(chan message, 1)
	id, err := c.write(session, method, params, answer)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s %s", method, m.Error.Message, m.Error.Data)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(m.Result, out)
	case <-c.gone:
		return fmt.Errorf("%s: the browser has ended", method)
	case <-timer.C:
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return fmt.Errorf("%s: no answer in %s", method, patience)
	}
}

func (c *conn) write(session, method string, params any, answer chan message) (int, error) {
	m := message{Session: session, Method: method}
	if params != nil {
		var err error
		if m.Params, err = json.Marshal(params); err != nil {
			return 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	m.ID = c.last
	if answer != nil {
		c.waiting[m.ID] = answer
	}
	text, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	_, err = c.to.Write(append(text, 0))
	return m.ID, err
}

// listen passes the events of a session to f, on the reading goroutine: f must not call.
func (c *conn) listen(session string, f func(method string, params json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages[session] = f
}

func (c *conn) close() error {
	err := errors.Join(c.to.Close(), c.from.Close())
	<-c.gone
	return err
}
