package hpack

// overhead of an entry beyond its text, in a table's size (RFC 7541, section 4.1).
const overhead = 32

// table is a dynamic table: the text of its entries in one buffer that is freed from the front,
// and the start of each.
type table struct {
	most    uint32
	size    uint32
	text    []byte
	entries []entry // oldest first, from front on
	front   int
}

type entry struct{ at, name, value uint32 }

func (e entry) size() uint32 { return e.name + e.value + overhead }

func (t *table) resize(most uint32) {
	t.most = most
	t.evict(0)
}

// evict drops the oldest entries until need more bytes fit, or none is left.
func (t *table) evict(need uint32) {
	for t.front < len(t.entries) && t.size+need > t.most {
		t.size -= t.entries[t.front].size()
		t.front++
	}
	if t.front == len(t.entries) {
		t.entries, t.text, t.front = t.entries[:0], t.text[:0], 0
	}
}

// add adds an entry; one larger than the table empties it (section 4.4).
func (t *table) add(name, value []byte) {
	need := uint32(len(name)+len(value)) + overhead
	t.evict(need)
	if need > t.most {
		return
	}
	t.compact(len(name) + len(value))
	t.entries = append(t.entries, entry{uint32(len(t.text)), uint32(len(name)), uint32(len(value))})
	t.text = append(append(t.text, name...), value...)
	t.size += need
}

// compact moves the remaining text to the front if half of the memory is unused, so that moving
// costs amortised constant time per byte.
func (t *table) compact(more int) {
	if t.front == 0 || len(t.text)+more <= cap(t.text) && t.front <= len(t.entries)/2 {
		return
	}
	from := t.entries[t.front].at
	n := copy(t.text, t.text[from:])
	t.text = t.text[:n]
	n = copy(t.entries, t.entries[t.front:])
	t.entries, t.front = t.entries[:n], 0
	for i := range t.entries {
		t.entries[i].at -= from
	}
}

// get returns the entry added k entries ago.
func (t *table) get(k uint32) (name, value []byte, ok bool) {
	if uint64(k) >= uint64(len(t.entries)-t.front) {
		return nil, nil, false
	}
	e := t.entries[len(t.entries)-1-int(k)]
	text := t.text[e.at : e.at+e.name+e.value]
	return text[:e.name], text[e.name:], true
}

// static is the table of RFC 7541, Appendix A; index 1 is its first.
var static = [...]struct{ name, value string }{
	{":authority", ""}, {":method", "GET"}, {":method", "POST"}, {":path", "/"}, {":path", "/index.html"},
	{":scheme", "http"}, {":scheme", "https"}, {":status", "200"}, {":status", "204"}, {":status", "206"},
	{":status", "304"}, {":status", "400"}, {":status", "404"}, {":status", "500"}, {"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"}, {"accept-language", ""}, {"accept-ranges", ""}, {"accept", ""},
	{"access-control-allow-origin", ""}, {"age", ""}, {"allow", ""}, {"authorization", ""}, {"cache-control", ""},
	{"content-disposition", ""}, {"content-encoding", ""}, {"content-language", ""}, {"content-length", ""},
	{"content-location", ""}, {"content-range", ""}, {"content-type", ""}, {"cookie", ""}, {"date", ""}, {"etag", ""},
	{"expect", ""}, {"expires", ""}, {"from", ""}, {"host", ""}, {"if-match", ""}, {"if-modified-since", ""},
	{"if-none-match", ""}, {"if-range", ""}, {"if-unmodified-since", ""}, {"last-modified", ""}, {"link", ""},
	{"location", ""}, {"max-forwards", ""}, {"proxy-authenticate", ""}, {"proxy-authorization", ""}, {"range", ""},
	{"referer", ""}, {"refresh", ""}, {"retry-after", ""}, {"server", ""}, {"set-cookie", ""},
	{"strict-transport-security", ""}, {"transfer-encoding", ""}, {"user-agent", ""}, {"vary", ""}, {"via", ""},
	{"www-authenticate", ""},
} // read-only

// staticNames has the first index of each name.
var staticNames = newStaticNames() // read-only

func newStaticNames() map[string]uint8 {
	names := make(map[string]uint8, len(static))
	for i, f := range static {
		if _, have := names[f.name]; !have {
			names[f.name] = uint8(i + 1)
		}
	}
	return names
}
