//go:build linux

package perturb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"

	"ceiling/internal/nic"
	"ceiling/internal/sys"
	"ceiling/internal/unit"
)

// A link is slowed at the token bucket that is the root queueing discipline of its interface:
// tc-tbf(8), net/sched/sch_tbf.c. An existing one is changed in place and gets back, byte for byte,
// the options that the kernel reported. If the kernel's default discipline is the root, a bucket
// replaces it and is removed again, upon which the kernel creates a new default one. Any other root
// discipline was configured for a reason, and is refused.

// Link is an interface whose rate may be lowered.
type Link struct {
	name, space string
	index       int32
	speed       float64 // bits per second, if no bucket limits it
}

// heldLink is the note about a slower link.
type heldLink struct {
	Interface string `json:"interface"`
	Namespace string `json:"namespace,omitempty"`
	// Before is the root discipline that was there; Rate, in bytes per second,
	// is our bucket's: one with another rate is not ours.
	Before discipline `json:"before"`
	Rate   uint64     `json:"rate_bytes_per_s"`
}

// discipline is the root queueing discipline of an interface.
type discipline struct {
	Kind   string `json:"kind"`
	Handle uint32 `json:"handle"` // 0: the kernel's default
	// Options are the attributes inside TCA_OPTIONS, as the kernel dumps and accepts them.
	Options []byte `json:"options,omitempty"`
}

const (
	rootParent = 0xffffffff // TC_H_ROOT
	// ourHandle is the handle of our buckets: tc shows it as ce11:.
	ourHandle = 0xce11 << 16

	tcaKind, tcaOptions = 1, 2

	// Attributes of tbf (include/uapi/linux/pkt_sched.h).
	tbfParms  = 1 // struct tc_tbf_qopt
	tbfRate64 = 4 // u64 bytes per second, if it exceeds 32 bits
	tbfBurst  = 6 // u32 bytes

	// Inside tc_tbf_qopt: tc_ratespec rate and peakrate, u32 limit, buffer, mtu.
	tbfParmsBytes = 36
	tbfLinkLayer  = 1  // u8 of the rate's tc_ratespec
	tbfRate       = 8  // u32 bytes per second
	tbfLimit      = 24 // bytes
	tbfBuffer     = 28 // duration of a full bucket, in ticks

	ethernet     = 1  // TC_LINKLAYER_ETHERNET: lengths unchanged
	tickNs       = 64 // PSCHED_SHIFT 6, include/net/pkt_sched.h
	rateTooLarge = math.MaxUint32
)

// Our bucket holds the largest segment that leaves the stack whole, or a millisecond, and its queue
// 50 ms.
const (
	burstLeast = 66_000
	burstTime  = 0.001
	queueTime  = 0.050
)

// findLink examines an interface. bitsPerS is the speed given by the user, 0: none.
func findLink(name, namespace string, bitsPerS float64) (*Link, error) {
	l := &Link{name: name, space: namespace}
	if !mayAdministerNetwork() {
		return nil, fmt.Errorf("interface %s: its rate can be changed by root only", l)
	}
	err := l.inside(func(h *handle) error {
		root, err := h.root(l.index)
		if err != nil {
			return err
		}
		switch {
		case root.Kind == "tbf":
			_, err = root.rate()
			return err
		case root.Handle != 0:
			return fmt.Errorf("its root queueing discipline is %s; ceiling replaces only tbf and the kernel's default",
				root.Kind)
		}
		l.speed, err = speedOf(name, namespace, bitsPerS)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", l, err)
	}
	return l, nil
}

// String returns the interface with its namespace.
func (l *Link) String() string {
	if l.space != "" {
		return l.name + " in namespace " + l.space
	}
	return l.name
}

// speedOf returns the speed given by the user or reported by the driver of a physical interface. A
// virtual one reports a meaningless number.
func speedOf(name, namespace string, bitsPerS float64) (float64, error) {
	if bitsPerS > 0 {
		return bitsPerS, nil
	}
	dir := filepath.Join("/sys/class/net", name)
	unknown := errors.New("link speed unknown (set --link-speed)")
	if _, err := os.Stat(filepath.Join(dir, "device")); err != nil || namespace != "" {
		return 0, unknown
	}
	mbits := nic.Mbits(name)
	if mbits == 0 {
		return 0, unknown
	}
	return float64(mbits) * 1e6, nil
}

// netAdmin is the bit of CAP_NET_ADMIN (capabilities(7)).
const netAdmin = 12

func mayAdministerNetwork() bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return os.Geteuid() == 0
	}
	set, err := strconv.ParseUint(sys.Field(b, "CapEff"), 16, 64)
	return err == nil && set&(1<<netAdmin) != 0
}

// slow takes a share of the link's rate away, until the note is undone. left is the ratio of the
// new rate to the old one, both as the kernel reports them.
func (l *Link) slow(share float64) (n *note, left float64, how string, err error) {
	if other := l.heldBy(); other != 0 {
		return nil, 0, "", fmt.Errorf("interface %s: process %d has made it slower already; wait for its proof to end", l, other)
	}
	err = l.inside(func(h *handle) error {
		before, err := h.root(l.index)
		if err != nil {
			return err
		}
		was, slower, err := l.slower(before, share)
		if err != nil {
			return err
		}
		rate, err := slower.rate()
		if err != nil {
			return err
		}
		if n, err = newNote(); err != nil {
			return err
		}
		n.Link = &heldLink{l.name, l.space, before, rate}
		if err := n.write(); err != nil {
			return err
		}
		if err := h.set(l.index, slower, before.Kind != "tbf"); err != nil {
			return errors.Join(err, n.undo())
		}
		now, err := h.root(l.index)
		if err == nil {
			rate, err = now.rate()
		}
		if err != nil {
			return errors.Join(err, n.undo())
		}
		left = float64(rate) / was
		how = fmt.Sprintf("a token bucket let %s through %s, before %s", unit.FormatBits(unit.BitsPerSecond(rate*8)), l,
			unit.FormatBits(unit.BitsPerSecond(was*8)))
		return nil
	})
	if err != nil {
		err = fmt.Errorf("interface %s: %w", l, err)
	}
	return n, left, how, err
}

// heldBy returns a live process that has a note about this link; 0: none.
func (l *Link) heldBy() int {
	for _, n := range notes() {
		if n.Link != nil && n.Link.Interface == l.name && n.Link.Namespace == l.space && !n.stale() {
			return n.Owner
		}
	}
	return 0
}

// slower returns the bucket for the remaining rate, and the rate before it in bytes per second.
func (l *Link) slower(before discipline, share float64) (was float64, d discipline, err error) {
	if before.Kind != "tbf" {
		if before.Handle != 0 {
			return 0, d, fmt.Errorf("its root queueing discipline is %s by now; only tbf, or the kernel's default one, is changed", before.Kind)
		}
		was = l.speed / 8
		return was, newBucket(was * (1 - share)), nil
	}
	rate, err := before.rate()
	if err != nil {
		return 0, d, err
	}
	d, err = before.scaled(1 - share)
	return float64(rate), d, err
}

// newBucket returns a discipline for a rate in bytes per second.
func newBucket(rate float64) discipline {
	burst := max(burstLeast, rate*burstTime)
	p := make([]byte, tbfParmsBytes)
	p[tbfLinkLayer] = ethernet
	binary.NativeEndian.PutUint32(p[tbfRate:], uint32(min(rate, rateTooLarge)))
	binary.NativeEndian.PutUint32(p[tbfLimit:], clamp(rate*queueTime+burst))
	binary.NativeEndian.PutUint32(p[tbfBuffer:], clamp(burst/rate*1e9/tickNs))
	options := attribute(tbfParms, p)
	if rate >= rateTooLarge {
		options = append(options, attribute(tbfRate64, binary.NativeEndian.AppendUint64(nil, uint64(rate)))...)
	}
	options = append(options, attribute(tbfBurst, binary.NativeEndian.AppendUint32(nil, clamp(burst)))...)
	return discipline{Kind: "tbf", Handle: ourHandle, Options: options}
}

func clamp(x float64) uint32 { return uint32(min(x, math.MaxUint32)) }

// attribute returns a padded netlink attribute.
func attribute(kind int, value []byte) []byte { return nl.NewRtAttr(kind, value).Serialize() }

// rate returns a bucket's rate, in bytes per second.
func (d *discipline) rate() (uint64, error) {
	if d.Kind != "tbf" {
		return 0, fmt.Errorf("its root queueing discipline is %s, not tbf", d.Kind)
	}
	attributes, err := nl.ParseRouteAttrAsMap(d.Options)
	if err != nil {
		return 0, fmt.Errorf("options of tbf: %w", err)
	}
	p := attributes[tbfParms].Value
	if len(p) < tbfParmsBytes {
		return 0, fmt.Errorf("options of tbf: %d bytes of parameters, %d are needed", len(p), tbfParmsBytes)
	}
	rate := uint64(binary.NativeEndian.Uint32(p[tbfRate:]))
	if wide := attributes[tbfRate64].Value; len(wide) >= 8 {
		rate = max(rate, binary.NativeEndian.Uint64(wide))
	}
	if rate == 0 {
		return 0, errors.New("options of tbf: its rate is 0")
	}
	return rate, nil
}

// scaled returns the same bucket with k times the rate: its size in bytes, and everything else,
// stays.
func (d *discipline) scaled(k float64) (discipline, error) {
	rate, err := d.rate()
	if err != nil {
		return discipline{}, err
	}
	attributes, err := nl.ParseRouteAttr(d.Options)
	if err != nil {
		return discipline{}, err
	}
	slower := max(1, uint64(math.Round(float64(rate)*k)))
	s := discipline{Kind: d.Kind, Handle: d.Handle}
	for _, a := range attributes {
		value := bytes.Clone(a.Value)
		switch a.Attr.Type {
		case tbfParms:
			if len(value) < tbfParmsBytes {
				continue // there is another, or rate would have failed
			}
			ticks := float64(binary.NativeEndian.Uint32(value[tbfBuffer:]))
			binary.NativeEndian.PutUint32(value[tbfRate:], uint32(min(slower, rateTooLarge)))
			binary.NativeEndian.PutUint32(value[tbfBuffer:], clamp(ticks*float64(rate)/float64(slower)))
		case tbfRate64:
			if len(value) < 8 {
				continue
			}
			binary.NativeEndian.PutUint64(value, slower)
		}
		s.Options = append(s.Options, attribute(int(a.Attr.Type), value)...)
	}
	return s, nil
}

// restore gives the interface its discipline back, unless it is gone or another program has changed
// it since.
func (h *heldLink) restore() error {
	l := &Link{name: h.Interface, space: h.Namespace}
	err := l.inside(func(k *handle) error {
		now, err := k.root(l.index)
		if err != nil {
			return err
		}
		rate, err := now.rate()
		if err != nil || rate != h.Rate {
			return nil // not ours, or not yet
		}
		if h.Before.Kind == "tbf" {
			return k.set(l.index, h.Before, false)
		}
		return k.remove(l.index, now.Handle)
	})
	if errors.Is(err, errNoLink) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore the rate of interface %s: %w; look at it with: tc qdisc show", l, err)
	}
	return nil
}

// errNoLink means that an interface, or its namespace, does not exist.
var errNoLink = errors.New("no such interface")

// handle talks to the kernel in one namespace.
type handle struct{ sockets map[int]*nl.SocketHandle }

// inside runs f with a socket in the link's namespace, once it has found the interface there.
func (l *Link) inside(f func(*handle) error) error {
	there, here := netns.None(), netns.None()
	if l.space != "" {
		var err error
		if strings.ContainsRune(l.space, '/') {
			return fmt.Errorf("invalid namespace name %q; ip netns lists them", l.space)
		}
		if there, err = netns.GetFromName(l.space); err != nil {
			return fmt.Errorf("%w: no namespace %q: %w", errNoLink, l.space, err)
		}
		defer there.Close()
		if here, err = netns.Get(); err != nil {
			return err
		}
		defer here.Close()
	}
	s, err := nl.GetNetlinkSocketAt(there, here, syscall.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer s.Close()
	h := &handle{map[int]*nl.SocketHandle{syscall.NETLINK_ROUTE: {Socket: s}}}
	if l.index, err = h.indexOf(l.name); err != nil {
		return err
	}
	return f(h)
}

func (h *handle) request(kind, flags int, parts ...nl.NetlinkRequestData) ([][]byte, error) {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = h.sockets
	for _, p := range parts {
		r.AddData(p)
	}
	return r.Execute(syscall.NETLINK_ROUTE, 0)
}

func (h *handle) indexOf(name string) (int32, error) {
	answers, err := h.request(syscall.RTM_GETLINK, syscall.NLM_F_ACK, nl.NewIfInfomsg(syscall.AF_UNSPEC),
		nl.NewRtAttr(syscall.IFLA_IFNAME, nl.ZeroTerminated(name)))
	if errors.Is(err, syscall.ENODEV) {
		return 0, errNoLink
	}
	if err != nil || len(answers) == 0 || len(answers[0]) < syscall.SizeofIfInfomsg {
		return 0, fmt.Errorf("find the interface: %w", errors.Join(err, errors.New("no answer of use")))
	}
	return nl.DeserializeIfInfomsg(answers[0]).Index, nil
}

// root reads the root discipline.
func (h *handle) root(index int32) (discipline, error) {
	answers, err := h.request(syscall.RTM_GETQDISC, syscall.NLM_F_DUMP, &nl.TcMsg{Ifindex: index})
	if err != nil {
		return discipline{}, fmt.Errorf("read its queueing discipline: %w", err)
	}
	for _, m := range answers {
		if len(m) < nl.SizeofTcMsg {
			continue
		}
		tc := nl.DeserializeTcMsg(m)
		if tc.Ifindex != index || tc.Parent != rootParent {
			continue
		}
		attributes, err := nl.ParseRouteAttrAsMap(m[nl.SizeofTcMsg:])
		if err != nil {
			return discipline{}, fmt.Errorf("read its queueing discipline: %w", err)
		}
		return discipline{
			Kind: nl.BytesToString(attributes[tcaKind].Value), Handle: tc.Handle, Options: bytes.Clone(attributes[tcaOptions].Value),
		}, nil
	}
	return discipline{}, errors.New("it has no queueing discipline: is it up?")
}

// set changes the existing root discipline, or creates a new one.
func (h *handle) set(index int32, d discipline, create bool) error {
	flags := syscall.NLM_F_ACK
	if create {
		flags |= syscall.NLM_F_CREATE | syscall.NLM_F_EXCL
	}
	_, err := h.request(syscall.RTM_NEWQDISC, flags, &nl.TcMsg{Ifindex: index, Handle: d.Handle, Parent: rootParent},
		nl.NewRtAttr(tcaKind, nl.ZeroTerminated(d.Kind)), nl.NewRtAttr(tcaOptions, d.Options))
	if errors.Is(err, syscall.EPERM) {
		return errors.New("its rate can be changed by root only")
	}
	if err != nil {
		return fmt.Errorf("set its queueing discipline: %w", err)
	}
	return nil
}

func (h *handle) remove(index int32, which uint32) error {
	_, err := h.request(syscall.RTM_DELQDISC, syscall.NLM_F_ACK, &nl.TcMsg{Ifindex: index, Handle: which, Parent: rootParent})
	if err != nil {
		return fmt.Errorf("take its queueing discipline off: %w", err)
	}
	return nil
}
