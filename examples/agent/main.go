// Agent is an example of an agent for `exec`: it asks the product for a key at POST {url}/keys, as
// a product for agents might offer it, and hands the key over. Where signup gives a code, it
// exchanges it; where a code was sent by e-mail, it asks a person, and goes on from where it was.
// The protocol is in server/provider/runner/DESIGN.md.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// task is what the agent is told: start, or resume with a checkpoint and a person's answer.
type task struct {
	Type, RunID, URL, Task, Credential, Answer string
	Checkpoint                                 []byte // base64 in JSON
}

type said struct {
	Key, Code, Exchange, Pending, Signup, Confirm, Error string
	status                                               string
}

// pause is what the agent goes on from when a person has found the code.
type pause struct{ Signup, Confirm string }

func say(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	if err != nil {
		os.Exit(1)
	}
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<10)
	var t task
	if !in.Scan() || json.Unmarshal(in.Bytes(), &t) != nil {
		os.Exit(2)
	}
	go func() { // cancel, or a server that has gone
		for in.Scan() {
			if strings.Contains(in.Text(), `"cancel"`) {
				break
			}
		}
		os.Exit(3)
	}()
	if t.Credential == "" {
		say(map[string]any{"type": "done", "step": "understand"})
		return
	}
	if err := t.obtain(); err != nil {
		code := "no_key"
		if errors.Is(err, errCaptcha) {
			code = "captcha"
		}
		say(map[string]any{
			"type": "done", "blocked": true, "step": "acquire_credential", "code": code,
			"reason": err.Error(),
		})
	}
}

var errCaptcha = errors.New("the product asks for a CAPTCHA")

// obtain asks for a key, or goes on with what a person has answered, and says what came of it.
func (t *task) obtain() error {
	var got said
	var err error
	if t.Type == "resume" {
		var p pause
		if err = json.Unmarshal(t.Checkpoint, &p); err != nil {
			return fmt.Errorf("the checkpoint is none of this agent's: %w", err)
		}
		say(map[string]any{"type": "event", "text": "sends the code"})
		got, err = t.post(p.Confirm, map[string]string{
			"signup": p.Signup, "code": strings.TrimSpace(t.Answer),
		})
	} else {
		say(map[string]any{"type": "event", "text": "asks for a key"})
		got, err = t.post("keys", map[string]string{})
	}
	if err == nil && got.Exchange != "" {
		say(map[string]any{"type": "event", "text": "exchanges the code"})
		got, err = t.post(got.Exchange, map[string]string{"code": got.Code})
	}
	switch {
	case err != nil:
		return err
	case got.Error == "captcha":
		return errCaptcha
	case got.Pending == "email_code":
		left, err := json.Marshal(pause{got.Signup, got.Confirm})
		if err != nil {
			return err
		}
		say(map[string]any{
			"type": "need_human", "checkpoint": left,
			"question": "Which code is in the newest e-mail of the product? The code alone, please.",
		})
		return nil
	case got.Key == "":
		return fmt.Errorf("the product gave no key (%s)", got.status)
	}
	say(map[string]any{"type": "credential", "value": got.Key})
	say(map[string]any{"type": "done", "step": "authenticate"})
	return nil
}

// proxy is the run's own, for every host: Go's rules would leave it aside on this machine, and only
// what goes through it is seen to have reached the product.
func proxy(*http.Request) (*url.URL, error) {
	address := os.Getenv("HTTP_PROXY")
	if address == "" {
		return nil, nil
	}
	return url.Parse(address)
}

// post sends something to a path of the product's, and reads its answer.
func (t *task) post(path string, body map[string]string) (s said, err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return s, err
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{Proxy: proxy}}
	address := strings.TrimSuffix(t.URL, "/") + "/" + path
	answer, err := client.Post(address, "application/json", bytes.NewReader(sent))
	if err != nil {
		return s, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if closed := answer.Body.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if s.status = answer.Status; err != nil {
		err = fmt.Errorf("the product's answer is not understood (%s): %w", s.status, err)
	}
	return s, err
}
