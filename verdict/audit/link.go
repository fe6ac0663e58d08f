package audit

import (
	"fmt"
	"math"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

const (
	mega = 1e6           // a decimal megabyte: what links and most tools count in
	mebi = 1 << 20       // a binary one: what wrk prints as MB
	gibi = 1 << 30 / 1e3 // a thousandth of a binary gigabyte: 0.87 GB from wrk written as 870 MB

	// leastHead is the shortest head a response with a body can have:
	// "HTTP/1.1 200 OK", CRLF, "Content-Length: n", CRLF, CRLF without the
	// digits of n (RFC 9112, section 2.1).
	leastHead = 17 + 16 + 2 + 2
	// leastFrame is Ethernet 14, IPv4 20 and TCP 20 bytes without options, for
	// at most largestPayload bytes: frames of 9,001 bytes are the largest that
	// cloud networks carry.
	leastFrame     = 54
	largestPayload = 9001 - 40
)

// pointLink is what is known of the link between the two sides, in the
// direction of the responses.
type pointLink struct {
	capacity record.Figure // bytes per second
	used     record.Figure // bytes per second, at least
	how      string        // the arithmetic of used
	key      string        // the figure that used stands on
	// peers are the least and the most share of the link that the bytes of a
	// response in other runs of the route make, where this point states none.
	// They can rule the link out; they never make it the bottleneck.
	peersLow, peersHigh record.Figure
}

func (l *pointLink) known() bool    { return l.capacity.Known && l.used.Known }
func (l *pointLink) share() float64 { return l.used.Value / l.capacity.Value }
func (l *pointLink) full() bool     { return l.known() && l.share() >= linkFull }

func (l *pointLink) free() bool {
	return l.known() && l.share() <= linkFree || l.peersHigh.Known && l.peersHigh.Value <= linkFree
}

// shareSays is the share in words.
func (l *pointLink) shareSays() string {
	switch {
	case l.known():
		return unit.Percent(l.share())
	case l.peersHigh.Known && unit.Percent(l.peersLow.Value) != unit.Percent(l.peersHigh.Value):
		return unit.Percent(l.peersLow.Value) + " to " + unit.Percent(l.peersHigh.Value)
	case l.peersHigh.Known:
		return unit.Percent(l.peersHigh.Value)
	}
	return "unknown"
}

// bytesKeys are the figures of which any one tells the bytes on the link.
func bytesKeys() []string {
	return []string{"nic_mb_s", "client_throughput_mb_s", "body_bytes", "mean_response_bytes", "total_read_gb"}
}

func (l *pointLink) lacks() []missingFigure {
	var list []missingFigure
	if !l.capacity.Known {
		list = append(list, missingFigure{[]string{"nic_gbps"}, "the link's speed is not known (nic_gbps is missing)"})
	}
	bytes := bytesKeys()
	none := "state one of " + strings.Join(bytes, ", ")
	switch {
	case l.key == "nic_pct_author":
		list = append(list, missingFigure{bytes, "the link's use is only its author's percentage (" + none + ")"})
	case !l.used.Known && !l.free():
		list = append(list, missingFigure{bytes, "the bytes on the link are not known (" + none + ")"})
	}
	return list
}

func (l *pointLink) evidence() []record.Evidence {
	if !l.known() && l.peersHigh.Known && l.free() {
		return []record.Evidence{record.NewEvidence("nic_gbps", 100*l.peersHigh.Value, "%",
			"with the bytes a response that other runs of this route had the link is at %s", l.shareSays())}
	}
	if !l.known() {
		return nil
	}
	return []record.Evidence{record.NewEvidence(l.key, 100*l.share(), "%", "the link carried at least %s (= %s): %s of its %s", megabytes(l.used.Value),
		mebibytes(l.used.Value),
		unit.Percent(l.share()), megabytes(l.capacity.Value)), {What: l.key, Value: l.used.Value, Unit: "B/s", Says: l.how}}
}

// megabytes and mebibytes write bytes per second with the unit that they are.
func megabytes(perSecond float64) string {
	return unit.FormatCount(int64(math.Round(perSecond/mega))) + " MB/s"
}
func mebibytes(perSecond float64) string {
	return unit.FormatCount(int64(math.Round(perSecond/mebi))) + " MiB/s"
}

// framed is the least that responses of so many bytes take on a wire. Without
// pipelining each response is a segment of its own, for the next one is not
// asked for before it has arrived.
func (f *pointFacts) framed(bytes float64) float64 {
	segments := bytes / largestPayload
	if p := f.p.Pipelining; p.Known && p.Value == 1 {
		segments = math.Max(math.Ceil(segments), 1)
	}
	return bytes + segments*leastFrame
}

func (f *pointFacts) newLink() pointLink {
	p := &f.p
	l := pointLink{}
	if p.NICGbps.Known {
		l.capacity = record.Figure{Value: p.NICGbps.Value * 1e9 / 8, Known: true}
	}
	take := func(key string, bytes float64, format string, args ...any) {
		if bytes > l.used.Value {
			l.used, l.key, l.how = record.Figure{Value: bytes, Known: true}, key, fmt.Sprintf(format, args...)
		}
	}
	if p.NICMBS.Known {
		take("nic_mb_s", p.NICMBS.Value*mega, "the network interface is said to have carried %s MB/s", plain(p.NICMBS.Value))
	}
	if read, key, how, ok := f.read(); ok {
		if p.RPS.Known {
			each := read / p.RPS.Value
			wire := f.framed(each)
			take(key, wire*p.RPS.Value, "%s; %s bytes each, with at least %s of framing", how, plain(math.Round(each)), plain(math.Round(wire-each)))
		} else {
			take(key, read, "%s", how)
		}
	}
	if p.RPS.Known && p.BodyBytes.Known {
		body := p.BodyBytes.Value
		head := leastHead + math.Floor(math.Log10(math.Max(body, 1))) + 1
		wire := f.framed(body + head)
		take("body_bytes", wire*p.RPS.Value, "%s × (%s bytes of body + at least %s of head and %s of Ethernet, IP and TCP) = %s",
			unit.FormatRate(p.RPS.Value), plain(body), plain(head), plain(math.Round(wire-body-head)), megabytes(wire*p.RPS.Value))
	}
	if p.RPS.Known && p.ResponseBytes.Known {
		wire := f.framed(p.ResponseBytes.Value)
		take("mean_response_bytes", wire*p.RPS.Value, "%s × (%s bytes + at least %s of framing) = %s",
			unit.FormatRate(p.RPS.Value), plain(p.ResponseBytes.Value), plain(math.Round(wire-p.ResponseBytes.Value)), megabytes(wire*p.RPS.Value))
	}
	if p.NICPctAuthor.Known && l.capacity.Known && !l.used.Known {
		take("nic_pct_author", p.NICPctAuthor.Value/100*l.capacity.Value, "its author puts the link at %s%%, in units that cannot be checked",
			plain(p.NICPctAuthor.Value))
	}
	return l
}

// read is what the generator read, bytes per second.
func (f *pointFacts) read() (perS float64, key, how string, known bool) {
	p := &f.p
	name, factor := "MB", mega
	if f.tool.binary {
		name, factor = "MiB", float64(mebi)
	}
	if t := p.ClientThroughput; t.Known && t.Value > 0 {
		return t.Value * factor, "client_throughput_mb_s", fmt.Sprintf("the generator read %s %s/s", plain(t.Value), name), true
	}
	return f.totalRead()
}

// totalRead is the same by the bytes of the whole run.
func (f *pointFacts) totalRead() (perS float64, key, how string, known bool) {
	total := f.p.TotalReadGB
	elapsed, _, timed := f.seconds()
	if !total.Known || !timed || total.Value <= 0 {
		return 0, "", "", false
	}
	name, factor := "GB", 1e9
	if f.tool.binary {
		name, factor = "GiB", float64(1<<30)
	}
	perS = total.Value * factor / elapsed
	return perS, "total_read_gb", fmt.Sprintf("the generator read %s %s in %s s = %s", plain(total.Value), name, plain(elapsed),
		megabytes(perS)), true
}

// unitOf names the unit in which printed is between low and high bytes.
func unitOf(printed, low, high float64) string {
	for _, u := range []struct {
		name   string
		factor float64
	}{{"MB", mega}, {"MiB", mebi}, {"thousandths of a GiB", gibi}} {
		if v := printed * u.factor; v >= low*(1-bytesOff) && v <= high*(1+bytesOff) {
			return u.name
		}
	}
	return ""
}

// checkBytes holds the counts of the same bytes against each other.
func (f *pointFacts) checkBytes() {
	p := &f.p
	if t := p.ClientThroughput; t.Known && t.Value > 0 {
		if total, key, how, ok := f.totalRead(); ok {
			f.checkThroughput(total, total, key, how)
		} else if p.RPS.Known && p.ResponseBytes.Known {
			b := p.RPS.Value * p.ResponseBytes.Value
			f.checkThroughput(b, b, "mean_response_bytes",
				fmt.Sprintf("%s × %s bytes = %s", unit.FormatRate(p.RPS.Value), plain(p.ResponseBytes.Value), megabytes(b)))
		} else if p.RPS.Known && p.BodyBytes.Known {
			// A head has seldom more than 1 kB.
			low, high := p.RPS.Value*p.BodyBytes.Value, p.RPS.Value*(p.BodyBytes.Value+1000)
			f.checkThroughput(low, high, "body_bytes",
				fmt.Sprintf("%s × %s bytes of body = %s", unit.FormatRate(p.RPS.Value), plain(p.BodyBytes.Value), megabytes(low)))
		}
	}
	read, key, how, ok := f.read()
	if !ok || !p.NICMBS.Known {
		return
	}
	nic := p.NICMBS.Value * mega
	keys := []string{"nic_mb_s", key}
	switch {
	case math.Abs(nic/read-1) < 0.0005:
		f.say(KindBytes, keys, "nic_mb_s is the generator's own count of what it read: %s of framing or more are missing from it, and nobody looked at the link",
			unit.Percent(f.framedShare(read)))
	case nic >= read*(1-bytesOff):
	case nic*mebi/mega >= 0.99*read && nic*mebi/mega <= 1.1*read:
		f.say(KindUnit, keys, "%s, but the link is said to have carried %s MB/s, less: it fits as MiB/s (%s)", how, plain(p.NICMBS.Value),
			megabytes(nic*mebi/mega))
	default:
		f.say(KindBytes, keys, "%s, but the link is said to have carried %s MB/s, %s less: not of the same time", how, plain(p.NICMBS.Value),
			unit.Percent(1-nic/read))
	}
}

// framedShare is the least share that framing adds to what was read.
func (f *pointFacts) framedShare(read float64) float64 {
	if !f.p.RPS.Known {
		return float64(leastFrame) / largestPayload
	}
	each := read / f.p.RPS.Value
	return f.framed(each)/each - 1
}

// checkThroughput holds the printed MB/s against bytes counted otherwise.
func (f *pointFacts) checkThroughput(low, high float64, key, how string) {
	t := f.p.ClientThroughput.Value
	want := "MB"
	if f.tool.binary {
		want = "MiB"
	}
	is := unitOf(t, low, high)
	if v := t * f.factorOf(want); is == want || v >= low*(1-bytesOff) && v <= high*(1+bytesOff) {
		return
	}
	keys := []string{"client_throughput_mb_s", key, "rps"}
	if is == "" {
		f.say(KindBytes, keys, "%s, but %s %s/s are printed: %s off", how, plain(t), want, unit.Percent(math.Abs(t*f.factorOf(want)/low-1)))
		return
	}
	f.say(KindUnit, keys, "%s; the printed %s fit as %s only: %s, not %s", how, plain(t), is, megabytes(t*f.factorOf(is)),
		megabytes(t*f.factorOf(want)))
}

func (f *pointFacts) factorOf(name string) float64 {
	switch name {
	case "MiB":
		return mebi
	case "thousandths of a GiB":
		return gibi
	}
	return mega
}

// checkLink holds the bytes against what the link and the instances carry, and
// the author's percentage against the bytes.
func (f *pointFacts) checkLink() {
	p, l := &f.p, &f.link
	if l.known() && l.share() > linkPossible {
		f.say(KindLink, []string{"nic_gbps", l.key}, "%s: %s of the %s that %s Gbit/s carry", l.how, unit.Percent(l.share()),
			megabytes(l.capacity.Value), plain(p.NICGbps.Value))
	}
	if !l.used.Known {
		return
	}
	for _, b := range []struct {
		key, of string
		gbps    record.Figure
	}{{"nic_gbps_spec", "server", p.NICGbpsSpec}, {"client_nic_gbps_spec", "generator", p.ClientNICGbpsSpec}} {
		if !b.gbps.Known || p.NICGbps.Known && b.gbps.Value >= p.NICGbps.Value {
			continue // a baseline that is the link's own speed says nothing more
		}
		if share := l.used.Value / (b.gbps.Value * 1e9 / 8); share >= linkFull {
			f.say(KindBaseline, []string{b.key, l.key},
				"%s: %s of the %s that the %s's instance is provisioned for; above it credits are spent, and a longer run is slower",
				megabytes(l.used.Value), unit.Percent(share), megabytes(b.gbps.Value*1e9/8), b.of)
		}
	}
	if p.NICPctAuthor.Known && l.known() && l.key != "nic_pct_author" {
		f.checkAuthorsShare()
	}
}

// checkAuthorsShare looks for the units in which the author's percentage of
// the link comes out of the bytes: those on the network interface where they
// are stated, else the least that can be.
func (f *pointFacts) checkAuthorsShare() {
	pct, l, gbps := f.p.NICPctAuthor, &f.link, f.p.NICGbps.Value
	bytes, key := l.used.Value, l.key
	if f.p.NICMBS.Known {
		bytes, key = f.p.NICMBS.Value*mega, "nic_mb_s"
	}
	decimal := 100 * bytes / l.capacity.Value
	near := func(v float64) bool {
		return math.Abs(v-pct.Value) <= math.Max(bytesOff*pct.Value, pct.Step())
	}
	if near(decimal) {
		return
	}
	keys := []string{"nic_pct_author", "nic_gbps", key}
	mixed, binary := decimal*mega/mebi, decimal*1e9/(1<<30)
	head := fmt.Sprintf("%s of %s is %.1f%%, not %s%%", megabytes(bytes), megabytes(l.capacity.Value), decimal, plain(pct.Value))
	switch {
	case near(binary) && math.Abs(binary-pct.Value) <= math.Abs(mixed-pct.Value):
		f.say(KindUnit, keys, "%s: that is %s ÷ (%s × 128 MiB/s) = %.1f%%, binary units against a link's decimal bits", head, mebibytes(bytes),
			plain(gbps), binary)
	case near(mixed):
		f.say(KindUnit, keys, "%s: that is %s ÷ (%s × 125 MB/s) = %.1f%%, MiB taken for MB", head, mebibytes(bytes), plain(gbps), mixed)
	default:
		f.say(KindUnit, keys, "%s: in binary units it would be %.1f%%", head, binary)
	}
}
