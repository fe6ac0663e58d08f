package audit

import (
	"math"

	"ceiling/record"
)

const (
	mega = 1e6           // a decimal megabyte: the unit of links and most tools
	mebi = 1 << 20       // a binary one: what wrk prints as MB
	gibi = 1 << 30 / 1e3 // a thousandth of a binary gigabyte: wrk's 0.87 GB written as 870 MB

	// leastHead is the shortest possible head of a response with a body: "HTTP/1.1 200 OK", CRLF,
	// "Content-Length: n", CRLF, CRLF without the digits of n (RFC 9112, section 2.1).
	leastHead = 17 + 16 + 2 + 2
	// leastFrame is Ethernet 14, IPv4 20 and TCP 20 bytes without options, for at most
	// largestPayload bytes: cloud networks carry frames of at most 9,001 bytes.
	leastFrame     = 54
	largestPayload = 9001 - 40
)

// transfer is the bytes of the responses, as a point counts them.
type transfer struct{ point *run }

// flow is bytes per second derived from one figure; the zero flow means not stated.
type flow struct {
	perS float64
	key  string
	how  record.Statement // the arithmetic
}

func (f flow) known() bool { return f.perS > 0 }

// bytesKeys are the figures of which any one gives the bytes on the link.
func bytesKeys() []string {
	return []string{"nic_mb_s", "client_throughput_mb_s", "body_bytes", "mean_response_bytes", "total_read_gb"}
}

// framed returns the least that responses of so many bytes occupy on a wire. Without pipelining
// each response is its own segment, because the client requests the next one only after it has
// arrived.
func (t transfer) framed(bytes float64) float64 {
	segments := bytes / largestPayload
	if p := t.point.Pipelining; p.Known && p.Value == 1 {
		segments = math.Max(math.Ceil(segments), 1)
	}
	return bytes + segments*leastFrame
}

// framedShare returns the least share that framing adds to the bytes read.
func (t transfer) framedShare(read float64) float64 {
	if !t.point.RPS.Known {
		return float64(leastFrame) / largestPayload
	}
	each := read / t.point.RPS.Value
	return t.framed(each)/each - 1
}

// onLink returns the highest lower bound that any figure gives for the link.
func (t transfer) onLink() (most flow) {
	for _, one := range []flow{t.ofInterface(), t.ofRead(), t.ofBodies(), t.ofResponses()} {
		if one.perS > most.perS {
			most = one
		}
	}
	return most
}

func (t transfer) ofInterface() flow {
	if !t.point.NICMBS.Known {
		return flow{}
	}
	return flow{t.point.NICMBS.Value * mega, "nic_mb_s", say("point.bytes.interface", with{"mb_per_s": t.point.NICMBS.Value})}
}

func (t transfer) ofRead() flow {
	read := t.read()
	if !read.known() || !t.point.RPS.Known {
		return read
	}
	each := read.perS / t.point.RPS.Value
	wire := t.framed(each)
	return flow{wire * t.point.RPS.Value, read.key,
		say("point.bytes.framed", with{"how": read.how, "response_bytes": each, "framing_bytes": wire - each})}
}

func (t transfer) ofBodies() flow {
	if !t.point.RPS.Known || !t.point.BodyBytes.Known {
		return flow{}
	}
	body := t.point.BodyBytes.Value
	head := leastHead + math.Floor(math.Log10(math.Max(body, 1))) + 1
	wire := t.framed(body + head)
	perS := wire * t.point.RPS.Value
	return flow{perS, "body_bytes", say("point.bytes.framed-bodies", with{"per_s": t.point.RPS.Value, "body_bytes": body, "head_bytes": head,
		"framing_bytes": wire - body - head, "mb_per_s": perS / mega})}
}

func (t transfer) ofResponses() flow {
	if !t.point.RPS.Known || !t.point.ResponseBytes.Known {
		return flow{}
	}
	each := t.point.ResponseBytes.Value
	wire := t.framed(each)
	perS := wire * t.point.RPS.Value
	return flow{perS, "mean_response_bytes", say("point.bytes.framed-responses", with{"per_s": t.point.RPS.Value, "response_bytes": each,
		"framing_bytes": wire - each, "mb_per_s": perS / mega})}
}

// read returns what the generator read.
func (t transfer) read() flow {
	if printed := t.point.ClientThroughput; printed.Known && printed.Value > 0 {
		return flow{printed.Value * t.point.tool.megabyte(), "client_throughput_mb_s",
			say("point.bytes.read", with{"printed": printed.Value, "binary": t.point.tool.binary})}
	}
	return t.totalRead()
}

// totalRead returns the same from the bytes of the whole run.
func (t transfer) totalRead() flow {
	total := t.point.TotalReadGB
	elapsed, _, timed := t.point.seconds()
	if !total.Known || !timed || total.Value <= 0 {
		return flow{}
	}
	perS := total.Value * t.point.tool.gigabyte() / elapsed
	return flow{perS, "total_read_gb", say("point.bytes.read-in-all", with{"printed": total.Value, "binary": t.point.tool.binary, "time_s": elapsed,
		"mb_per_s": perS / mega})}
}

// responseBytes returns the size of one response from whatever was counted.
func (t transfer) responseBytes() (float64, bool) {
	if t.point.ResponseBytes.Known {
		return t.point.ResponseBytes.Value, true
	}
	if read := t.read(); read.known() && t.point.RPS.Known {
		return read.perS / t.point.RPS.Value, true
	}
	return t.point.BodyBytes.Value, t.point.BodyBytes.Known
}

// countedBytes returns bounds for the size of one response without using a printed MB/s, whose
// unit may be misread; they allow a head of up to 1 kB.
func (t transfer) countedBytes() (least, most float64, known bool) {
	total, _, counted := t.point.totalRequests()
	switch {
	case t.point.TotalReadGB.Known && counted && t.point.TotalReadGB.Value > 0 && t.point.tool.name != "":
		each := t.point.TotalReadGB.Value * t.point.tool.gigabyte() / total
		return each, each, true
	case t.point.ResponseBytes.Known:
		return t.point.ResponseBytes.Value, t.point.ResponseBytes.Value, true
	case t.point.BodyBytes.Known:
		return t.point.BodyBytes.Value, t.point.BodyBytes.Value + 1000, true
	}
	return 0, 0, false
}

// byteUnit is a unit in which a figure may be printed.
type byteUnit struct {
	name  string
	bytes float64
}

// unitOf returns the unit in which printed is between low and high bytes, if any.
func unitOf(printed, low, high float64) byteUnit {
	for _, u := range []byteUnit{{"MB", mega}, {"MiB", mebi}, {"GiB/1000", gibi}} {
		if within(printed*u.bytes, low, high) {
			return u
		}
	}
	return byteUnit{}
}

func within(v, low, high float64) bool { return v >= low*(1-bytesOff) && v <= high*(1+bytesOff) }

// check compares the counts of the same bytes.
func (t transfer) check() (found contradictions) {
	if t.point.ClientThroughput.Known && t.point.ClientThroughput.Value > 0 {
		found = t.checkThroughput()
	}
	read := t.read()
	if !read.known() || !t.point.NICMBS.Known {
		return found
	}
	nic := t.point.NICMBS.Value * mega
	switch asMebi := t.point.NICMBS.Value * mebi; {
	case math.Abs(nic/read.perS-1) < 0.0005:
		found.note(KindBytes, say("point.link.own-count", with{"framing": t.framedShare(read.perS)}), "nic_mb_s", read.key)
	case nic >= read.perS*(1-bytesOff):
	case asMebi >= 0.99*read.perS && asMebi <= 1.1*read.perS:
		found.note(KindUnit, say("point.link.fits-mib", with{"how": read.how, "printed": t.point.NICMBS.Value, "mb_per_s": asMebi / mega}),
			"nic_mb_s", read.key)
	default:
		found.note(KindBytes, say("point.link.less", with{"how": read.how, "printed": t.point.NICMBS.Value, "off": 1 - nic/read.perS}),
			"nic_mb_s", read.key)
	}
	return found
}

// checkThroughput compares the printed MB/s with bytes counted otherwise.
func (t transfer) checkThroughput() (found contradictions) {
	counted, high := t.countedFlow()
	printed, unit := t.point.ClientThroughput.Value, t.point.tool.megabyte()
	if !counted.known() || within(printed*unit, counted.perS, high) {
		return nil
	}
	keys := []string{"client_throughput_mb_s", counted.key, "rps"}
	is := unitOf(printed, counted.perS, high)
	if is.name == "" {
		found.note(KindBytes, say("point.bytes.apart", with{"how": counted.how, "printed": printed, "binary": t.point.tool.binary,
			"off": math.Abs(printed*unit/counted.perS - 1)}), keys...)
		return found
	}
	found.note(KindUnit, say("point.bytes.fits", with{"how": counted.how, "printed": printed, "unit": is.name,
		"mb_per_s": printed * is.bytes / mega, "printed_mb_per_s": printed * unit / mega}), keys...)
	return found
}

// countedFlow returns the least and the most that was read, from the bytes of all responses or of
// one.
func (t transfer) countedFlow() (least flow, most float64) {
	rate := t.point.RPS.Value
	if total := t.totalRead(); total.known() {
		return total, total.perS
	}
	switch {
	case !t.point.RPS.Known:
	case t.point.ResponseBytes.Known:
		perS := rate * t.point.ResponseBytes.Value
		return flow{perS, "mean_response_bytes",
			say("point.bytes.responses", with{"per_s": rate, "response_bytes": t.point.ResponseBytes.Value, "mb_per_s": perS / mega})}, perS
	case t.point.BodyBytes.Known:
		// A head rarely exceeds 1 kB.
		perS := rate * t.point.BodyBytes.Value
		return flow{perS, "body_bytes", say("point.bytes.bodies", with{"per_s": rate, "body_bytes": t.point.BodyBytes.Value,
			"mb_per_s": perS / mega})}, rate * (t.point.BodyBytes.Value + 1000)
	}
	return flow{}, 0
}
