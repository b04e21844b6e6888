package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"tollgate/cmd/tollgate/devdata"
)

// ContextCommand keeps addresses and keys of clusters under names.
type ContextCommand struct {
	List   contextListCommand   `cmd:"" help:"List contexts, without their keys."`
	Use    contextUseCommand    `cmd:"" help:"Set the current context."`
	Set    contextSetCommand    `cmd:"" help:"Add a context, or change the given fields of one."`
	Remove contextRemoveCommand `cmd:"" help:"Delete a context and its keys."`
}

// Help says which cluster a command goes to.
func (c *ContextCommand) Help() string {
	return "A command goes to the cluster that its flags name, else to that of --context, else to " +
		"that of variables such as TOLLGATE_OPS, else to that of the context in use, else to that of " +
		"tollgate dev (dev.json), which is also the context named dev. Contexts are in " +
		"tollgate/contexts.json of your configuration folder, which only you can read. Keys of a " +
		"context go to its own addresses only, and so do those of dev.json."
}

// developed is the name of the cluster in dev.json, which the file does not have.
const developed = "dev"

// target is a cluster under a name. Empty fields have the defaults of the flags.
type target struct {
	Ops         []string `json:"ops,omitempty"`
	AdminKey    string   `json:"adminKey,omitempty"`
	URL         []string `json:"url,omitempty"`
	Key         string   `json:"key,omitempty"`
	CA          string   `json:"ca,omitempty"`
	Account     string   `json:"account,omitempty"`
	Environment string   `json:"env,omitempty"`
}

// values are the values of flags, by the names in their tags context.
func (t *target) values() map[string]string {
	return map[string]string{
		"ops": strings.Join(t.Ops, ","), "admin-key": t.AdminKey, "url": strings.Join(t.URL, ","),
		"key": t.Key, "ca": t.CA, "account": t.Account, "env": t.Environment,
	}
}

type contexts struct {
	Current string            `json:"current,omitempty"`
	Named   map[string]target `json:"contexts"`
}

func contextsFile() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("contexts: %w", err)
	}
	return filepath.Join(folder, "tollgate", "contexts.json"), nil
}

// loadContexts reads the file; nothing is there before the first context is set.
func loadContexts() (c contexts, err error) {
	c.Named = map[string]target{}
	file, err := contextsFile()
	if err != nil {
		return c, nil // without a home, as services and cron are: none was set
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return c, fmt.Errorf("%s holds keys and others may read it: chmod 600 %[1]s", file)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if c.Named == nil {
		c.Named = map[string]target{}
	}
	if err != nil {
		return c, fmt.Errorf("contexts: %s: %w", file, err)
	}
	return c, nil
}

// changeContexts reads the file and writes what change makes of it, one command at a time. Where
// change fails nothing is written.
func changeContexts(change func(*contexts) error) (err error) {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	unlock, err := devdata.Lock(file+".lock", true)
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := loadContexts()
	if err != nil {
		return err
	}
	if err = change(&all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return devdata.WriteFile(file, append(text, '\n'))
}

func (c *contexts) find(name string) (target, error) {
	t, found := c.Named[name]
	if !found {
		known := slices.Sorted(maps.Keys(c.Named))
		return t, fmt.Errorf("unknown context %q; known: %s", name,
			strings.Join(append(known, developed), ", "))
	}
	return t, nil
}

// has refuses a change of a context that there is not.
func (c *contexts) has(name string) error {
	if _, err := c.find(name); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	return nil
}

// ContextNames are the names that --context takes.
func ContextNames() []string {
	all, err := loadContexts()
	if err != nil {
		return nil // completion says nothing of errors
	}
	return append(slices.Sorted(maps.Keys(all.Named)), developed)
}

// FromContext gives a flag with a tag context, where the command line does not, the value of the
// context that is named or in use. One that the command line names also beats the environment, and
// so does --data, which names a dev.json.
func FromContext(k *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	key := flag.Tag.Get("context")
	if key == "" {
		return nil, nil
	}
	flags := map[string]*kong.Flag{}
	for _, f := range parent.Flags {
		flags[f.Name] = f
	}
	name, other, named := "", "", false
	if f := flags["context"]; f != nil {
		name, named = fmt.Sprint(k.FlagValue(f)), typed(k, f)
	}
	for _, f := range []string{"ops", "url", "data"} {
		if flags[f] != nil && typed(k, flags[f]) {
			other = f
			break
		}
	}
	switch {
	case other != "" && named && name != developed:
		return nil, ContextError{fmt.Errorf("--context %s and --%s name two clusters: give one", name,
			other)}
	case other == "data", other == "" && named && name == developed:
		if key == "ops" || key == "admin-key" || key == "url" || key == "key" {
			return "", nil // dev.json has it
		}
		return nil, nil
	case other != "", flags["context"] == nil, !named && (inEnv(flags["ops"]) || inEnv(flags["url"])):
		return nil, nil
	}
	t, name, err := chosen(name)
	if err != nil || name == developed {
		return nil, err
	}
	value := t.values()[key]
	if value == "" && (key == "ops" || key == "url") {
		return nil, ContextError{fmt.Errorf("context %s has no --%s: tollgate context set %[1]s "+
			"--%[2]s …", name, key)}
	}
	secret := key == "admin-key" || key == "key" // it goes to the context's own addresses alone
	if value == "" || !named && !secret && inEnv(flag) {
		return nil, nil
	}
	return value, nil
}

// chosen reads the context of a name, or the one in use.
func chosen(name string) (t target, found string, err error) {
	all, err := loadContexts()
	if name = cmp.Or(name, all.Current, developed); err == nil && name != developed {
		t, err = all.find(name)
	}
	if err != nil {
		return t, name, ContextError{err}
	}
	return t, name, nil
}

// ContextError means that contexts cannot be read, or that there is none of a name. No command was
// carried out.
type ContextError struct{ error }

// typed reports whether the command line has a flag.
func typed(k *kong.Context, flag *kong.Flag) bool {
	return slices.ContainsFunc(k.Path, func(p *kong.Path) bool {
		return p.Flag == flag && !p.Resolved
	})
}

// inEnv reports whether the environment has a flag's value.
func inEnv(flag *kong.Flag) bool {
	return flag != nil && slices.ContainsFunc(flag.Envs, func(name string) bool {
		return os.Getenv(name) != ""
	})
}

type contextListCommand struct {
	OutputFlags `embed:""`
}

// contextRow is a context as it is listed: no key is printed.
type contextRow struct {
	Name        string   `json:"name"`
	Current     bool     `json:"current"`
	Ops         []string `json:"ops,omitempty"`
	AdminKeySet bool     `json:"adminKeySet"`
	URL         []string `json:"url,omitempty"`
	KeySet      bool     `json:"keySet"`
	Account     string   `json:"account,omitempty"`
	Environment string   `json:"env,omitempty"`
}

// Run lists contexts.
func (c *contextListCommand) Run(out io.Writer) error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	var rows []contextRow
	for _, name := range slices.Sorted(maps.Keys(all.Named)) {
		t := all.Named[name]
		rows = append(rows, contextRow{
			name, name == all.Current, t.Ops, t.AdminKey != "", t.URL, t.Key != "", t.Account, t.Environment,
		})
	}
	rows = append(rows, contextRow{Name: developed, Current: all.Current == ""})
	return c.printValue(out, rows, func() error {
		t := NewTable(out, "USED", "NAME", "OPERATIONS", "API", "KEYS", "ACCOUNT", "ENVIRONMENT")
		for _, r := range rows {
			var keys []string
			if r.AdminKeySet {
				keys = append(keys, "admin")
			}
			if r.KeySet {
				keys = append(keys, "client")
			}
			used := ""
			if r.Current {
				used = "*"
			}
			if r.Name == developed {
				r.Ops = []string{"as dev.json says"}
			}
			t.Row(used, r.Name, either(strings.Join(r.Ops, " "), "–"), either(strings.Join(r.URL, " "), "–"),
				either(strings.Join(keys, ", "), "–"), either(r.Account, "–"), either(r.Environment, "–"))
		}
		return t.End()
	})
}

type contextUseCommand struct {
	Name string `arg:"" names:"context" help:"The context; dev is that of tollgate dev."`
}

// Run chooses a context.
func (c *contextUseCommand) Run(out io.Writer) error {
	err := changeContexts(func(all *contexts) error {
		all.Current = ""
		if c.Name == developed {
			return nil
		}
		all.Current = c.Name
		return all.has(c.Name)
	})
	if err != nil {
		return err
	}
	return Say(out, "Commands go to %s.", c.Name)
}

type contextSetCommand struct {
	Name        string   `arg:"" help:"The context's name."`
	Ops         []string `placeholder:"HOST:PORT" help:"Operations listeners; https://HOST:PORT for TLS."`
	AdminKey    *string  `placeholder:"KEY" help:"Admin key; - asks for it, so that no history keeps it."`
	URL         []string `name:"url" placeholder:"URL" help:"Client APIs of nodes."`
	Key         *string  `placeholder:"KEY" help:"API key; - asks for it."`
	CA          string   `name:"ca" type:"existingfile" placeholder:"FILE" help:"Authority of the nodes' certificates, PEM."`
	Account     *string  `placeholder:"NAME" help:"The account that commands are about."`
	Environment *string  `name:"env" enum:"sandbox,live" help:"sandbox or live."`
}

// Run adds or changes a context.
func (c *contextSetCommand) Run(ctx context.Context, out io.Writer) error {
	if c.Name == developed || strings.ContainsAny(c.Name, " \t\n") || c.Name == "" {
		return fmt.Errorf("%q cannot be a context's name; nothing was changed", c.Name)
	}
	in := bufio.NewReader(os.Stdin)
	for _, secret := range []struct {
		given *string
		asks  string
	}{{c.AdminKey, "Admin key"}, {c.Key, "API key"}} {
		if secret.given == nil || *secret.given != "-" {
			continue
		}
		var err error
		if *secret.given, err = askSecret(ctx, in, secret.asks); err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
	}
	current := false
	err := changeContexts(func(all *contexts) error {
		t := all.Named[c.Name]
		if c.Ops != nil {
			t.Ops = c.Ops
		}
		if c.URL != nil {
			t.URL = c.URL
		}
		t.CA = cmp.Or(c.CA, t.CA)
		for to, given := range map[*string]*string{
			&t.AdminKey: c.AdminKey, &t.Key: c.Key, &t.Account: c.Account, &t.Environment: c.Environment,
		} {
			if given != nil {
				*to = *given
			}
		}
		all.Named[c.Name], current = t, c.Name == all.Current
		return nil
	})
	if err != nil {
		return err
	}
	if current {
		return Say(out, "Context %s is set; commands go to it.", c.Name)
	}
	return Say(out, "Context %s is set. To use it: tollgate context use %[1]s, or --context %[1]s.",
		c.Name)
}

// askSecret reads a line from standard input; a terminal does not show it.
func askSecret(ctx context.Context, in *bufio.Reader, what string) (string, error) {
	terminal := int(os.Stdin.Fd())
	state, err := term.GetState(terminal)
	read := func() ([]byte, error) { return in.ReadBytes('\n') }
	if err == nil {
		fmt.Fprintf(os.Stderr, "%s: ", what)
		defer fmt.Fprintln(os.Stderr)
		read = func() ([]byte, error) { return term.ReadPassword(terminal) }
	}
	var line []byte
	done := make(chan error, 1)
	go func() {
		var err error
		line, err = read()
		done <- err
	}()
	select {
	case <-ctx.Done(): // reading goes on until the process ends
		if state != nil {
			awaitSilence(terminal, state, done)
			err = term.Restore(terminal, state)
		}
		return "", errors.Join(ctx.Err(), err)
	case err = <-done:
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("standard input: %w", err)
	}
	secret := strings.TrimSpace(string(line))
	if secret == "" {
		return "", fmt.Errorf("%s: standard input has none", what)
	}
	return secret, nil
}

// awaitSilence waits until term.ReadPassword, which has just begun, has turned the echo of a
// terminal off: what is restored before that does not last. It gives up after a second, as the echo
// may have been off before.
func awaitSilence(terminal int, before *term.State, done <-chan error) {
	late := time.After(time.Second)
	for {
		if now, err := term.GetState(terminal); err != nil || !reflect.DeepEqual(now, before) {
			return
		}
		select {
		case <-done:
			return
		case <-late:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

type contextRemoveCommand struct {
	Name string `arg:"" names:"context" help:"The context."`
}

// Run deletes a context.
func (c *contextRemoveCommand) Run(out io.Writer) error {
	current := ""
	err := changeContexts(func(all *contexts) error {
		if err := all.has(c.Name); err != nil {
			return err
		}
		delete(all.Named, c.Name)
		if all.Current == c.Name {
			all.Current = ""
		}
		current = all.Current
		return nil
	})
	if err != nil {
		return err
	}
	return Say(out, "Context %s is removed; commands go to %s.", c.Name, either(current, developed))
}
