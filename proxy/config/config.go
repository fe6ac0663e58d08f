// Package config reads a proxy's TOML file: what it listens on, its limits, and regions of
// locations with their destinations, in RoadSign's terms, so that it can read RoadSign's region
// and settings files. Decoding is strict, and every error names its line.
//
// The zero value of a field means its documented default, which Read fills in.
package config

import (
	"fmt"
	"time"
)

// Config is a whole file, including the files it includes.
type Config struct {
	// Listen has "host:port"; an empty host means every address. "unix:/path" is a socket, "systemd:NAME"
	// one that systemd has opened (FileDescriptorName=), which stays open while the proxy is replaced.
	// Default 127.0.0.1:8080, or none if TLS is configured.
	Listen []string `toml:"listen"`
	// ProxyProtocol requires a PROXY protocol header, version 1 or 2, on every connection, from a
	// trusted proxy.
	ProxyProtocol bool `toml:"proxy_protocol"`
	// Admin is the address of /metrics, /status, /healthz, /traces, /reload, the applications and
	// publishing; "" for none.
	Admin string `toml:"admin"`
	// Workers is the number of loops; 0 means one per CPU.
	Workers int `toml:"workers"`
	// Via is the name to add to Via fields; "" adds none.
	Via string `toml:"via"`
	// Trust lists the networks of proxies with trusted X-Forwarded-*; "unix" are the clients of
	// unix sockets.
	Trust []string `toml:"trust"`
	// Include lists region files, as patterns relative to this file.
	Include []string `toml:"include"`

	TLS      TLS      `toml:"tls"`
	Publish  Publish  `toml:"publish"`
	Timeouts Timeouts `toml:"timeouts"`
	Limits   Limits   `toml:"limits"`
	Log      Log      `toml:"log"`

	Regions []Region `toml:"regions"`
	// A file may itself be one region, like RoadSign's.
	Region

	Settings

	Notes Notes `toml:"-"`
}

// Notes are what a start survives.
type Notes struct {
	// Unserved lists what the file asks for and the proxy does not do: Read fills it in.
	Unserved Errors
	// Warnings lists what would fail requests: Check fills it in.
	Warnings Errors
}

// Publish says what can be published over the admin address.
type Publish struct {
	// Regions is a directory of region files, which Include also covers.
	Regions string `toml:"regions"`
	// UploadBytes and UnpackedBytes bound a zip: 256 MiB and 1 GiB.
	UploadBytes   int64  `toml:"upload_bytes"`
	UnpackedBytes int64  `toml:"unpacked_bytes"`
	Sites         []Site `toml:"sites"`
}

// DefaultKeep is the default of Site.Keep.
const DefaultKeep = 3

// Site is a directory with releases to publish.
type Site struct {
	ID string `toml:"id"` // in the address of publishing: /sites/ID
	// Directory becomes a link to the served release.
	Directory string `toml:"directory"`
	// Keep is how many releases are kept: 3.
	Keep int `toml:"keep"`
	// Command runs in Directory after each change; if it fails, the change is undone.
	Command []string `toml:"command"`
}

// Timeouts; 0 means the default, a negative one none.
type Timeouts struct {
	Header       Duration `toml:"header"`        // a request's complete head: 10s
	KeepAlive    Duration `toml:"keep_alive"`    // a client's connection between requests: 75s
	Connect      Duration `toml:"connect"`       // to a destination: 2s
	Response     Duration `toml:"response"`      // from the end of the request to the response's head: 60s
	Idle         Duration `toml:"idle"`          // between two pieces of a body, in either direction: 60s
	Tunnel       Duration `toml:"tunnel"`        // a tunnel without a byte: 1h
	Total        Duration `toml:"total"`         // of a whole request: none
	Queue        Duration `toml:"queue"`         // waiting for a destination's connection: 5s
	UpstreamIdle Duration `toml:"upstream_idle"` // a destination's connection between requests: 4s, below the 5s of common servers
	Drain        Duration `toml:"drain"`         // at the end: 30s
}

// Limits; 0 means the default.
type Limits struct {
	HeaderBytes          int   `toml:"header_bytes"`           // 16 KiB, at most 64 KiB
	HeaderLines          int   `toml:"header_lines"`           // 100
	BodyBytes            int64 `toml:"body_bytes"`             // no limit
	Connections          int   `toml:"connections"`            // of clients, divided among workers and processes: 15/16 of the process's descriptors
	ConnectionsPerClient int   `toml:"connections_per_client"` // by address; further ones get 429 and are closed: no limit
	RequestsPerClient    int   `toml:"requests_per_client"`    // per second and address, over all locations; excess gets 429 with Retry-After: no limit
	IPv6Prefix           int   `toml:"ipv6_prefix"`            // bits of an IPv6 address that are one client to every limit: 64, what one customer has
}

// Log is the access log.
type Log struct {
	// Access is a file, "-" for standard output, or "off", the default. SIGUSR1 opens the file again.
	Access string `toml:"access"`
	// Format is "combined", the default, or "json". For responses of 500 and above, combined has the
	// cause and the destination as two more quoted fields, json as error and destination.
	Format string `toml:"format"`
	// Sample is the share of requests logged; responses of 500 and above always are. Default 1.
	Sample float64 `toml:"sample"`
	// Traces is how many of the last requests each worker keeps for the admin address, at most
	// 4096; 0 for none. GET /traces returns them newest first, one line of JSON each.
	Traces int `toml:"traces"`
	// Skip lists the IDs of locations without an access log, but for responses of 500 and above:
	// health checks. nginx: access_log off.
	Skip []string `toml:"skip"`
	// Fields adds request fields to the JSON log, by the log's name: { tenant = "X-Tenant" }.
	Fields map[string]string `toml:"fields"`
	// RequestID is a field, such as X-Request-Id, that every request and its response carry: 128 random
	// bits, or what a trusted client sent. The JSON log has it as request_id. nginx: $request_id;
	// HAProxy: unique-id-header.
	RequestID string `toml:"request_id"`
	// Traceparent begins a trace (W3C Trace Context) for requests without one. The JSON log has its
	// trace_id.
	Traceparent bool `toml:"traceparent"`
}

// Region groups locations and applications.
type Region struct {
	ID           string        `toml:"id"`       // for publishing and messages
	Disabled     bool          `toml:"disabled"` // is as if it were not there
	Locations    []Location    `toml:"locations"`
	Applications []Application `toml:"applications"`
	// ErrorPages are files instead of the proxy's own error pages, by status ("404") or class ("5xx"),
	// relative to this file. Those outside of a region are for all regions and for requests that no
	// location matches. {status}, {reason} and {detail} in them are replaced. nginx: error_page; Caddy:
	// handle_errors.
	ErrorPages map[string]ErrorPage `toml:"error_pages"`
}

// Location is a set of requests and what to do with them.
type Location struct {
	ID string `toml:"id"`
	// At is where the location begins: Read fills it in.
	At Place `toml:"-"`

	// Hosts are names with or without a port, *.suffix, prefix.*, or * for any. Empty means any.
	Hosts []string `toml:"hosts"`
	Host  []string `toml:"host"` // the same, RoadSign's older name
	// Paths are "/prefix" (whole segments), "/below/*", "=/exact", "~regex"; a path with one of
	// ^$*+?()[]{}|\ is a regex for whole segments from the beginning. Empty means any.
	Paths []string `toml:"paths"`
	Path  []string `toml:"path"` // the same, RoadSign's older name
	// Methods; empty means any.
	Methods []string `toml:"methods"`
	// Queries must all be present with their values; "*" means any value.
	Queries map[string]string `toml:"queries"`
	// Headers must all be present, each with one of its values; "*" means any value.
	Headers map[string][]string `toml:"headers"`
	// Priority takes precedence over everything else, the highest first.
	Priority int `toml:"priority"`

	// Destinations are one or more, at most 63.
	Destinations []Destination `toml:"destinations"`
	// Fallback handles the requests when no destination can.
	Fallback *Destination `toml:"fallback"`
	// Redirect responds with a redirection; Destinations are then not needed.
	Redirect *Redirect `toml:"redirect"`
	// Respond is a fixed answer; Destinations are then not needed.
	Respond *Respond `toml:"respond"`
	// Access restricts who may use the location: everyone may by default.
	Access *Access `toml:"access"`
	// Balance is round_robin (the default; it takes weights), least_connections,
	// two_choices, hash, or sticky: by a cookie that the proxy sets. nginx: ip_hash, hash, sticky cookie.
	Balance string `toml:"balance"`
	// Key of Balance hash: "client" (the default), "path", "header:NAME", "cookie:NAME". Of Balance
	// sticky: "cookie:NAME", "cookie:destination" by default.
	Key string `toml:"key"`

	// Compress responses as the client prefers, see Transformer compressResponse.
	Compress bool `toml:"compress"`

	Rate            *Rate    `toml:"rate"`       // none by default
	Retry           *Retry   `toml:"retry"`      // two attempts by default
	Timeouts        Timeouts `toml:"timeouts"`   // the file's by default
	BodyBytes       int64    `toml:"body_bytes"` // larger bodies get 413; 0: the file's limit
	Helmet          *Helmet  `toml:"helmet"`     // of all responses; a destination's goes first
	RequestHeaders  Headers  `toml:"request_headers"`
	ResponseHeaders Headers  `toml:"response_headers"`
}

// Place is a line of a file.
type Place struct {
	File string
	Line int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Destination is where requests go: http://host:port[/base], https://…, http://_http._tcp.name for
// SRV records, unix:/path, or files://directory with index, suffix, fallback, maxAge, prefix, charset
// and missing.
type Destination struct {
	ID     string `toml:"id"` // in logs and publishing; the URI without one
	URI    string `toml:"uri"`
	Weight *int   `toml:"weight"` // 1 by default; 0: only clients that a sticky cookie ties to it
	// Host to send: "client", the default, keeps the client's, "upstream", the default of RoadSign's
	// files, sends the URI's, anything else this name.
	Host string `toml:"host"`
	// HTTP is the version that the destination speaks: "" and "1.1", or "2", over a plain
	// connection with prior knowledge and over TLS by ALPN.
	HTTP string `toml:"http"`
	// CA is a PEM file of the CAs for an https destination's certificate; "" means the system's.
	// Roots is its text: Read fills it in. nginx: proxy_ssl_trusted_certificate.
	CA    string `toml:"ca"`
	Roots []byte `toml:"-"`
	// ServerName is the name that an https destination is asked for and must have in its certificate;
	// "" means the URI's. nginx: proxy_ssl_name.
	ServerName string `toml:"server_name"`
	// Certificate is shown to an https destination that asks for one. nginx: proxy_ssl_certificate.
	Certificate *Certificate `toml:"certificate"`
	// Insecure accepts any certificate: who is on the path can read and change everything. nginx:
	// proxy_ssl_verify off.
	Insecure bool `toml:"insecure"`
	// BufferRequests waits for the whole of a chunked body, and sends it with its length: for servers
	// that cannot take chunks. It stays in memory, and is bounded by body_bytes, or 1 MiB. nginx:
	// proxy_request_buffering, which is on there.
	BufferRequests bool `toml:"buffer_requests"`
	// Timeout in milliseconds until the response's head: RoadSign's name for timeouts.response; also
	// ?timeout= behind an http uri.
	Timeout int `toml:"timeout"`
	// MaxConnections bounds the connections of all workers; 0 means no bound. Further requests
	// wait, at most Queue of them (0: 100 per worker).
	MaxConnections int `toml:"max_connections"`
	Queue          int `toml:"queue"`
	// IdleConnections kept for later requests, per worker; 0 means 64.
	IdleConnections int `toml:"idle_connections"`

	Health       *Health       `toml:"health"` // none by default
	Eject        Eject         `toml:"eject"`
	Helmet       *Helmet       `toml:"helmet"`
	Transformers []Transformer `toml:"transformers"` // in this order
}

// Redirect responds with 301, 302, 303, 307 or 308 (the default). In To, {host}, {path} and
// {query} are the request's; "?{query}" is empty without a query, and {host} has no port if
// To has another scheme or a port.
type Redirect struct {
	To     string `toml:"to"`
	Status int    `toml:"status"`
}

// Rate limits requests with the same key.
type Rate struct {
	Requests int      `toml:"requests"` // that get through; excess gets 429 with Retry-After
	Per      Duration `toml:"per"`      // 0 means a second
	Burst    int      `toml:"burst"`    // additional, at once
	Key      string   `toml:"key"`      // client (the default), path, header:NAME or cookie:NAME
}

// Retry of requests that failed before the first byte of a response.
type Retry struct {
	// Attempts is how many there may be after the first; nil means 2.
	Attempts *int `toml:"attempts"`
	// Budget is the share of requests that may be retried; 0 means 0.2.
	Budget float64 `toml:"budget"`
}

// Health probes a destination.
type Health struct {
	Path     string   `toml:"path"`     // "" means /
	Interval Duration `toml:"interval"` // 0 means 5 s
	Timeout  Duration `toml:"timeout"`  // 0 means 2 s
	Rise     int      `toml:"rise"`     // successes to come back; 0 means 2
	Fall     int      `toml:"fall"`     // failures to be taken out; 0 means 2
	Status   []int    `toml:"status"`   // successful ones; none means 200 to 399
}

// Eject takes out a failing destination: after Failures in a row for For, twice as long after the
// next failure, up to Most. Then one request tests it. Failures on one path count once.
type Eject struct {
	Failures int      `toml:"failures"` // 0 means 5, negative never
	For      Duration `toml:"for"`      // 0 means 5 s
	Most     Duration `toml:"most"`     // 0 means 1 min
}

// Headers edits a head, in the order remove, set, add.
type Headers struct {
	Remove []string          `toml:"remove"`
	Set    map[string]string `toml:"set"`
	Add    map[string]string `toml:"add"`
}

// Transformer changes the request or the response: replacePath or compressResponse.
type Transformer struct {
	Type    string           `toml:"type"` // replacePath or compressResponse
	Options TransformOptions `toml:"options"`
}

// TransformOptions of either type. replacePath replaces Pattern with Value; with Complex, Pattern
// is a regex and Repl its replacement. compressResponse has a Level: 1 fast, 2 small, otherwise
// in between.
type TransformOptions struct {
	Pattern string `toml:"pattern"`
	Value   string `toml:"value"`
	Repl    string `toml:"repl"`
	Complex bool   `toml:"complex"`
	Level   int    `toml:"level"`
}

// Helmet sets security headers on responses: each field the header of its name, RoadSign's terms.
// The header of HSTS goes only to TLS clients.
type Helmet struct {
	XSSProtection             string `toml:"xss_protection"`
	ContentTypeNosniff        string `toml:"content_type_nosniff"`
	XFrameOptions             string `toml:"x_frame_options"`
	HSTSMaxAge                int    `toml:"hsts_max_age"`
	HSTSExcludeSubdomains     bool   `toml:"hsts_exclude_subdomains"`
	HSTSPreloadEnabled        bool   `toml:"hsts_preload_enabled"`
	ContentSecurityPolicy     string `toml:"content_security_policy"`
	CSPReportOnly             bool   `toml:"csp_report_only"`
	ReferrerPolicy            string `toml:"referrer_policy"`
	PermissionPolicy          string `toml:"permission_policy"`
	CrossOriginEmbedderPolicy string `toml:"cross_origin_embedder_policy"`
	CrossOriginOpenerPolicy   string `toml:"cross_origin_opener_policy"`
	CrossOriginResourcePolicy string `toml:"cross_origin_resource_policy"`
	OriginAgentCluster        string `toml:"origin_agent_cluster"`
	XDNSPrefetchControl       string `toml:"xdns_prefetch_control"`
	XDownloadOptions          string `toml:"x_download_options"`
	XPermittedCrossDomain     string `toml:"x_permitted_cross_domain"`
}

// Application is a process that the proxy keeps running.
type Application struct {
	ID          string   `toml:"id"`          // unique
	Workdir     string   `toml:"workdir"`     // the proxy's by default
	Command     []string `toml:"command"`     // the program and its arguments; no shell
	Exe         string   `toml:"exe"`         // RoadSign's older name for a command without arguments
	Environment []string `toml:"environment"` // NAME=value, added to the proxy's
	// Ready is an http URI or host:port that responds when the application is ready; "" means at
	// once. ReadyWithin is how long that may take before it is restarted: 1m.
	Ready       string   `toml:"ready"`
	ReadyWithin Duration `toml:"ready_within"`
	// Stop is how long it may take to exit after SIGTERM before SIGKILL: 10s.
	Stop Duration `toml:"stop"`
	// Log is a file to append to; "" means the proxy's standard error, each line with the ID
	// in front.
	Log string `toml:"log"`
}

// Duration is a duration such as "1m30s".
type Duration time.Duration

// UnmarshalText parses Go's duration format.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// Or returns the duration, the default for 0, and 0 for "none".
func (d Duration) Or(otherwise time.Duration) time.Duration {
	switch {
	case d == 0:
		return otherwise
	case d < 0:
		return 0
	}
	return time.Duration(d)
}
