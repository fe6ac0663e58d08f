package race

import (
	"fmt"
	"regexp"
)

// nginx with what its manual recommends for a proxy: connections to the backend
// are kept, the log is buffered as ours is, files stay open for as long as ours
// are believed. Its buffers are twice its own default, which an answer of 4,500
// bytes would not fit: it takes one read from the backend less that way.
func nginx() Contestant {
	return Contestant{
		Name: Nginx, Program: "nginx", Install: "apt-get install nginx",
		version: "-v", pattern: regexp.MustCompile(`nginx/(\S+)`),
		render: func(s *Setup) (Configuration, bool) {
			return Configuration{File: "nginx.conf", Text: nginxText(s), Command: "exec {program} -c " + s.Dir + "/nginx.conf"}, true
		},
	}
}

func nginxText(s *Setup) string {
	log := "off"
	if s.Forward {
		log = s.Dir + "/access.log combined buffer=64k flush=1s"
	}
	return fmt.Sprintf(`daemon off;
pid %[1]s/pid;
error_log %[1]s/error.log;
worker_processes %[2]d;
worker_rlimit_nofile 20000;
events { worker_connections 19900; }
http {
  access_log %[3]s;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
%[4]s}
`, s.Dir, s.Workers, log, nginxServer(s))
}

func nginxServer(s *Setup) string {
	if s.Files {
		return fmt.Sprintf(`  types { text/html html; }
  sendfile on;
  open_file_cache max=100;
  open_file_cache_valid 1s;
  server {
    listen %s reuseport;
    root %s/site;
  }
`, s.Listen, s.Dir)
	}
	return fmt.Sprintf(`  upstream backend {
    server %[2]s;
    keepalive 128;
    keepalive_requests 1000000000;
  }
  server {
    listen %[1]s%[4]s reuseport;
%[5]s    location / {
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_buffer_size 8k;
      proxy_buffers 8 8k;
%[3]s    }
  }
`, s.Listen, s.Backend, when(s.Forward, `      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
`), when(s.TLS, " ssl http2"), when(s.TLS, fmt.Sprintf(`    ssl_certificate %[1]s/cert.pem;
    ssl_certificate_key %[1]s/key.pem;
    ssl_protocols TLSv1.3;
    ssl_ecdh_curve X25519;
`, s.Dir)))
}
