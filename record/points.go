package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// This file reads points: figures printed by other tools and collected by hand, one YAML mapping
// each under the key points (docs/points.md). They hold far less than a Run, so they have their
// own schema.

// Bounds of a points document. A point is some 700 bytes, so 4 MiB hold 6,000; the YAML parser
// recurses, so bounds on lines and brackets limit its depth.
const (
	maxPointsBytes = 4 << 20
	maxPoints      = 10_000
	maxPointsLine  = 8 << 10
	maxPointsDepth = 200
	maxMistakes    = 100
)

// Figure is a number that may be missing. The zero value means not stated.
type Figure struct {
	Value float64
	Known bool
	// Decimals is the number of printed decimals: the figure is only known to 10^-Decimals.
	Decimals int
}

// Step returns the unit of the figure's last printed digit.
func (f Figure) Step() float64 { return math.Pow10(-f.Decimals) }

// MarshalJSON writes the number, or null if it is not stated.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.Known {
		return []byte("null"), nil
	}
	return json.Marshal(f.Value)
}

// Point is one published measurement. Rates are per second, *_ms milliseconds
// (0: printed as less than one), *_pct percent of all the host's CPUs, *_mb_s
// 10^6 bytes per second (wrk prints 2^20 and calls it MB), *_gbps 10^9 bits.
type Point struct {
	// Line is where the point begins in its file.
	Line int `json:"line"`

	// Labels say what was measured, and where. They group points and never decide.
	ID             string `json:"id"`
	Entry          string `json:"entry"`
	Config         string `json:"config,omitempty"`
	ServerKind     string `json:"server_kind,omitempty"`
	Route          string `json:"route,omitempty"`
	ServerInstance string `json:"server_instance,omitempty"`
	ClientInstance string `json:"client_instance,omitempty"`
	// ClientTool determines units: wrk prints binary megabytes.
	ClientTool string `json:"client_tool,omitempty"`
	// What its author and readers say about it.
	AuthorVerdict    string `json:"author_verdict,omitempty"`
	Reading          string `json:"reading,omitempty"`
	Note             string `json:"note,omitempty"`
	Range            string `json:"range,omitempty"`
	ServerProcessCPU string `json:"server_process_cpu_pct,omitempty"`
	Approx           bool   `json:"approx,omitempty"`
	// CPU rows by category, "usr 82 sys 9 idle 4".
	ServerCPUDetail string `json:"server_cpu_detail,omitempty"`
	ClientCPUDetail string `json:"client_cpu_detail,omitempty"`

	// The load.
	ClientWorkers Figure `json:"client_workers"` // threads or processes; connections are divided evenly, the remainder is not opened
	Connections   Figure `json:"connections"`    // requested
	Established   Figure `json:"established"`
	Pipelining    Figure `json:"pipelining"` // requests in flight per connection
	TargetRPS     Figure `json:"target_rps"` // target rate: the loop is open
	DurationS     Figure `json:"duration_s"` // requested
	ElapsedS      Figure `json:"elapsed_s"`  // actual

	// The machines.
	VCPUs             Figure `json:"vcpus"`
	ClientVCPUs       Figure `json:"client_vcpus"`
	ServerCPUsUsed    Figure `json:"server_cpus_used"`     // CPUs that the server may use, if fewer than vcpus: threads, processes, a quota
	NICGbps           Figure `json:"nic_gbps"`             // speed of the link between them
	NICGbpsSpec       Figure `json:"nic_gbps_spec"`        // provisioned baseline of the server's instance
	ClientNICGbpsSpec Figure `json:"client_nic_gbps_spec"` // of the generator's instance

	// The results.
	RPS              Figure `json:"rps"`
	RPSStdev         Figure `json:"rps_stdev"`
	RPSP2_5          Figure `json:"rps_p2_5"`
	PeakRPS          Figure `json:"peak_rps"`
	RPSTrueEstimate  Figure `json:"rps_true_estimate"` // an estimate: never used
	TotalRequests    Figure `json:"total_requests"`
	TotalRequestsK   Figure `json:"total_requests_k"` // thousands
	FailedRequests   Figure `json:"failed_requests"`  // without a response; not among the total
	BadStatuses      Figure `json:"bad_statuses"`     // responses with an error status
	TotalReadGB      Figure `json:"total_read_gb"`    // 10^9 bytes; 2^30 from wrk
	P50Ms            Figure `json:"p50_ms"`
	P75Ms            Figure `json:"p75_ms"`
	P90Ms            Figure `json:"p90_ms"`
	P95Ms            Figure `json:"p95_ms"`
	P99Ms            Figure `json:"p99_ms"`
	LatencyP2_5Ms    Figure `json:"latency_p2_5_ms"`
	LatencyP97_5Ms   Figure `json:"latency_p97_5_ms"`
	LatencyAvgMs     Figure `json:"latency_avg_ms"`
	LatencyStdevMs   Figure `json:"latency_stdev_ms"`
	LatencyMaxMs     Figure `json:"latency_max_ms"`
	InFlight         Figure `json:"in_flight_little"`       // rps × p50 according to its author
	BodyBytes        Figure `json:"body_bytes"`             // of one response, without its head
	ResponseBytes    Figure `json:"mean_response_bytes"`    // with or without head: tools differ
	ClientThroughput Figure `json:"client_throughput_mb_s"` // read by the generator
	ServerCPUPct     Figure `json:"server_cpu_pct"`         // 100 - idle
	ClientCPUPct     Figure `json:"client_cpu_pct"`
	NICMBS           Figure `json:"nic_mb_s"`       // on the link, toward the generator
	NICPctAuthor     Figure `json:"nic_pct_author"` // of the link, according to its author
	ClientRxMBS      Figure `json:"client_rx_mb_s"`
	ClientTxMBS      Figure `json:"client_tx_mb_s"`
	ServerRxMBS      Figure `json:"server_rx_mb_s"`
}

// NamedFigure is a figure of a point with its key in the file.
type NamedFigure struct {
	Key    string
	Figure *Figure
}

// NamedText is a text of a point with its key in the file.
type NamedText struct {
	Key  string
	Text *string
}

// Figures lists every number a point can have. The pointers lead into p.
func (p *Point) Figures() []NamedFigure {
	return []NamedFigure{
		{"client_workers", &p.ClientWorkers}, {"connections", &p.Connections}, {"established", &p.Established},
		{"pipelining", &p.Pipelining}, {"target_rps", &p.TargetRPS}, {"duration_s", &p.DurationS}, {"elapsed_s", &p.ElapsedS},
		{"vcpus", &p.VCPUs}, {"client_vcpus", &p.ClientVCPUs}, {"server_cpus_used", &p.ServerCPUsUsed}, {"nic_gbps", &p.NICGbps},
		{"nic_gbps_spec", &p.NICGbpsSpec}, {"client_nic_gbps_spec", &p.ClientNICGbpsSpec},
		{"rps", &p.RPS}, {"rps_stdev", &p.RPSStdev}, {"rps_p2_5", &p.RPSP2_5}, {"peak_rps", &p.PeakRPS},
		{"rps_true_estimate", &p.RPSTrueEstimate}, {"total_requests", &p.TotalRequests},
		{"total_requests_k", &p.TotalRequestsK},
		{"failed_requests", &p.FailedRequests}, {"bad_statuses", &p.BadStatuses}, {"total_read_gb", &p.TotalReadGB},
		{"p50_ms", &p.P50Ms}, {"p75_ms", &p.P75Ms}, {"p90_ms", &p.P90Ms}, {"p95_ms", &p.P95Ms}, {"p99_ms", &p.P99Ms},
		{"latency_p2_5_ms", &p.LatencyP2_5Ms}, {"latency_p97_5_ms", &p.LatencyP97_5Ms},
		{"latency_avg_ms", &p.LatencyAvgMs}, {"latency_stdev_ms", &p.LatencyStdevMs}, {"latency_max_ms", &p.LatencyMaxMs},
		{"in_flight_little", &p.InFlight}, {"body_bytes", &p.BodyBytes}, {"mean_response_bytes", &p.ResponseBytes},
		{"client_throughput_mb_s", &p.ClientThroughput}, {"server_cpu_pct", &p.ServerCPUPct}, {"client_cpu_pct", &p.ClientCPUPct},
		{"nic_mb_s", &p.NICMBS}, {"nic_pct_author", &p.NICPctAuthor},
		{"client_rx_mb_s", &p.ClientRxMBS}, {"client_tx_mb_s", &p.ClientTxMBS}, {"server_rx_mb_s", &p.ServerRxMBS},
	}
}

// Texts lists every text a point can have. The pointers lead into p.
func (p *Point) Texts() []NamedText {
	return []NamedText{
		{"id", &p.ID}, {"entry", &p.Entry}, {"config", &p.Config}, {"server_kind", &p.ServerKind}, {"route", &p.Route},
		{"server_instance", &p.ServerInstance}, {"client_instance", &p.ClientInstance}, {"client_tool", &p.ClientTool},
		{"author_verdict", &p.AuthorVerdict}, {"reading", &p.Reading}, {"note", &p.Note}, {"range", &p.Range},
		{"server_process_cpu_pct", &p.ServerProcessCPU},
		{"server_cpu_detail", &p.ServerCPUDetail}, {"client_cpu_detail", &p.ClientCPUDetail},
	}
}

// Label names a point for readers: its id, or the line it begins at.
func (p *Point) Label() string {
	if p.ID != "" {
		return p.ID
	}
	return fmt.Sprintf("line %d", p.Line)
}

// PointsFile is the content of a points document.
type PointsFile struct {
	Points []Point
	// NotUnderstood names the keys that the format does not define, each once, with the line of
	// its first use. Their values are ignored.
	NotUnderstood []UnknownKey
	// Mistakes are values of the wrong type for their key. Such a figure counts as not stated.
	Mistakes []Mistake
}

// UnknownKey is a key that the format does not define.
type UnknownKey struct {
	Key   string `json:"key"`
	Line  int    `json:"line"` // of its first use
	Times int    `json:"times"`
}

// Mistake is one value of the wrong type.
type Mistake struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Key    string `json:"key"`
	Says   string `json:"says"`
	// Excerpt shows the line with a caret under the value.
	Excerpt string `json:"excerpt"`
}

// Error returns the mistake with its line and excerpt.
func (m Mistake) Error() string {
	return fmt.Sprintf("line %d: %s: %s\n%s", m.Line, m.Key, m.Says, m.Excerpt)
}

// ReadPoints reads a points document of at most 4 MiB and 10,000 points. It returns an error only
// if the document is unreadable; values of the wrong type are listed in the file's Mistakes, so
// that one slip does not hide the others.
func ReadPoints(r io.Reader) (PointsFile, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPointsBytes+1))
	if err != nil {
		return PointsFile{}, fmt.Errorf("read points: %w", err)
	}
	if err := boundPoints(data); err != nil {
		return PointsFile{}, fmt.Errorf("read points: %w", err)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return PointsFile{}, fmt.Errorf("read points: %s", strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	reader := pointsReader{lines: strings.Split(string(data), "\n"), unknown: map[string]int{}}
	if err := reader.document(tree); err != nil {
		return PointsFile{}, fmt.Errorf("read points: %w", err)
	}
	return reader.file, nil
}

// boundPoints rejects what would overflow the recursive parser.
func boundPoints(data []byte) error {
	if len(data) > maxPointsBytes {
		return fmt.Errorf("more than %d MiB", maxPointsBytes>>20)
	}
	depth, column, line := 0, 0, 1
	for _, c := range data {
		column++
		switch c {
		case '\n':
			line, column = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if column > maxPointsLine {
			return fmt.Errorf("line %d: longer than %d bytes", line, maxPointsLine)
		}
		if depth > maxPointsDepth {
			return fmt.Errorf("line %d: more than %d brackets are open", line, maxPointsDepth)
		}
	}
	return nil
}

type pointsReader struct {
	file    PointsFile
	lines   []string
	unknown map[string]int // key → index in NotUnderstood
}

const pointsShape = "want a mapping with the key points, a list of mappings (see docs/points.md)"

func (r *pointsReader) document(tree *ast.File) error {
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return fmt.Errorf("%d documents with content: %s", len(tree.Docs), pointsShape)
	}
	top, ok := mapping(tree.Docs[0].Body)
	if !ok {
		return errors.New(pointsShape)
	}
	found := false
	for _, pair := range top {
		if keyOf(pair) != "points" {
			r.notUnderstood(pair)
			continue
		}
		found = true
		if err := r.points(pair.Value); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("no key points: " + pointsShape)
	}
	return nil
}

func (r *pointsReader) points(node ast.Node) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		if node == nil || node.Type() == ast.NullType {
			return errors.New("points is empty")
		}
		return errors.New("points is not a list: " + pointsShape)
	}
	if len(list.Values) > maxPoints {
		return fmt.Errorf("%d points: at most %d are read", len(list.Values), maxPoints)
	}
	for i, item := range list.Values {
		pairs, ok := mapping(item)
		if !ok {
			r.mistake("points", item, fmt.Sprintf("item %d is not a mapping", i+1))
			continue
		}
		p := Point{}
		if len(pairs) > 0 {
			p.Line, _ = position(pairs[0].Key)
		}
		r.point(&p, pairs)
		r.file.Points = append(r.file.Points, p)
	}
	return nil
}

func (r *pointsReader) point(p *Point, pairs []*ast.MappingValueNode) {
	figures, texts := map[string]*Figure{}, map[string]*string{}
	for _, f := range p.Figures() {
		figures[f.Key] = f.Figure
	}
	for _, t := range p.Texts() {
		texts[t.Key] = t.Text
	}
	for _, pair := range pairs {
		key := keyOf(pair)
		switch {
		case figures[key] != nil:
			r.figure(key, pair, figures[key])
		case texts[key] != nil:
			r.text(key, pair, texts[key])
		case key == "approx":
			r.flag(key, pair, &p.Approx)
		default:
			r.notUnderstood(pair)
		}
	}
}

func (r *pointsReader) figure(key string, pair *ast.MappingValueNode, into *Figure) {
	switch n := pair.Value.(type) {
	case nil, *ast.NullNode:
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			*into = Figure{Value: float64(v), Known: true}
		case uint64:
			*into = Figure{Value: float64(v), Known: true}
		default:
			r.mistake(key, pair.Value, "this is not a whole number of 64 bits")
		}
	case *ast.FloatNode:
		if math.IsNaN(n.Value) || math.IsInf(n.Value, 0) {
			r.mistake(key, pair.Value, "this number is too large")
			return
		}
		*into = Figure{Value: n.Value, Known: true, Decimals: decimals(n.Token.Value)}
	default:
		if v, ok := plainNumber(pair.Value); ok {
			*into = v
			return
		}
		r.mistake(key, pair.Value, "want a number or null, found "+found(pair.Value))
	}
}

// plainNumber reads the numbers that the parser leaves as text: 1e6 and integers beyond 64 bits.
func plainNumber(node ast.Node) (Figure, bool) {
	n, ok := node.(*ast.StringNode)
	if !ok || n.Token.Type != token.StringType || strings.Trim(n.Value, "+-.0123456789eE") != "" {
		return Figure{}, false
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if err != nil {
		return Figure{}, false
	}
	return Figure{Value: v, Known: true, Decimals: decimals(n.Value)}, true
}

// decimals counts the digits after the decimal point; with an exponent, those that remain.
func decimals(text string) int {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	n := len(strings.ReplaceAll(fraction, "_", ""))
	shift, err := strconv.Atoi(exponent)
	if err != nil {
		shift = 0 // no exponent
	}
	return min(max(n-min(max(shift, -20), 20), 0), 20)
}

func (r *pointsReader) text(key string, pair *ast.MappingValueNode, into *string) {
	switch n := pair.Value.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		*into = n.Value
	case *ast.LiteralNode:
		*into = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		// An id may be a number; it keeps its original form.
		*into = n.GetToken().Value
	default:
		r.mistake(key, pair.Value, "want a text or null, found "+found(pair.Value))
	}
}

func (r *pointsReader) flag(key string, pair *ast.MappingValueNode, into *bool) {
	switch n := pair.Value.(type) {
	case nil, *ast.NullNode:
	case *ast.BoolNode:
		*into = n.Value
	default:
		r.mistake(key, pair.Value, "want true or false, found "+found(pair.Value))
	}
}

func (r *pointsReader) notUnderstood(pair *ast.MappingValueNode) {
	key := keyOf(pair)
	if i, seen := r.unknown[key]; seen {
		r.file.NotUnderstood[i].Times++
		return
	}
	line, _ := position(pair.Key)
	r.unknown[key] = len(r.file.NotUnderstood)
	r.file.NotUnderstood = append(r.file.NotUnderstood, UnknownKey{Key: key, Line: line, Times: 1})
}

func (r *pointsReader) mistake(key string, node ast.Node, says string) {
	if len(r.file.Mistakes) == maxMistakes {
		return
	}
	line, column := position(node)
	m := Mistake{Line: line, Column: column, Key: key, Says: says}
	if len(r.file.Mistakes) == maxMistakes-1 {
		m.Says += "; further mistakes are not listed"
	}
	if line >= 1 && line <= len(r.lines) {
		m.Excerpt = excerpt(line, column, r.lines[line-1])
	}
	r.file.Mistakes = append(r.file.Mistakes, m)
}

// excerpt returns a source line with a caret under column, truncated to fit a terminal.
func excerpt(line, column int, source string) string {
	const most = 100
	runes := []rune(strings.ToValidUTF8(strings.TrimRight(source, "\r"), "?"))
	runes = runes[:min(len(runes), most)]
	for i, c := range runes {
		if c < ' ' {
			runes[i] = ' '
		}
	}
	head := fmt.Sprintf("%6d | ", line)
	caret := strings.Repeat(" ", len(head)+min(max(column-1, 0), most))
	return head + string(runes) + "\n" + caret + "^"
}

// found names the node that is in the wrong place.
func found(node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		text := []rune(n.Value)
		const most = 40
		if len(text) > most {
			text = append(text[:most], '…')
		}
		return fmt.Sprintf("the text %q", string(text))
	case *ast.LiteralNode:
		return "a text"
	case *ast.BoolNode:
		return n.Token.Value
	case *ast.IntegerNode:
		return "the number " + n.Token.Value
	case *ast.FloatNode:
		return "the number " + n.Token.Value
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "an anchor, alias or tag, which this format does not have"
	}
	return "a " + strings.ToLower(node.Type().String())
}

// mapping returns the pairs of a mapping; the parser uses another node type for a mapping of one
// pair.
func mapping(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// keyOf returns the key of a pair as text.
func keyOf(pair *ast.MappingValueNode) string {
	switch n := pair.Key.(type) {
	case *ast.StringNode:
		return n.Value
	case nil:
		return ""
	}
	if t := pair.Key.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// position returns a node's position in the source, counted from 1; 0 if it has none.
func position(node ast.Node) (line, column int) {
	if node == nil {
		return 0, 0
	}
	t := node.GetToken()
	if m, ok := node.(*ast.MappingValueNode); ok && m.Key != nil {
		t = m.Key.GetToken()
	}
	return positionOf(t)
}

func positionOf(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 0, 0
	}
	return t.Position.Line, t.Position.Column
}
