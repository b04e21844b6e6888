package local

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
	"tollgate/cmd/tollgate/doctor"
	api "tollgate/sdk/go"
)

// SupportCommand collects what somebody who helps needs to see.
type SupportCommand struct {
	cli.AdminFlags `embed:""`
	Config         []string `type:"existingfile" placeholder:"FILE" help:"A node's configuration on this machine; repeatable. Default: those of tollgate dev."`
	Log            []string `placeholder:"FILE" help:"A node's log, - is standard input (journalctl -u tollgate | tollgate support --log -); repeatable. Default: those of tollgate dev."`
	File           string   `arg:"" optional:"" help:"The file to write, which must not exist. Default: tollgate-support-TIME.tar.gz."`
}

// Help says what is in the bundle.
func (c *SupportCommand) Help() string {
	return "The bundle has the version, doctor's findings, and of each node its status, metrics, " +
		"configuration and the end of its log, as far as they can be had; problems.txt says what could " +
		"not. Secrets of configurations are left out of all of it, as is whatever looks like a key. " +
		"Names of accounts, hosts and files are in it."
}

// maxLog is how much of the end of a log is taken.
const maxLog = 4 << 20

// bundle is a support bundle that is written.
type bundle struct {
	archive  *tar.Writer
	made     time.Time
	secrets  []string
	problems []string
}

// Run writes the bundle.
func (c *SupportCommand) Run(ctx context.Context, out io.Writer) error {
	b := &bundle{made: time.Now().UTC().Truncate(time.Second)}
	name := c.File
	if name == "" {
		name = "tollgate-support-" + b.made.Format("20060102T150405Z") + ".tar.gz"
	}
	c.dev()
	configs := b.configs(c.Config)
	if c.AdminKey != "" {
		b.secrets = append(b.secrets, c.AdminKey)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; nothing was changed: name another file", name)
	}
	if err != nil {
		return fmt.Errorf("support bundle: %w", err)
	}
	zipped := gzip.NewWriter(file)
	b.archive = tar.NewWriter(zipped)
	wait := cli.StartProgress("collecting", 0)
	err = b.fill(ctx, c, configs)
	wait.End()
	if err == nil {
		err = ctx.Err()
	}
	if err = errors.Join(err, b.archive.Close(), zipped.Close(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	missing := ""
	if n := len(b.problems); n > 0 {
		missing = fmt.Sprintf("Not everything could be collected: see problems.txt (%d). ", n)
	}
	return cli.Say(out, "Wrote %s. %sSecrets of configurations were removed. Review the bundle "+
		"before you send it.", name, missing)
}

// dev takes the files of tollgate dev where none are named.
func (c *SupportCommand) dev() {
	data := devdata.Folder(c.Data)
	running, err := data.Load()
	if err != nil || len(c.Ops) > 0 {
		return
	}
	for _, node := range running.Nodes {
		if len(c.Config) < len(running.Nodes) {
			c.Config = append(c.Config, data.NodeConfig(node.ID))
		}
		if len(c.Log) < len(running.Nodes) {
			c.Log = append(c.Log, data.NodeLog(node.ID))
		}
	}
}

// configs reads configurations, notes their secrets, and returns them without.
func (b *bundle) configs(files []string) (texts [][]byte) {
	for _, file := range files {
		settings, err := config.Load(file)
		if err != nil {
			// The error may quote a secret, and any value may be one.
			b.problem(file, errors.New("it cannot be read as a configuration"))
			b.secrets = append(b.secrets, values(file)...)
			continue
		}
		b.secrets = append(b.secrets, settings.TakeSecrets()...)
		if text, err := settings.YAML(); err != nil {
			b.problem(file, err)
		} else {
			texts = append(texts, text)
		}
	}
	return texts
}

// minSecret is how long a value has to be, in bytes, to be left out of the bundle where its
// file is not a configuration.
const minSecret = 8

// values are the values of a YAML file, or its words where it is none.
func values(file string) (all []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil {
		all = strings.FieldsFunc(string(text), func(r rune) bool {
			return unicode.IsSpace(r) || strings.ContainsRune("\"'[]{},", r)
		})
	}
	for nodes := []*yaml.Node{&root}; len(nodes) > 0; {
		n := nodes[0]
		nodes = append(nodes[1:], n.Content...)
		all = append(all, n.Value)
	}
	return slices.DeleteFunc(all, func(value string) bool { return len(value) < minSecret })
}

func (b *bundle) problem(what string, err error) {
	b.problems = append(b.problems, what+": "+err.Error())
}

func (b *bundle) fill(ctx context.Context, c *SupportCommand, configs [][]byte) error {
	b.add("version.txt", []byte(versionLine()+"\n"))
	for i, text := range configs {
		b.add(fmt.Sprintf("config-%d.yaml", i+1), text)
	}
	for i, name := range c.Log {
		text, err := logEnd(ctx, name)
		if err != nil {
			b.problem(name, err)
			continue
		}
		b.add(fmt.Sprintf("log-%d.txt", i+1), text)
	}
	asking := &DoctorCommand{AdminFlags: c.AdminFlags}
	witnesses, err := asking.ask(ctx)
	if err != nil {
		b.problem("cluster", err)
	} else {
		b.nodes(ctx, asking, witnesses)
	}
	if len(b.problems) > 0 {
		b.add("problems.txt", []byte(strings.Join(b.problems, "\n")+"\n"))
	}
	return b.archive.Flush()
}

// nodes adds what nodes say of themselves, and what doctor says of that.
func (b *bundle) nodes(ctx context.Context, c *DoctorCommand, witnesses []doctor.Witness) {
	var text bytes.Buffer
	report := doctor.Examine(witnesses, time.Now())
	if err := printReport(&text, &report); err != nil {
		b.problem("doctor", err)
	}
	b.add("doctor.txt", text.Bytes())
	for i, w := range witnesses {
		front := fmt.Sprintf("node-%d", i+1)
		if w.Status == nil {
			b.problem(w.Address, w.Refused)
			continue
		}
		said, err := json.MarshalIndent(map[string]any{"status": w.Status, "vitals": w.Vitals}, "", "  ")
		if err != nil {
			b.problem(front, err)
		}
		b.add(front+"-status.json", said)
		for _, path := range []string{"/metrics", "/readyz"} {
			answer, err := askOnce(ctx, c, w.Address, path)
			if err != nil {
				b.problem(w.Address+path, err)
				continue
			}
			b.add(front+strings.Replace(path, "/", "-", 1)+".txt", answer)
		}
	}
}

// askOnce asks a node for what it serves at a path.
func askOnce(ctx context.Context, c *DoctorCommand, address, path string) ([]byte, error) {
	node, err := cli.Connect([]string{address}, c.AdminKey, c.CA)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	node.AnswerTimeout = doctorPatience
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: path})
	return answer.Body, err
}

func logEnd(ctx context.Context, name string) (text []byte, err error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		defer file.Close()
		before := int64(0)
		if info, err := file.Stat(); err == nil && info.Size() > maxLog {
			if before, err = file.Seek(-maxLog, io.SeekEnd); err != nil {
				return nil, fmt.Errorf("log: %w", err)
			}
		}
		return lastOf(file, before > 0)
	}
	done := make(chan struct{})
	go func() { // reading goes on until the process ends
		defer close(done)
		text, err = lastOf(os.Stdin, false)
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("log: %w", ctx.Err())
	case <-done:
		return text, err
	}
}

// lastOf reads src to its end and returns whole lines of the last that it had; cut means that
// something before it was left out.
func lastOf(src io.Reader, cut bool) (text []byte, err error) {
	for part := make([]byte, 64<<10); ; {
		n, err := src.Read(part)
		if text = append(text, part[:n]...); len(text) > 2*maxLog {
			text, cut = slices.Clone(text[len(text)-maxLog:]), true
		}
		if errors.Is(err, io.EOF) {
			if over := len(text) - maxLog; over > 0 {
				text, cut = text[over:], true
			}
			if cut { // part of a secret may be all that is left of a line
				_, text, _ = bytes.Cut(text, []byte{'\n'})
			}
			return text, nil
		}
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
}

// keyLike finds what looks like a key, of whatever product.
var keyLike = regexp.MustCompile(
	`\b(?:[scr]k_(?:live|test|admin)|tg_(?:ws|clm|ses)|whsec|dev_mailbox)_[A-Za-z0-9+/=_-]+` +
		`|(?i:bearer) +[^\s"]+`)

const leftOut = "(left out)"

// forms are a secret as it is, and as logs quote it.
func forms(secret string) []string {
	all := []string{secret, strings.TrimPrefix(strconv.Quote(secret), `"`)}
	all[1] = strings.TrimSuffix(all[1], `"`)
	for _, html := range []bool{false, true} {
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(html)
		if encoder.Encode(secret) == nil {
			all = append(all, strings.TrimSuffix(text.String()[1:], "\"\n"))
		}
	}
	return all
}

// add writes a file of the bundle, without secrets.
func (b *bundle) add(name string, text []byte) {
	for _, secret := range b.secrets {
		for _, form := range forms(secret) {
			text = bytes.ReplaceAll(text, []byte(form), []byte(leftOut))
		}
	}
	text = keyLike.ReplaceAll(text, []byte(leftOut))
	err := b.archive.WriteHeader(&tar.Header{
		Name: filepath.ToSlash(filepath.Join("tollgate-support", name)), Mode: 0o600,
		Size: int64(len(text)), ModTime: b.made,
	})
	if err == nil {
		_, err = b.archive.Write(text)
	}
	if err != nil {
		b.problem(name, err)
	}
}
