package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// call is a command that is one request to the admin API, or to the client API where F is for that.
// F has its flags and arguments, A is the answer. The tags of its field say the rest, where {Pool}
// stands for a field of F:
//
//	call:"POST pools/{Pool}/grants"  the method and the path, below the environment or, with / in
//	                                 front, below the root of the API
//	with:"paused=true"               a field of the body that no flag sets
//	says:"Pool {Pool} is frozen."    what to print where the answer does not print itself
//	notes:"The secret of {Flow}."    what to print on the side, of an answer with a secret
//
// Fields of F with a tag json are the body, which a method complete may change, those with a tag
// query the query.
type call[F, A any] struct {
	Flags F `embed:""`
}

// none is an answer that is not read.
type none struct{}

// Help is what F says of the command.
func (c *call[F, A]) Help() string {
	if f, ok := any(&c.Flags).(kong.HelpProvider); ok {
		return f.Help()
	}
	return ""
}

// Run sends the request and prints the answer.
func (c *call[F, A]) Run(ctx context.Context, out io.Writer, k *kong.Context) error {
	tag := k.Selected().Tag
	method, path, _ := strings.Cut(tag.Get("call"), " ")
	if !strings.HasPrefix(path, "/") {
		path = "/accounts/{Account}/environments/{Environment}/" + path
	}
	flags := any(&c.Flags).(interface {
		root() string
		send(ctx context.Context, method, path string, body, v any) (json.RawMessage, error)
	})
	if f, ok := any(&c.Flags).(interface {
		resolve(ctx context.Context) error
	}); ok {
		if err := f.resolve(ctx); err != nil {
			return err
		}
	}
	path, where, _ := strings.Cut(flags.root()+path, "?")
	path = c.expand(path, url.PathEscape)
	if where != "" {
		path += "?" + c.expand(where, url.QueryEscape)
	}
	if query := c.tagged("query"); len(query) > 0 {
		values := url.Values{}
		for name, value := range query {
			values.Set(name, fmt.Sprint(value))
		}
		path += "?" + values.Encode()
	}
	var body any
	if name, value, fixed := strings.Cut(tag.Get("with"), "="); fixed {
		fields := map[string]any{name: json.RawMessage(value)}
		maps.Copy(fields, c.tagged("json"))
		body = fields
	} else if fields := c.tagged("json"); fields != nil {
		if f, ok := any(&c.Flags).(interface{ complete(body map[string]any) }); ok {
			f.complete(fields)
		}
		body = fields
	}
	var answer A
	var into any
	if _, unread := any(answer).(none); !unread {
		into = &answer
	}
	data, err := flags.send(ctx, method, path, body, into)
	if err != nil {
		return err
	}
	if f, ok := any(&c.Flags).(interface{ json() bool }); ok && f.json() {
		return Say(out, "%s", data)
	}
	if v, ok := any(&answer).(interface{ secret() string }); ok && v.secret() != "" {
		if err = Say(out, "%s", v.secret()); err != nil {
			return err
		}
		return Say(os.Stderr, "%s", c.expand(tag.Get("notes"), strings.Clone))
	}
	if v, ok := any(&answer).(interface{ print(out io.Writer) error }); ok {
		return v.print(out)
	}
	return Say(out, "%s", c.expand(tag.Get("says"), strings.Clone))
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// expand puts the values of fields in place of their names.
func (c *call[F, A]) expand(text string, escape func(string) string) string {
	flags := reflect.ValueOf(c.Flags)
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		return escape(fmt.Sprint(flags.FieldByName(name[1 : len(name)-1])))
	})
}

// tagged returns the values of the fields with a tag, by the names in it; one with omitempty only
// where it is not zero. nil: no field has the tag.
func (c *call[F, A]) tagged(key string) (values map[string]any) {
	flags := reflect.ValueOf(c.Flags)
	for _, f := range reflect.VisibleFields(flags.Type()) {
		name, option, _ := strings.Cut(f.Tag.Get(key), ",")
		if name == "" {
			continue
		}
		if values == nil {
			values = map[string]any{}
		}
		if v := flags.FieldByIndex(f.Index); option == "" || !v.IsZero() {
			values[name] = v.Interface()
		}
	}
	return values
}

type inEnvironment struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
}

// environmentOutput names an environment, and how to print what is in it.
type environmentOutput struct {
	inEnvironment `embed:""`
	OutputFlags   `embed:""`
}
