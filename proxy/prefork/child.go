package prefork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"ceiling/proxy"
	"ceiling/proxy/config"
)

// IsChild reports whether a Parent started this process, which then calls Run.
func IsChild() bool { return os.Getenv(childEnv) != "" }

// Run serves as a child on the inherited listeners, see proxy.Proxy.Run. load reads the configuration.
func Run(ctx context.Context, now <-chan struct{}, load func() (*config.Config, error), o proxy.Options) error {
	n, err := strconv.Atoi(os.Getenv(childEnv))
	if err != nil || n < 1 {
		return fmt.Errorf("%s=%q: must be a number of children", childEnv, os.Getenv(childEnv))
	}
	part := partOf(load, n)
	c, err := part()
	if err != nil {
		return err
	}
	file := os.NewFile(controlFD, "control")
	control, err := net.FileConn(file) // duplicates
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	o.Share, o.Challenges = n, os.Getenv(challengesEnv)
	for i := range slices.Concat(c.Listen, c.TLS.Listen) {
		o.Listeners = append(o.Listeners, listenerFD+i)
	}
	p, err := proxy.New(c, o)
	if err != nil {
		return errors.Join(err, control.Close())
	}
	s := &server{proxy: p, part: part, questions: json.NewDecoder(control), answers: json.NewEncoder(control)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer onRotate(p, o.Report)()
	done := make(chan struct{})
	if s.answer() != nil { // the first tells the applications: from its start, requests wait for what is starting
		cancel()
	}
	go func() {
		defer close(done)
		defer cancel()
		for s.answer() == nil {
		}
	}()
	err = errors.Join(p.Run(ctx, now), control.Close())
	<-done
	return err
}

// partOf returns a reader of one child's part of the whole configuration.
func partOf(load func() (*config.Config, error), n int) func() (*config.Config, error) {
	wanted := -1
	return func() (*config.Config, error) {
		c, err := load()
		if err != nil {
			return nil, err
		}
		if wanted >= 0 && c.Workers != wanted {
			return nil, errors.New("reload: workers change, which needs a new start")
		}
		wanted, c.Workers = c.Workers, 1
		if c.Limits.Connections > 0 {
			c.Limits.Connections = max(c.Limits.Connections/n, 1)
		}
		return c, nil
	}
}

// onRotate reopens the log at each SIGUSR1 until stop: log rotation may signal the whole process
// group, and the signal would kill a child.
func onRotate(p *proxy.Proxy, report func(string)) (stop func()) {
	rotate, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(rotate, syscall.SIGUSR1)
	go func() {
		defer close(done)
		for range rotate {
			if err := p.ReopenLog(); err != nil {
				report(err.Error() + "; the old file stays")
			}
		}
	}()
	return func() {
		signal.Stop(rotate)
		close(rotate)
		<-done
	}
}

// server answers the parent.
type server struct {
	proxy     *proxy.Proxy
	part      func() (*config.Config, error)
	questions *json.Decoder
	answers   *json.Encoder
}

// answer answers one query; an error is the end of the control socket.
func (s *server) answer() (err error) {
	var q question
	if err := s.questions.Decode(&q); err != nil {
		return err
	}
	var r reply
	switch q.Ask {
	case "snapshot":
		r.Snapshot, err = s.proxy.Snapshot()
	case "traces":
		r.Traces, err = s.proxy.Traces()
	case "reload":
		var c *config.Config
		if c, err = s.part(); err == nil {
			err = s.proxy.Reload(c)
		}
	case "applications":
		s.proxy.SetApplications(q.Applications)
	case "reopen":
		err = s.proxy.ReopenLog()
	default:
		err = fmt.Errorf("%q is not known", q.Ask)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return s.answers.Encode(r)
}
