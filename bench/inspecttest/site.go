// Package inspecttest plays recorded sites: text files of requests and their answers, modelled on
// what products publish. A site is a Fetcher, so that an inspection of it is the same everywhere
// and needs no network.
package inspecttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"

	"tollgate/server/provider/fetch"
)

// Site is a recorded site. Each section begins with a line
//
//	=== URL [accept]
//
// and holds a status, a media type and headers, a blank line and a body. The URL * is whatever is
// not listed, else 404. Instead of a status there may be: fail RULE [status [bytes]] (a refusal of
// package fetch, of an answer with this status, after so many bytes of its body), or fail dns. Safe
// for concurrent use.
type Site struct {
	answers map[string]*answer
	// Before is called before each answer; nil is nothing.
	Before func(url string)
	// Rest, where it is not empty, is the JSON with which whatever is not listed is answered; %s in
	// it is the address that was asked for.
	Rest string

	mu    sync.Mutex
	asked []string
}

type answer struct {
	status int
	header http.Header
	body   string
	fail   string
	read   int
}

// Read reads a site from a file.
func Read(path string) (*Site, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Parse reads a site.
func Parse(text string) (*Site, error) {
	s := &Site{answers: map[string]*answer{}}
	for i, section := range strings.Split("\n"+text, "\n=== ") {
		if i == 0 { // what stands before the first is a comment
			continue
		}
		name, rest, _ := strings.Cut(section, "\n")
		a, err := parseAnswer(rest)
		if err != nil {
			return nil, fmt.Errorf("inspecttest: %s: %w", name, err)
		}
		if s.answers[name] != nil {
			return nil, fmt.Errorf("inspecttest: %s appears twice", name)
		}
		s.answers[name] = a
	}
	return s, nil
}

func parseAnswer(text string) (*answer, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	first, rest, _ := strings.Cut(lines[0], " ")
	if first == "fail" {
		a := &answer{}
		var at string
		if a.fail, at, _ = strings.Cut(rest, " "); at != "" {
			if _, err := fmt.Sscan(at+" 0", &a.status, &a.read); err != nil {
				return nil, err
			}
		}
		return a, nil
	}
	status, err := strconv.Atoi(first)
	if err != nil {
		return nil, err
	}
	a := &answer{status: status, header: http.Header{}, body: body}
	if rest != "" {
		a.header.Set("Content-Type", rest)
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("%q is not a header", line)
		}
		a.header.Add(textproto.CanonicalMIMEHeaderKey(name), value)
	}
	return a, nil
}

// Do answers as the site does.
func (s *Site) Do(ctx context.Context, r *fetch.Request) (*fetch.Response, error) {
	accept := r.Header.Get("Accept")
	s.mu.Lock()
	s.asked = append(s.asked, r.URL)
	s.mu.Unlock()
	if s.Before != nil {
		s.Before(r.URL)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := s.answers[r.URL+" "+accept]
	for _, name := range []string{r.URL, "*"} {
		if a == nil && accept != "text/markdown" {
			a = s.answers[name]
		}
	}
	switch {
	case a == nil && s.Rest != "":
		a = &answer{
			status: 200, header: http.Header{"Content-Type": {"application/json"}},
			body: strings.ReplaceAll(s.Rest, "%s", r.URL),
		}
	case a == nil:
		a = &answer{status: 404, header: http.Header{}, body: "not found\n"}
	case a.fail == "dns":
		return nil, &fetch.Failure{Err: &net.DNSError{IsNotFound: true}}
	case a.fail == "network":
		return nil, &fetch.Failure{Err: errors.New("connection reset"), Status: a.status, Read: a.read}
	case a.fail != "":
		return nil, &fetch.Refusal{Rule: fetch.Rule(a.fail), Status: a.status, Read: a.read}
	}
	return &fetch.Response{
		Status: a.status, Header: a.header, Body: []byte(a.body), URL: r.URL,
	}, nil
}

// Asked are the addresses that were asked for, in the order of the requests.
func (s *Site) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}
