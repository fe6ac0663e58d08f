package export

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"ceiling/record"
)

// table is one kind of row as CSV. If the rows hold a list, each element gets its own line.
type table struct {
	kind string
	// list is the JSON name of that list, prefix starts the names of its columns; inner is the
	// list within each of its elements.
	list, prefix, inner string
}

var tables = []table{
	{kind: record.KindLoad},
	{kind: record.KindCPU, list: "cores"},
	{kind: record.KindSubject},
	{kind: record.KindProcess},
	{kind: record.KindSockets},
	{kind: record.KindListener, list: "listeners"},
	{kind: record.KindTimes, list: "places"},
	{kind: record.KindTCPInfo},
	{kind: record.KindPeers, list: "peers"},
	{kind: record.KindNeighbours, list: "neighbours"},
	{kind: record.KindTCP},
	{kind: record.KindNetDev},
	{kind: record.KindSoftnet, list: "cpus"},
	{kind: record.KindSoftirq, list: "cpus"},
	{kind: record.KindIRQ, list: "lines", inner: "cpus"},
	{kind: record.KindNIC, list: "counters"},
	{kind: record.KindPSI},
	{kind: record.KindDisk},
	{kind: record.KindTitles},
	{kind: record.KindThrottle},
	{kind: record.KindFreq},
	{kind: record.KindObserver, list: "sources", prefix: "source_"},
	{kind: record.KindStatus},
	{kind: record.KindDatabase, list: "waits", prefix: "wait_"},
	{kind: record.KindAgent},
} // read-only

// Tables returns the kinds of rows that CSV has a table for.
func Tables() []string {
	var names []string
	for _, t := range tables {
		names = append(names, t.kind)
	}
	return names
}

// CSV writes one kind of row as RFC 4180 CSV: CRLF, a header, quotes where needed. Columns are
// the fields of docs/record.md in its order, without lists other than the table's own. Text that
// a spreadsheet would read as a formula gets a leading apostrophe. Memory use is one row. CSV
// skips a row that it cannot read and reports it in rows.Problems.
func CSV(out io.Writer, rows *record.Rows, kind string) error {
	t, ok := tableOf(kind)
	if !ok {
		return fmt.Errorf("unknown table %q; use one of %s", kind, strings.Join(Tables(), ", "))
	}
	w := csv.NewWriter(out)
	w.UseCRLF = true
	columns := t.columns()
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.name
	}
	if err := w.Write(head); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	for {
		k, line, err := rows.Next()
		if err == io.EOF {
			w.Flush()
			return w.Error()
		}
		if err != nil {
			return err
		}
		if k != kind {
			continue
		}
		row := t.newRow()
		if err := json.Unmarshal(line, row.Interface()); err != nil {
			rows.Reject(fmt.Errorf("a row of kind %s: %w", kind, err))
			continue
		}
		if err := t.write(w, columns, row.Elem()); err != nil {
			return fmt.Errorf("write row: %w", err)
		}
	}
}

func tableOf(kind string) (table, bool) {
	for _, t := range tables {
		if t.kind == kind {
			return t, true
		}
	}
	return table{}, false
}

// ofLoad reports whether the rows are those of the generator or of one of several agents.
func (t table) ofLoad() bool { return t.kind == record.KindLoad || t.kind == record.KindAgent }

// newRow returns a pointer to an empty row of the table's kind.
func (t table) newRow() reflect.Value {
	if t.ofLoad() {
		return reflect.ValueOf(new(record.LoadRow))
	}
	row, _ := record.NewObservedRow(t.kind)
	return reflect.ValueOf(row)
}

// write writes the lines of one row.
func (t table) write(w *csv.Writer, columns []column, row reflect.Value) error {
	line := make([]string, len(columns))
	if t.list == "" {
		for i, c := range columns {
			line[i] = c.of(row, [2]reflect.Value{})
		}
		return w.Write(line)
	}
	for _, element := range t.elements(row) {
		for i, c := range columns {
			line[i] = c.of(row, element)
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// elements returns the elements of a row's list; for nested lists, each inner element with its
// outer one.
func (t table) elements(row reflect.Value) [][2]reflect.Value {
	var all [][2]reflect.Value
	list := row.FieldByIndex(fieldOf(row.Type(), t.list).Index)
	for e := range list.Len() {
		outer := list.Index(e)
		if t.inner == "" {
			all = append(all, [2]reflect.Value{outer})
			continue
		}
		within := outer.FieldByIndex(fieldOf(outer.Type(), t.inner).Index)
		for i := range within.Len() {
			all = append(all, [2]reflect.Value{outer, within.Index(i)})
		}
	}
	return all
}

// column is one field of the row, or of an element of its list.
type column struct {
	name    string
	path    []int
	element bool
	inner   bool // a field of a nested list
	rate    bool // not a field but completed / width
}

// of returns the column's text.
func (c column) of(row reflect.Value, element [2]reflect.Value) string {
	if c.rate {
		r := row.Addr().Interface().(*record.LoadRow)
		if r.WidthNs <= 0 {
			return ""
		}
		return strconv.FormatFloat(float64(r.Completed)/float64(r.WidthNs)*1e9, 'f', 3, 64)
	}
	switch {
	case c.inner:
		return cell(element[1].FieldByIndex(c.path))
	case c.element:
		return cell(element[0].FieldByIndex(c.path))
	}
	return cell(row.FieldByIndex(c.path))
}

// columns returns the table's columns, from the types of package record.
func (t table) columns() []column {
	typ := t.newRow().Type().Elem()
	list := flatten(nil, typ, nil, "")
	if t.ofLoad() {
		list = append(list, column{name: "completed_per_s", rate: true})
	}
	if t.list != "" {
		for _, c := range flatten(nil, fieldOf(typ, t.list).Type.Elem(), nil, t.prefix) {
			c.element = true
			list = append(list, c)
		}
	}
	if t.inner != "" {
		for _, c := range flatten(nil, fieldOf(fieldOf(typ, t.list).Type.Elem(), t.inner).Type.Elem(), nil, "") {
			c.inner = true
			list = append(list, c)
		}
	}
	for i := range list {
		list[i].name = withUnit(t.kind, list[i].name)
	}
	return list
}

// flatten appends the fields of a struct, and those of nested structs with their name as prefix.
// It skips lists of structs.
func flatten(list []column, typ reflect.Type, path []int, prefix string) []column {
	for i := range typ.NumField() {
		f := typ.Field(i)
		at := append(append([]int{}, path...), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			list = flatten(list, f.Type, at, prefix)
		case f.Type.Kind() == reflect.Struct:
			list = flatten(list, f.Type, at, prefix+name+"_")
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		case f.Type.Kind() == reflect.Pointer: // distribution within an interval: only in NDJSON
		default:
			list = append(list, column{name: prefix + name, path: at})
		}
	}
	return list
}

func fieldOf(typ reflect.Type, name string) reflect.StructField {
	for i := range typ.NumField() {
		if tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); tag == name {
			return typ.Field(i)
		}
	}
	panic("export: " + typ.Name() + " has no field " + name) // a mistake in tables
}

// withUnit appends the unit to names that lack it.
func withUnit(kind, name string) string {
	switch kind {
	case record.KindLoad, record.KindAgent:
		switch name {
		case "read", "written":
			return name + "_bytes"
		case "busy":
			return "busy_share"
		}
	case record.KindCPU:
		switch name {
		case "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice", "missing":
			return name + "_ticks"
		}
	}
	return name
}

// cell formats a value; list elements are separated by spaces.
func cell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, cell(v.Index(i)))
		}
		return strings.Join(parts, " ")
	}
	return harmless(v.String())
}

// harmless keeps a spreadsheet from executing the name of a process or an interface.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
