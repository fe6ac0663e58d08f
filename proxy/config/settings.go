package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Settings are the tables of RoadSign's settings file, of its last version and of older ones. Read
// translates those with a meaning here into the fields of Config.
type Settings struct {
	Debug struct {
		PrintRoutes bool `toml:"print_routes"`
	} `toml:"debug"`
	Hypertext struct {
		Ports           []string `toml:"ports"`
		SecuredPorts    []string `toml:"secured_ports"`
		SideloadPorts   []string `toml:"sideload_ports"` // the older name of Sideload.Ports
		SideloadSecured []string `toml:"sideload_secured_ports"`
		ForceHTTPS      bool     `toml:"force_https"`
		RedirectToHTTPS bool     `toml:"redirect_to_https"`
		Certificate     any      `toml:"certificate"` // an array of tables, or one table with redirect
		Limitation      struct {
			MaxBodySize int64 `toml:"max_body_size"`
			MaxQPS      int   `toml:"max_qps"`
		} `toml:"limitation"`
	} `toml:"hypertext"`
	Sideload struct {
		Ports          []string `toml:"ports"`
		SecuredPorts   []string `toml:"secured_ports"`
		TrustedProxies []string `toml:"trusted_proxies"`
	} `toml:"sideload"`
	Logging struct {
		Access     string `toml:"access"`
		WardenApps string `toml:"warden_apps"`
	} `toml:"logging"`
	Paths struct {
		Configs string `toml:"configs"`
	} `toml:"paths"`
	Telemetry struct {
		RequestLogging bool `toml:"request_logging"`
		CaptureTraces  bool `toml:"capture_traces"`
	} `toml:"telemetry"`
	Performance struct {
		Prefork        bool  `toml:"prefork"`
		TracesLimit    int   `toml:"traces_limit"`
		LowMemory      bool  `toml:"low_memory"`
		RequestLogging bool  `toml:"request_logging"`
		NetworkTimeout int64 `toml:"network_timeout"` // milliseconds
	} `toml:"performance"`
	Security struct {
		Credential            string   `toml:"credential"`
		SideloadTrustedProxys []string `toml:"sideload_trusted_proxies"`
	} `toml:"security"`

	certificates []Certificate // of Hypertext.Certificate, as far as they are used
}

// translate maps the tables of RoadSign's settings.
func (k *checker) translate(c *Config, at *places) {
	k.certificates(c, at)
	c.Hypertext.SideloadPorts = append(c.Hypertext.SideloadPorts, c.Sideload.Ports...)
	c.Hypertext.SideloadSecured = append(c.Hypertext.SideloadSecured, c.Sideload.SecuredPorts...)
	c.Listen = append(c.Listen, c.Hypertext.Ports...)
	if c.Admin == "" && len(c.Hypertext.SideloadPorts) > 0 {
		c.Admin = c.Hypertext.SideloadPorts[0]
	}
	if c.Limits.BodyBytes == 0 {
		c.Limits.BodyBytes = max(c.Hypertext.Limitation.MaxBodySize, 0)
	}
	c.TLS.Redirect = c.TLS.Redirect || c.Hypertext.ForceHTTPS || c.Hypertext.RedirectToHTTPS
	if c.Paths.Configs != "" {
		c.Include = append(c.Include, filepath.Join(c.Paths.Configs, "*.toml"))
		c.Publish.Regions = cmp.Or(c.Publish.Regions, c.Paths.Configs)
	}
	if c.Log.Access == "" && c.Logging.Access != "" { // it has JSON there too
		c.Log.Access, c.Log.Format = c.Logging.Access, firstOf(c.Log.Format, "json")
	}
	if c.Log.Access == "" && (c.Telemetry.RequestLogging || c.Performance.RequestLogging) {
		c.Log.Access = "-"
	}
	if c.Timeouts.Response == 0 && c.Performance.NetworkTimeout > 0 {
		c.Timeouts.Response = Duration(c.Performance.NetworkTimeout) * Duration(time.Millisecond)
	}
	if c.Limits.RequestsPerClient == 0 {
		c.Limits.RequestsPerClient = max(c.Hypertext.Limitation.MaxQPS, 0) // -1 means none
	}
	if c.Log.Traces == 0 && c.Telemetry.CaptureTraces {
		c.Log.Traces = 256
		if n := c.Performance.TracesLimit; n > 0 {
			c.Log.Traces = min(n, mostTraces)
		}
	}
}

// certificates reads either form of hypertext.certificate. RoadSign has no use for it without a
// secured port.
func (k *checker) certificates(c *Config, at *places) {
	c.TLS.Listen = append(c.TLS.Listen, c.Hypertext.SecuredPorts...)
	list, many := c.Hypertext.Certificate.([]any)
	if !many && c.Hypertext.Certificate != nil {
		list = []any{c.Hypertext.Certificate}
	}
	for i, one := range list {
		key := "hypertext.certificate"
		if many {
			key = fmt.Sprintf("%s.%d", key, i)
		}
		table, ok := one.(map[string]any)
		if !ok {
			k.add(at, key, "hypertext.certificate: a table with pem and key is wanted, each a file")
		}
		var pair Certificate
		for name, value := range table {
			text, isText := value.(string)
			switch {
			case name == "redirect":
				redirect, isBool := value.(bool)
				if !isBool {
					k.add(at, key+"."+name, "redirect: true or false is wanted")
				}
				c.Hypertext.RedirectToHTTPS = c.Hypertext.RedirectToHTTPS || redirect
			case name != "pem" && name != "key" && name != "sideload_pem" && name != "sideload_key":
				k.add(at, key+"."+name, "unknown key %s.%s", key, name)
			case !isText:
				k.add(at, key+"."+name, "%s: a text in quotes is wanted", name)
			case name == "pem":
				pair.PEM = text
			case name == "key":
				pair.Key = text
			}
		}
		if len(c.TLS.Listen) > 0 {
			c.certificates = append(c.certificates, pair)
		}
	}
	c.TLS.Certificates = append(c.TLS.Certificates, c.certificates...)
}

// unserved notes settings without effect. They are not errors: RoadSign's files have them.
func (k *checker) unserved(c *Config, at *places) {
	add := func(key, what string) {
		c.Notes.Unserved = append(c.Notes.Unserved, &Error{at.file, at.line(key), key + ": " + what})
	}
	sideload := func(old, now string) string {
		if _, ok := at.lines["sideload."+now]; ok {
			return "sideload." + now
		}
		return "hypertext." + old
	}
	if len(c.Hypertext.SideloadSecured) > 0 {
		add(sideload("sideload_secured_ports", "secured_ports"), "the admin address is served without TLS")
	}
	if len(c.Hypertext.SideloadPorts) > 1 {
		add(sideload("sideload_ports", "ports"), "there is one admin address: "+c.Admin)
	}
	if c.Hypertext.Certificate != nil && len(c.TLS.Listen) == 0 {
		add("hypertext.certificate", "nothing uses it without secured_ports")
	}
	if c.Debug.PrintRoutes {
		add("debug.print_routes", "is not done; ceiling proxy check counts the locations")
	}
	if c.Performance.LowMemory {
		add("performance.low_memory", "is not needed: traces are bounded by traces_limit")
	}
}

// ofRoadSign applies what differs in RoadSign's region files: without a host, a destination gets that
// of its URI, and an application's output goes to a file of its own.
func (r *Region) ofRoadSign(logs string) {
	for i := range r.Locations {
		for j := range r.Locations[i].Destinations {
			d := &r.Locations[i].Destinations[j]
			if d.Host == "" && !strings.HasPrefix(d.URI, "unix:") {
				d.Host = "upstream"
			}
		}
	}
	for i := range r.Applications {
		if a := &r.Applications[i]; a.Log == "" && logs != "" {
			a.Log = filepath.Join(logs, a.ID+".log")
		}
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
