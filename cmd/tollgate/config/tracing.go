package config

import "net/url"

// Tracing says where traces of requests go: to a collector of OpenTelemetry, by OTLP over HTTP.
type Tracing struct {
	// URL is the collector's, with its path: http://127.0.0.1:4318/v1/traces; empty traces nothing.
	URL string `yaml:"url"`
	// Ratio of the requests is traced that bring no traceparent header, from 0 to 1.
	Ratio float64 `yaml:"ratio"`
	// Authorization is that header of what is sent, such as "Bearer KEY".
	Authorization string `yaml:"authorization" secret:"true"`
}

func (t *Tracing) validate(complain complainer) {
	complain.when(t.Ratio < 0 || t.Ratio > 1, "tracing.ratio: %v: want 0 to 1", t.Ratio)
	if t.URL == "" {
		return
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		complain("tracing.url: want http(s)://host:port/v1/traces")
		return
	}
	// Settings are shown, in what support gets, too.
	complain.when(u.User != nil || u.RawQuery != "" || u.Fragment != "",
		"tracing.url: want no user and no query: a key belongs in tracing.authorization")
}
