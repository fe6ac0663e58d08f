package browser

import (
	"encoding/json"
	"strings"
	"sync"
)

// Message is a console message of the page or the browser.
type Message struct {
	Level string // "error", "warning", "info", "log", "debug"
	Text  string
	URL   string // of the script or resource concerned
}

// Request is a request by the page.
type Request struct {
	ID     string
	URL    string
	Method string
	Type   string // "Document", "Stylesheet", "Image", "Fetch", "EventSource" …
	Status int    // of the response; 0 without one
	Failed string // why it failed
}

// log collects the page's messages and requests.
type log struct {
	loads chan string // loaders whose page has loaded

	mu       sync.Mutex
	messages []Message
	requests []Request
}

// take handles every event of the page's session.
func (l *log) take(method string, params json.RawMessage) {
	switch method {
	case "Page.lifecycleEvent":
		var e struct{ LoaderID, Name string }
		if json.Unmarshal(params, &e) == nil && e.Name == "load" {
			select {
			case l.loads <- e.LoaderID:
			default: // 64 unread ones: a page that reloads itself
			}
		}
	case "Runtime.consoleAPICalled":
		l.console(params)
	case "Runtime.exceptionThrown":
		l.thrown(params)
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Level, Text, URL string }
		}
		if json.Unmarshal(params, &e) == nil {
			l.add(Message{e.Entry.Level, e.Entry.Text, e.Entry.URL})
		}
	case "Network.requestWillBeSent", "Network.responseReceived", "Network.loadingFailed":
		l.network(method, params)
	}
}

func (l *log) add(m Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, m)
}

func (l *log) console(params json.RawMessage) {
	var e struct {
		Type string
		Args []struct {
			Value       json.RawMessage
			Description string
		}
		StackTrace struct {
			CallFrames []struct{ URL string }
		}
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	var words []string
	for _, a := range e.Args {
		if a.Description != "" {
			words = append(words, a.Description)
		} else {
			words = append(words, string(a.Value))
		}
	}
	m := Message{Level: e.Type, Text: strings.Join(words, " ")}
	if m.Level == "assert" {
		m.Level = "error"
	}
	if len(e.StackTrace.CallFrames) > 0 {
		m.URL = e.StackTrace.CallFrames[0].URL
	}
	l.add(m)
}

func (l *log) thrown(params json.RawMessage) {
	var e struct {
		ExceptionDetails struct {
			Text, URL string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(params, &e) == nil {
		d := &e.ExceptionDetails
		l.add(Message{"error", d.Text + " " + d.Exception.Description, d.URL})
	}
}

func (l *log) network(method string, params json.RawMessage) {
	var e struct {
		RequestID string
		Type      string
		Request   struct{ URL, Method string }
		Response  struct{ Status int }
		ErrorText string
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if method == "Network.requestWillBeSent" {
		l.requests = append(l.requests, Request{ID: e.RequestID, URL: e.Request.URL, Method: e.Request.Method, Type: e.Type})
		return
	}
	for i := len(l.requests) - 1; i >= 0; i-- { // a redirect repeats the ID: the last one is meant
		if l.requests[i].ID == e.RequestID {
			l.requests[i].Status = max(l.requests[i].Status, e.Response.Status)
			l.requests[i].Failed += e.ErrorText
			return
		}
	}
}

// Console returns all console messages so far.
func (p *Page) Console() []Message {
	p.sync()
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return append([]Message(nil), p.log.messages...)
}

// Errors returns console errors and uncaught exceptions, including the browser's own, such as
// violations of the page's content security policy.
func (p *Page) Errors() []string {
	var list []string
	for _, m := range p.Console() {
		if m.Level == "error" {
			list = append(list, strings.TrimSpace(m.Text+" "+m.URL))
		}
	}
	return list
}

// Requests returns all requests so far, the page itself first. A request blocked by the content
// security policy is not among them; Errors has it.
func (p *Page) Requests() []Request {
	p.sync()
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return append([]Request(nil), p.log.requests...)
}

// sync waits for a response of the page, so that all its earlier messages have arrived.
func (p *Page) sync() { p.Eval("1", nil) }
