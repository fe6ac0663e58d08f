package audit

import (
	"math"
	"strings"

	"ceiling/record"
)

// pointLink is what is known about the link between the two sides, in the direction of the
// responses.
type pointLink struct {
	capacity record.Figure // bytes per second
	used     flow          // at least
	// peersLow and peersHigh are the least and the largest share of the link implied by response
	// sizes in other runs of the route, if this point states none. They can rule the link out,
	// but never make it the bottleneck.
	peersLow, peersHigh record.Figure
}

func newLink(t transfer) pointLink {
	l := pointLink{used: t.onLink()}
	if t.point.NICGbps.Known {
		l.capacity = record.Figure{Value: t.point.NICGbps.Value * 1e9 / 8, Known: true}
	}
	if t.point.NICPctAuthor.Value > 0 && l.capacity.Known && !l.used.known() {
		l.used = flow{t.point.NICPctAuthor.Value / 100 * l.capacity.Value, "nic_pct_author",
			say("point.link.author", with{"percent": t.point.NICPctAuthor.Value})}
	}
	return l
}

func (l *pointLink) known() bool    { return l.capacity.Known && l.used.known() }
func (l *pointLink) share() float64 { return l.used.perS / l.capacity.Value }
func (l *pointLink) full() bool     { return l.known() && l.share() >= linkFull }

func (l *pointLink) free() bool {
	return l.known() && l.share() <= linkFree || l.peersHigh.Known && l.peersHigh.Value <= linkFree
}

// impossible reports whether the link cannot have carried the stated bytes.
func (l *pointLink) impossible() bool { return l.known() && l.share() > linkPossible }

// shareSays gives the share of a link that is known, or free by other points' bytes.
func (l *pointLink) shareSays() record.Statement {
	low, high := l.peersLow.Value, l.peersHigh.Value
	if l.known() {
		low, high = l.share(), l.share()
	}
	return say("point.link.share", with{"low": low, "high": high})
}

func (l *pointLink) lacks() []missingFigure {
	var list []missingFigure
	if !l.capacity.Known {
		list = append(list, missingFigure{[]string{"nic_gbps"}, say("point.link.speed-missing", nil)})
	}
	keys := bytesKeys()
	choice := with{"keys": strings.Join(keys, ", ")}
	switch {
	case l.used.key == "nic_pct_author":
		list = append(list, missingFigure{keys, say("point.link.author-only", choice)})
	case !l.used.known() && !l.free():
		list = append(list, missingFigure{keys, say("point.link.bytes-missing", choice)})
	}
	return list
}

func (l *pointLink) evidence() []record.Evidence {
	switch {
	case l.known():
		return []record.Evidence{
			record.NewEvidence(l.used.key, 100*l.share(), "%", say("point.link.carried", with{"mb_per_s": l.used.perS / mega,
				"mib_per_s": l.used.perS / mebi, "share": l.share(), "capacity_mb_per_s": l.capacity.Value / mega})),
			record.NewEvidence(l.used.key, l.used.perS, "B/s", l.used.how),
		}
	case l.peersHigh.Known && l.free():
		return []record.Evidence{record.NewEvidence("nic_gbps", 100*l.peersHigh.Value, "%",
			say("point.link.by-others", with{"share": l.shareSays()}))}
	}
	return nil
}

// check compares the bytes with what the link and the instances carry, and the author's
// percentage with the bytes.
func (l *pointLink) check(p *record.Point) (found contradictions) {
	if !l.used.known() {
		return nil
	}
	if l.impossible() {
		found.note(KindLink, say("point.link.over", with{"how": l.used.how, "share": l.share(), "capacity_mb_per_s": l.capacity.Value / mega,
			"gbps": p.NICGbps.Value}), "nic_gbps", l.used.key)
	}
	for _, b := range []struct {
		key    string
		server bool
		gbps   record.Figure
	}{{"nic_gbps_spec", true, p.NICGbpsSpec}, {"client_nic_gbps_spec", false, p.ClientNICGbpsSpec}} {
		if !b.gbps.Known || p.NICGbps.Known && b.gbps.Value >= p.NICGbps.Value {
			continue // a baseline equal to the link's own speed adds nothing
		}
		baseline := b.gbps.Value * 1e9 / 8
		if share := l.used.perS / baseline; share >= linkFull {
			found.note(KindBaseline, say("point.link.baseline", with{"mb_per_s": l.used.perS / mega, "share": share,
				"baseline_mb_per_s": baseline / mega, "server": b.server}), b.key, l.used.key)
		}
	}
	if p.NICPctAuthor.Known && l.known() && l.used.key != "nic_pct_author" {
		l.checkAuthor(p, &found)
	}
	return found
}

// checkAuthor looks for the units in which the author's link percentage follows from the bytes:
// those on the network interface if stated, else the lower bound.
func (l *pointLink) checkAuthor(p *record.Point, found *contradictions) {
	pct := p.NICPctAuthor
	bytes, key := l.used.perS, l.used.key
	if p.NICMBS.Known {
		bytes, key = p.NICMBS.Value*mega, "nic_mb_s"
	}
	decimal := 100 * bytes / l.capacity.Value
	mixed, binary := decimal*mega/mebi, decimal*1e9/(1<<30)
	near := func(v float64) bool {
		return math.Abs(v-pct.Value) <= math.Max(bytesOff*pct.Value, pct.Step())
	}
	of := with{"mb_per_s": bytes / mega, "mib_per_s": bytes / mebi, "capacity_mb_per_s": l.capacity.Value / mega, "gbps": p.NICGbps.Value,
		"percent": decimal, "author_percent": pct.Value, "mixed_percent": mixed, "binary_percent": binary}
	says := say("point.link.author-off", of)
	switch {
	case near(decimal):
		return
	case near(binary) && math.Abs(binary-pct.Value) <= math.Abs(mixed-pct.Value):
		says = say("point.link.author-binary", of)
	case near(mixed):
		says = say("point.link.author-mixed", of)
	}
	found.note(KindUnit, says, "nic_pct_author", "nic_gbps", key)
}
