package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ceiling/internal/distance"
)

// ReplicaEnv is set in the environment of a process that is only a replica: see Serve.
const ReplicaEnv = "CEILING_KV_REPLICA"

// A plan is a replica's configuration.
type plan struct {
	Name   string        `json:"name"`
	Dir    string        `json:"dir"`
	Host   string        `json:"host"` // for clients
	Port   int           `json:"port"`
	Peers  string        `json:"peers"`  // host:port for the other replicas; "" for none
	Inner  int           `json:"inner"`  // loopback port behind it, if there is a delay
	Routes []string      `json:"routes"` // of all replicas, itself included
	Delay  time.Duration `json:"delay"`
	Sync   bool          `json:"sync"`
}

// readyLine is printed by a replica when it accepts connections.
const readyLine = "replica serves"

const (
	replicaWithin = 20 * time.Second // limit for accepting connections
	routePing     = time.Second      // interval of measuring the round trip to the others
	maxPayload    = 1 << 20
)

// Serve runs a replica, configured by the variable ReplicaEnv, until ctx ends.
func Serve(ctx context.Context, text string, out io.Writer) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("%s: %w", ReplicaEnv, err)
	}
	// Its name in process lists; failing to set it is not an error.
	_ = os.WriteFile("/proc/self/comm", []byte("kv-"+p.Name), 0)
	o, err := p.options()
	if err != nil {
		return err
	}
	if p.Delay > 0 {
		f, err := distance.Forward(p.Peers, net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Inner)), p.Delay)
		if err != nil {
			return err
		}
		defer f.Close() // fails only if closed
	}
	n, err := server.NewServer(o)
	if err != nil {
		return err
	}
	log := &log{fatal: make(chan string, 1)}
	n.SetLoggerV2(log, false, false, false)
	n.Start()
	defer n.WaitForShutdown()
	defer n.Shutdown()
	for limit := time.Now().Add(replicaWithin); !n.ReadyForConnections(100 * time.Millisecond); {
		select {
		case why := <-log.fatal:
			return errors.New(why)
		default:
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Now().After(limit) {
			return log.why(fmt.Sprintf("NATS is not ready within %v", replicaWithin))
		}
	}
	conn, err := nats.Connect("", nats.InProcessServer(n))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Subscribe(reportSubject(p.Name), func(m *nats.Msg) { _ = m.Respond(describe(n, log)) }); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, readyLine)
	select {
	case <-ctx.Done():
		return nil
	case why := <-log.fatal:
		return errors.New(why)
	}
}

func (p *plan) options() (*server.Options, error) {
	o := &server.Options{
		ServerName: p.Name, Host: p.Host, Port: p.Port, NoSigs: true, MaxPayload: maxPayload, PingInterval: 5 * time.Second, MaxPingsOut: 2,
		JetStream: true, StoreDir: p.Dir, DisableJetStreamBanner: true, JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 16 << 20,
		SyncAlways: p.Sync, SyncInterval: syncInterval,
		Tags: []string{p.Name},
	}
	if p.Peers == "" {
		return o, nil
	}
	host, text, err := net.SplitHostPort(p.Peers)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	o.Cluster = server.ClusterOpts{Name: "ceiling", Host: host, Port: port, Advertise: p.Peers, PingInterval: routePing, MaxPingsOut: 3}
	if p.Delay > 0 {
		o.Cluster.Host, o.Cluster.Port = "127.0.0.1", p.Inner
	}
	o.Routes = server.RoutesFromStr(strings.Join(p.Routes, ","))
	return o, nil
}

// syncInterval is JetStream's default, after which writes are synced to disk if they are not
// synced individually.
const syncInterval = 2 * time.Minute

// reportSubject is the subject on which a replica sends its report.
func reportSubject(name string) string { return "ceiling.replica." + name }

// A Link is a replica's connections to another.
type Link struct {
	To      string        `json:"to"`
	RTT     time.Duration `json:"rtt_ns"` // longest of its connections, measured every second
	Pending int           `json:"pending_bytes"`
}

// A report is a replica's description of itself.
type report struct {
	Links   []Link `json:"links"`
	Trouble string `json:"trouble"` // the last error logged by NATS
}

// describe returns a report as JSON.
func describe(n *server.Server, l *log) []byte {
	text, err := json.Marshal(report{links(n), l.why("").Error()})
	if err != nil {
		return nil // strings and numbers cannot fail
	}
	return text
}

func links(n *server.Server) (list []Link) {
	if z, err := n.Routez(nil); err == nil {
		at := map[string]int{}
		for _, r := range z.Routes {
			rtt, err := time.ParseDuration(r.RTT)
			if err != nil {
				continue // not measured yet
			}
			i, known := at[r.RemoteName]
			if !known {
				i = len(list)
				at[r.RemoteName] = i
				list = append(list, Link{To: r.RemoteName})
			}
			list[i].RTT, list[i].Pending = max(list[i].RTT, rtt), list[i].Pending+r.Pending
		}
	}
	return list
}

// log keeps NATS' fatal errors.
type log struct {
	fatal chan string

	mu   sync.Mutex
	last string
}

func (l *log) note(format string, a ...any) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fmt.Sprintf(format, a...)
	return l.last
}

// why returns the last error, or the given text if there is none.
func (l *log) why(otherwise string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != "" {
		return errors.New(l.last)
	}
	return errors.New(otherwise)
}

func (l *log) Noticef(string, ...any) {}
func (l *log) Warnf(string, ...any)   {}
func (l *log) Debugf(string, ...any)  {}
func (l *log) Tracef(string, ...any)  {}

func (l *log) Errorf(format string, a ...any) { l.note(format, a...) }

// Fatalf is called when NATS cannot continue; the process exits.
func (l *log) Fatalf(format string, a ...any) {
	select {
	case l.fatal <- l.note(format, a...):
	default: // the first is the cause
	}
}
