package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ceiling/internal/unit"
	"ceiling/show/page"
)

// kind of a value: how it is printed, and what it may be held against.
type kind int

const (
	kindText kind = iota
	kindCount
	kindPerS    // per second
	kindNs      // nanoseconds
	kindBytes   // bytes
	kindBits    // bits per second
	kindShare   // 0 to 1, printed in per cent
	kindChange  // a share with its sign
	kindTimes   // a ratio
	kindTwo     // a plain number, two decimals
	kindThree   // a plain number, three digits
	kindBytesPS // bytes per second
)

// value is what a reference comes to.
type value struct {
	text string
	kind kind
	// number and its interval, in the unit of the kind, where it is one; low
	// and high are equal where there is no interval.
	number, low, high float64
	isNumber          bool
}

func textValue(s string) value { return value{text: page.Shown(s)} }

func numberValue(k kind, v float64) value {
	return value{text: k.format(v), kind: k, number: v, low: v, high: v, isNumber: true}
}

// format prints a number of a kind.
func (k kind) format(v float64) string {
	whole := int64(math.Round(min(max(v, -1e18), 1e18)))
	switch k {
	case kindPerS:
		return unit.FormatRate(v)
	case kindNs:
		return unit.FormatNs(whole)
	case kindBytes:
		return unit.FormatBytesSI(whole)
	case kindBytesPS:
		return unit.FormatBytesSI(whole) + "/s"
	case kindBits:
		return unit.FormatBits(unit.BitsPerSecond(max(v, 0)))
	case kindShare:
		return unit.Percent(v)
	case kindChange:
		return fmt.Sprintf("%+.1f%%", 100*v)
	case kindTimes:
		return ratio(v) + " times"
	case kindTwo:
		return fmt.Sprintf("%.2f", v)
	case kindThree:
		return fmt.Sprintf("%.3g", v)
	}
	if v != math.Trunc(v) {
		return unit.FormatSI(v)
	}
	return unit.FormatCount(whole)
}

// ratio has three digits, as other figures do.
func ratio(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// interval writes an interval; a unit that both ends have stands there once. Of
// another confidence than 95 % it says so.
func interval(low, high string, confidence any) string {
	figure, of, _ := strings.Cut(low, " ")
	if of != "" && strings.HasSuffix(high, " "+of) {
		low = figure
	}
	text := low + "–" + high
	if n, ok := confidence.(json.Number); ok {
		switch c, err := n.Float64(); {
		case err != nil || c == 0.95:
		case c == 0:
			text += ", min–max"
		default:
			text = fmt.Sprintf("%.0f%% CI ", 100*c) + text
		}
	}
	return "(" + text + ")"
}

// kindOfKey tells a number's unit by its name, as docs/record.md has it.
func kindOfKey(key string) kind {
	switch key {
	case "lambda", "capacity", "per_run":
		return kindPerS
	case "share", "busy", "busiest_worker", "run_delay", "left", "floor", "within", "confidence":
		return kindShare
	case "relative":
		return kindChange
	case "headroom", "times":
		return kindTimes
	case "elasticity", "sum":
		return kindTwo
	case "sigma", "kappa", "r2":
		return kindThree
	case "low", "high", "mid", "best", "x":
		return kindCount
	}
	for _, s := range []struct {
		suffix string
		kind   kind
	}{{"bits_per_s", kindBits}, {"bits_per_second", kindBits}, {"per_s", kindPerS}, {"_ns", kindNs}, {"_ns_per_request", kindNs},
		{"_us", kindNs}, {"_s", kindNs}, {"_bytes", kindBytes}, {"_share", kindShare}} {
		if strings.HasSuffix(key, s.suffix) {
			return s.kind
		}
	}
	return kindCount
}

// scaleOfKey makes nanoseconds of the times that are kept in other units.
func scaleOfKey(key string) float64 {
	switch {
	case strings.HasSuffix(key, "per_s"):
		return 1
	case strings.HasSuffix(key, "_us"):
		return 1e3
	case strings.HasSuffix(key, "_s"):
		return 1e9
	}
	return 1
}

var errNotMeasured = errors.New("was not measured")

// valueAt prints what a path has led to.
func valueAt(at *place) (value, error) {
	if err := measured(at); err != nil {
		return value{}, err
	}
	switch v := at.value.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil && slices.Contains([]string{"started", "created"}, at.last()) {
			return textValue(t.UTC().Format("2 January 2006, 15:04 UTC")), nil
		}
		if v == "" {
			return value{}, errors.New("is empty in the record")
		}
		return textValue(v), nil
	case bool:
		return textValue(map[bool]string{true: "yes", false: "no"}[v]), nil
	case json.Number:
		return numberAt(at, v)
	case map[string]any:
		return estimateAt(at, v)
	case []any:
		return listAt(at, v)
	}
	return value{}, errNotMeasured
}

func numberAt(at *place, n json.Number) (value, error) {
	v, err := n.Float64()
	if err != nil {
		return value{}, fmt.Errorf("is no number that can be shown: %w", err)
	}
	key, parent := at.last(), map[string]any{}
	if len(at.parents) > 0 {
		parent = at.parents[len(at.parents)-1]
	}
	switch {
	case slices.Contains([]string{"a", "b", "value"}, key) && parent["unit"] != nil:
		return numberValue(kindOfUnit(plainText(parent["unit"])), v), nil
	case key == "value" && parent["term"] != nil:
		return textValue(page.TermValue(plainText(parent["term"]), v)), nil
	case slices.Contains([]string{"mid", "low", "high"}, key) && parent["confidence"] != nil && len(at.keys) > 1:
		key = at.keys[len(at.keys)-2] // the estimate's own name
	case slices.Contains([]string{"share", "low", "high"}, key) && parent["share"] != nil:
		key = "share"
	case slices.Contains([]string{"read", "written"}, key) && len(at.keys) > 1 && at.keys[len(at.keys)-2] == "bytes":
		key = "_bytes"
	}
	return numberValue(kindOfKey(key), v*scaleOfKey(key)), nil
}

// kindOfUnit is of a unit that the record names beside a number.
func kindOfUnit(name string) kind {
	switch name {
	case "ns":
		return kindNs
	case "/s", "1/s", "requests/s":
		return kindPerS
	case "share":
		return kindShare
	case "bytes":
		return kindBytes
	case "bit/s", "bits/s":
		return kindBits
	}
	return kindThree
}

// estimateAt prints an estimate with its interval; of another object a part has
// to be named.
func estimateAt(at *place, v map[string]any) (value, error) {
	mid, ok1 := v["mid"].(json.Number)
	low, ok2 := v["low"].(json.Number)
	high, ok3 := v["high"].(json.Number)
	if !ok1 || !ok2 || !ok3 {
		var keys []string
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return value{}, fmt.Errorf("has parts; name one of %s", strings.Join(keys, ", "))
	}
	m, err1 := mid.Float64()
	l, err2 := low.Float64()
	h, err3 := high.Float64()
	if err := errors.Join(err1, err2, err3); err != nil {
		return value{}, err
	}
	key := at.last()
	k, scale := kindOfKey(key), scaleOfKey(key)
	out := numberValue(k, m*scale)
	out.low, out.high = l*scale, h*scale
	if out.high > out.low {
		out.text += " " + interval(k.format(out.low), k.format(out.high), v["confidence"])
	}
	return out, nil
}

func listAt(at *place, list []any) (value, error) {
	var parts []string
	for _, one := range list {
		switch one := one.(type) {
		case string:
			parts = append(parts, one)
		case json.Number:
			inner := *at
			inner.value = one
			v, err := numberAt(&inner, one)
			if err != nil {
				return value{}, err
			}
			parts = append(parts, v.text)
		default:
			return value{}, fmt.Errorf("is a list of %d; take one by its number or by what it has, as in [key=value]", len(list))
		}
	}
	if len(parts) == 0 {
		return value{}, errors.New("is an empty list")
	}
	between := ", "
	if strings.Contains(strings.Join(parts, ""), ",") {
		between = "; "
	}
	return textValue(strings.Join(parts, between)), nil
}

// measured refuses what a record has in the place of a figure that it does not
// know.
func measured(at *place) error {
	if at.value == nil {
		return errNotMeasured
	}
	if n, ok := at.value.(json.Number); ok && n.String() == "-1" && slices.Contains([]string{"run_delay", "busy"}, at.last()) {
		return errNotMeasured
	}
	if len(at.parents) == 0 {
		return nil
	}
	parent := at.parents[len(at.parents)-1]
	if _, quantiles := parent["p50_ns"]; quantiles && plainText(parent["count"]) == "0" && at.last() != "count" {
		return errNotMeasured
	}
	estimate := parent
	if object, ok := at.value.(map[string]any); ok {
		estimate = object
	}
	cost := strings.Contains(strings.Join(at.keys[max(len(at.keys)-2, 0):], "."), "cpu_ns")
	if _, is := estimate["confidence"]; is && cost && plainText(estimate["mid"]) == "0" {
		return errNotMeasured
	}
	return nil
}
